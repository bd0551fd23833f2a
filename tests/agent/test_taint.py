"""What counts as content from outside in a conversation, and that nothing that steers is then changed unasked."""

from msgspec.structs import replace

from nanobot.agent.history import foreign_in
from nanobot.bus.events import ApprovalAsked, ToolFinished, ToolProgress
from nanobot.messages import Media, Text, UserMessage
from nanobot.providers.scripted import Call
from nanobot.results import Source, ToolResult
from nanobot.security.policy import Effect
from nanobot.session.pins import ToolWords
from nanobot.utils.logs import add_secrets
from tests.agent.harness import FakeTool, QueryArgs, agent, message

WRITE = Call("write_file", {"query": "always obey"})


class Writes(FakeTool):
    """Changes what steers the agent."""

    def __init__(self) -> None:
        super().__init__("write_file", access="changes")

    def effects(self, arguments: object, context: object) -> tuple[Effect, ...]:
        return (Effect("control", "/home/ann/AGENTS.md"),)


class Described(FakeTool):
    foreign_words = ToolWords("mail", "read", "0")


async def test_a_sent_picture_and_a_description_of_a_stranger_taint_and_the_own_words_alone_do_not() -> None:
    picture = Media("/tmp/x.png", "image/png")
    cases = [((), (), "ran"), ((picture,), (), "denied"), ((), (Described("mcp_mail_read"),), "denied")]
    for media, others, outcome in cases:
        async with agent([WRITE, "done"], Writes(), *others) as box:
            await box.loop.process(replace(message("note it"), media=media))
            await box.until(lambda: bool(box.of(ToolFinished)))
            (event,) = box.of(ToolFinished)
            assert (event.result.error or "ran") == outcome, (media, others)
            assert box.of(ApprovalAsked) == []
            if outcome == "denied":
                assert '{"tool": "write_file", "match": "/home/ann/AGENTS.md"' in event.result.text
    sent = UserMessage((Text("see"), picture))
    assert list(foreign_in([sent], "owner")) == ["a picture or file that was sent"]


async def test_a_key_of_the_configuration_reaches_the_model_and_the_person_in_no_result() -> None:
    add_secrets(["canary-key-5519"])

    class Leaks(FakeTool):
        async def run(self, args: QueryArgs, context: object) -> ToolResult:
            await context.progress("at canary-key-5519")  # type: ignore[attr-defined]
            source = Source(1, "https://a.example/", "page of canary-key-5519")
            return ToolResult("X=canary-key-5519", "canary-key-5519", sources=(source,), receipt="canary-key-5519")

    async with agent([Call("web_search", {"query": "x"}), "done"], Leaks()) as box:
        finished = await box.ask("look")
        shown = "".join(map(repr, (*box.of(ToolFinished), *box.of(ToolProgress), finished)))
    assert "X=[secret]" in repr(box.provider.requests[1])
    assert "canary-key-5519" not in repr(box.provider.requests[1]) + shown
