"""`lookup` in the real loop, over pages and a search engine on loopback."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobot.agent.chats.services import AgentServices
from nanobot.agent.context import ContextBuilder
from nanobot.agent.loop import AgentLoop
from nanobot.agent.tools.docs import NanobotDocsTool
from nanobot.agent.tools.web.fetch import WebFetchTool
from nanobot.agent.tools.web.search import WebSearchTool
from nanobot.agent.turn import TurnLimits
from nanobot.bus.events import Address, InboundMessage, MessageBus, Sender, TurnFinished
from nanobot.command.router import CommandRouter
from nanobot.config.schema_web import WebFetchConfig, WebSearchConfig
from nanobot.errors import ProviderError
from nanobot.messages import AssistantMessage, Completed, Message, Text, TextDelta, ToolCall, ToolMessage, UserMessage
from nanobot.providers.base import Request, ToolSpec
from nanobot.providers.lookup.provider import LookupProvider, Step, next_step
from nanobot.providers.lookup.question import languages, understand
from nanobot.schedule.lines import split
from nanobot.session.sqlite import MemoryDatabase
from nanobot.session.store import SessionStore
from nanobot.utils.translation import settle
from nanobot.web.client import SystemNetwork
from tests.fakes.chinese import english_left
from tests.fakes.http_server import HttpServer, Responder
from tests.fakes.http_server import Request as HttpRequest
from tests.tables import table

TOOLS = tuple(ToolSpec(name, "", {}) for name in ("nanobot_docs", "web_fetch", "web_search"))
BRIDGE = (
    "The Kellan Bridge crosses the river Orm in the north of the country. It was opened on 4 May 1931 after six years "
    "of work. The engineer Mara Olsen designed it. The bridge is 412 metres long and carries two lanes of traffic."
)
CAKE = (
    "This cake needs flour, butter and four ripe apples. Bake it for fifty minutes in a hot oven until it is brown. "
    "Let it rest for an hour before you cut it, and serve it with cream to everybody who asks for a second piece."
)


@dataclass
class Web:
    """A web of named hosts: pages by host, and the order in which the engine lists them. `queries` keeps searches."""

    pages: dict[str, str]
    order: tuple[str, ...] = ()
    queries: list[str] = field(default_factory=list)
    port: int = 0

    async def handle(self, request: HttpRequest, responder: Responder) -> None:
        host = request.headers["host"].partition(":")[0]
        if request.path == "/search":
            self.queries.append(request.query["q"])
            results = [
                {"title": f"About {name}", "url": f"http://{name}:{self.port}/", "content": "A page."}
                for name in (self.order or tuple(self.pages))
            ]
            await responder.json({"results": results})
        elif host in self.pages:
            head, text = f"<head><title>{host}</title></head>", f"<article><p>{self.pages[host]}</p></article>"
            body = f"<html>{head}<body>{text}</body></html>"
            await responder.send(200, body, content_type="text/html")
        else:
            await responder.send(404, "gone", content_type="text/plain")


Ask = Callable[[str], Awaitable[TurnFinished]]


class Loopback(SystemNetwork):
    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        return ("127.0.0.1",)


@asynccontextmanager
async def agent(base_url: str, limits: TurnLimits | None = None) -> AsyncIterator[Ask]:
    fetch = WebFetchTool(WebFetchConfig(retries=0), whitelist=("127.0.0.0/8",), network=Loopback())
    search = WebSearchTool(WebSearchConfig(provider="searxng", base_url=base_url, fallback=()))
    docs = NanobotDocsTool()
    services = AgentServices(
        MessageBus(),
        SessionStore(MemoryDatabase()),
        LookupProvider(),
        ContextBuilder(),
        CommandRouter(()),
        {"web_search": lambda: search, "web_fetch": lambda: fetch, "nanobot_docs": lambda: docs},
    )
    loop = AgentLoop(services, limits=limits)

    async def ask(text: str) -> TurnFinished:
        return await loop.process(InboundMessage(Address("test", "1"), Sender("test", role="owner"), text))

    try:
        yield ask
    finally:
        await loop.aclose()
        await fetch.aclose()
        await search.aclose()


@asynccontextmanager
async def over(web: Web, limits: TurnLimits | None = None) -> AsyncIterator[Ask]:
    async with HttpServer(web.handle) as server:
        web.port = server.port
        async with agent(server.url, limits) as ask:
            yield ask


def quotes(text: str) -> list[str]:
    return [line.removeprefix("> ").rpartition(" [")[0] for line in text.splitlines() if line.startswith("> ")]


async def test_the_answer_quotes_the_passage_with_the_number_of_its_source_and_nothing_else() -> None:
    web = Web({"cake.test": CAKE, "bridge.test": BRIDGE})
    async with over(web) as ask:
        finished = await ask("Could you tell me who designed the Kellan Bridge, please?")
    assert finished.outcome == "completed"
    assert web.queries == ["who designed the Kellan Bridge"]
    first = quotes(finished.text)[0]
    assert "The engineer Mara Olsen designed it." in first
    assert all(part in f"{BRIDGE} {CAKE}" for quote in quotes(finished.text) for part in quote.split(" — "))
    cited = {source.number: source.url for source in finished.sources}
    number = next(number for number, url in cited.items() if "bridge.test" in url)
    assert f"[{number}]" in finished.text


async def test_the_best_page_is_read_first_and_others_together_on_different_sites_while_nothing_answers() -> None:
    request = _after_search(*(("Kellan Bridge", f"http://{host}/{at}") for at, host in enumerate("aaabcd")))
    assert _urls(next_step(request)) == ["http://a/0"]
    call = AssistantMessage((ToolCall("2", "web_fetch", json.dumps({"url": "http://a/0"})),))
    told = ToolMessage("2", "web_fetch", (Text("[1] Kellan\nurl: http://a/0\n\nThe Kellan Bridge is grey."),))
    assert _urls(next_step(Request((*request.messages, call, told), tools=TOOLS))) == [
        "http://b/3",
        "http://c/4",
        "http://d/5",
    ]


async def test_no_other_page_is_read_where_the_first_answers() -> None:
    web = Web({"bridge.test": BRIDGE, "cake.test": CAKE})
    async with over(web) as ask:
        finished = await ask("How long is the Kellan Bridge?")
    assert "412 metres" in quotes(finished.text)[0]
    assert [source.url.partition("//")[2].partition(":")[0] for source in finished.sources if source.read] == [
        "bridge.test"
    ]


@pytest.mark.parametrize("question", ["Who composed the opera Rusalka?", "Wie hoch ist die Steuer in Slowenien?"])
async def test_a_question_that_no_page_answers_is_declined_with_the_one_nearest_quote(question: str) -> None:
    async with over(Web({"bridge.test": BRIDGE, "cake.test": CAKE})) as ask:
        finished = await ask(question)
    assert finished.text.startswith(understand(question).says["nothing"])
    assert len(quotes(finished.text)) <= 1


@table(
    "text answer",
    ("Thanks a lot!", "You are welcome."),
    ("Danke!", "Gern geschehen."),
    ("what is 12 * 7?", "= 84"),
    ("15% of 80", "= 12"),
    ("what's 3 + 4 times 2?", "= 11"),
    ("Ciao!", "Ciao. Chiedi"),
    ("안녕하세요", "안녕하세요. 찾아볼"),
    ("Wer bist du?", "Ich bin lookup, kein Sprachmodell"),
    ("What time is it?", "UTC"),
    ("what time is it in Tokyo?", "(Asia/Tokyo)"),
)
async def test_small_talk_sums_and_the_time_are_answered_in_a_line_without_a_search(text: str, answer: str) -> None:
    web = Web({"bridge.test": BRIDGE})
    async with over(web) as ask:
        finished = await ask(text)
    assert answer in finished.text.partition("\n")[0]
    assert web.queries == []


async def test_the_weather_is_quoted_where_a_page_has_degrees_and_else_declined_in_a_line() -> None:
    async with over(Web({"kellan.test": "The weather in Kellan today: rain, 14 °C, wind from the west."})) as ask:
        told = await ask("What is the weather in Kellan?")
    async with over(Web({"bridge.test": BRIDGE})) as ask:
        declined = await ask("What is the weather in Kellan?")
    assert "14 °C" in told.text
    assert not quotes(declined.text)


async def test_what_it_says_about_itself_it_says_once_in_an_installation_and_in_the_language_of_the_question(
    tmp_path: Path,
) -> None:
    texts = []
    for _ in range(2):
        request = Request((UserMessage((Text("Hallo!"),)),), tools=TOOLS)
        last = [delta async for delta in LookupProvider(tmp_path / "introduced").stream(request)][-1]
        assert isinstance(last, Completed)
        texts.append(last.message.text)
    assert [languages()["de"]["says"]["about"] in text for text in texts] == [True, False]


async def test_a_pasted_link_is_read_without_a_search() -> None:
    web = Web({"bridge.test": BRIDGE})
    async with over(web) as ask:
        finished = await ask(f"How long is the bridge on http://bridge.test:{web.port}/?")
    assert web.queries == []
    assert "412 metres" in finished.text


async def test_a_pasted_link_alone_gets_the_beginning_of_the_page() -> None:
    web = Web({"bridge.test": BRIDGE})
    async with over(web) as ask:
        finished = await ask(f"http://bridge.test:{web.port}/")
    assert quotes(finished.text)[0].startswith("The Kellan Bridge crosses")


async def test_pages_that_fail_are_replaced_by_the_next_hits() -> None:
    web = Web({"bridge.test": BRIDGE}, order=("gone1.test", "gone2.test", "gone3.test", "bridge.test"))
    async with over(web) as ask:
        finished = await ask("When was the Kellan Bridge opened?")
    assert "4 May 1931" in finished.text


async def test_a_follow_up_carries_the_subject_of_the_question_before_it() -> None:
    web = Web({"cake.test": CAKE, "bridge.test": BRIDGE})
    async with over(web) as ask:
        await ask("How long is the Kellan Bridge?")
        finished = await ask("and who designed it?")
        await ask("What is a telegram?")
    assert "Kellan Bridge" in web.queries[1]
    assert "Mara Olsen" in quotes(finished.text)[0]
    assert "Kellan" not in web.queries[-1]


async def test_how_to_add_a_model_is_said_once_in_a_session() -> None:
    async with over(Web({"bridge.test": BRIDGE})) as ask:
        texts = [(await ask("How long is the Kellan Bridge?")).text for _ in range(2)]
    assert [languages()["en"]["says"]["about"] in text for text in texts] == [True, False]


async def test_without_a_network_the_turn_ends_as_a_temporary_failure() -> None:
    async with HttpServer(Web({}).handle) as server:
        dead = server.url
    async with agent(dead) as ask:
        finished = await ask("How long is the Kellan Bridge?")
        settle({"LANG": "zh_CN.UTF-8"})
        abroad = await ask("How long is the Kellan Bridge?")
        settle({})
    assert finished.outcome == "failed"
    assert finished.temporary
    assert "network" in finished.error
    assert abroad.error == finished.error, "in the language of the question, with its full stop"


@table(
    "question section",
    ("How do I connect Telegram?", "docs/quickstart.md#connect-telegram"),
    ("how do I add a model?", "docs/quickstart.md#add-a-model"),
    ("Wie verbinde ich Telegram?", "docs/"),
    ("怎么连接 Telegram？", "docs/zh/quickstart.md#连接-telegram"),
    ("What is nanobot?", "docs/index.md#nanobot"),
    ("What does /stop do in nanobot?", "docs/commands.md#stop"),
    ("How do I limit who may talk to the bot?", "docs/telegram.md#who-may-talk-to-it"),
)
async def test_questions_about_nanobot_get_the_section_of_its_docs_that_answers_without_a_network(
    question: str, section: str
) -> None:
    async with HttpServer(Web({}).handle) as server:
        dead = server.url
    async with agent(dead) as ask:
        finished = await ask(question)
    assert finished.outcome == "completed"
    assert finished.sources
    assert all(source.url.startswith("docs/") for source in finished.sources)
    assert "[1]" in finished.text
    assert finished.sources[0].url.startswith(section)
    assert len(finished.text.splitlines()) <= 15


@pytest.mark.parametrize("text", ["Hello!", "hi there", "write me a poem about rain", "who are you?", "???"])
async def test_what_cannot_be_looked_up_gets_a_plain_sentence_and_no_call(text: str) -> None:
    web = Web({"bridge.test": BRIDGE})
    async with over(web) as ask:
        finished = await ask(text)
    assert finished.outcome == "completed"
    assert finished.steps == 1
    assert web.queries == []


@pytest.mark.parametrize(
    "text",
    ["remind me in 20 minutes to call mum", "Erinnere mich morgen um 9 an den Zahnarzt", "提醒我明天早上八点开会"],
)
async def test_whoever_wants_to_be_reminded_gets_the_command_that_needs_no_model(text: str) -> None:
    web = Web({"bridge.test": BRIDGE})
    async with over(web) as ask:
        finished = await ask(text)
    line = finished.text.partition("`/schedule ")[2].partition("`")[0]
    assert split(line, datetime(2026, 6, 1, 7, tzinfo=UTC), UTC)[1] in text
    assert web.queries == []


async def test_at_the_step_limit_it_answers_with_what_it_has() -> None:
    async with over(Web({"bridge.test": BRIDGE}), TurnLimits(max_steps=2)) as ask:
        finished = await ask("How long is the Kellan Bridge?")
    assert finished.outcome == "out_of_steps"
    assert "412 metres" in finished.text


async def test_the_answer_is_streamed_in_pieces_that_make_the_message() -> None:
    request = Request((UserMessage((Text("Hello"),)),), tools=TOOLS)
    deltas = [delta async for delta in LookupProvider().stream(request)]
    pieces = [delta.text for delta in deltas if isinstance(delta, TextDelta)]
    last = deltas[-1]
    assert isinstance(last, Completed)
    assert len(pieces) > 5
    assert "".join(pieces) == last.message.text


def test_it_says_plainly_that_it_is_no_language_model() -> None:
    info = LookupProvider().info
    assert info.name == "lookup"
    assert not info.capabilities.language_model


@given(
    st.lists(st.tuples(st.sampled_from(["web_search", "web_fetch", "nanobot_docs", "other"]), st.text()), max_size=5)
)
def test_tool_results_of_any_shape_lead_to_calls_an_answer_or_a_provider_error(results: list[tuple[str, str]]) -> None:
    messages: list[Message] = [UserMessage((Text("How long is the Kellan Bridge?"),))]
    for at, (name, text) in enumerate(results):
        messages.append(AssistantMessage((ToolCall(str(at), name, text),)))
        messages.append(ToolMessage(str(at), name, (Text(text),), "network" if len(text) == 1 else ""))
    messages.append(UserMessage((Text("Your last answer was empty."),), kind="notice"))
    for tools in (TOOLS, ()):
        try:
            step = next_step(Request(tuple(messages), tools=tools))
        except ProviderError:
            continue
        assert not isinstance(step, str) or step.strip()
        assert tools or isinstance(step, str)


def _urls(step: Step) -> list[object]:
    return [] if isinstance(step, str) else [arguments["url"] for _, arguments in step]


def _after_search(*hits: tuple[str, str]) -> Request:
    listed = "\n".join(f"{at}. {title}\n   {url}\n   words" for at, (title, url) in enumerate(hits, 1))
    return Request(
        (
            UserMessage((Text("How long is the Kellan Bridge?"),)),
            AssistantMessage((ToolCall("1", "web_search", json.dumps({"query": "Kellan Bridge"})),)),
            ToolMessage("1", "web_search", (Text(f"Results for: Kellan Bridge\n\n{listed}"),)),
        ),
        tools=TOOLS,
    )


@table(
    "question",
    "你好",
    "谢谢",
    "你是谁？",
    "现在几点了？",
    "写一首诗",
    "提醒我明天八点打电话",
    "挪威的首都是哪里？",
    "今天天气怎么样？",
)
async def test_a_chinese_question_is_answered_in_chinese(question: str) -> None:
    async with over(Web({})) as ask:
        finished = await ask(question)
    assert any("\u4e00" <= sign <= "\u9fff" for sign in finished.text)
    assert not english_left(finished.text)
