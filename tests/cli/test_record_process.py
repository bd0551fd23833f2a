"""A turn is written into a file and repeated from it, by the program as a person starts it."""

import asyncio
import json
import shlex
import signal
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from nanobot import __version__
from nanobot.providers.scripted import Call, Pause
from tests.cli.harness import Program, finish, program
from tests.fakes.llm_server import LlmServer, Reply
from tests.fakes.search_apis import SearchApis
from tests.fakes.website import Answer, Website
from tests.tables import table

CANARY = "canary-7b19e2-do-not-tell"
ENV_CANARY = "ZZcanary55from77the99environment"
LOOKALIKE = "sk-abcdefghijklmnop1234"
SEARCH = Call("web_search", {"query": "heron sk-zyxwvutsrqponm9876"})
OTHER = Call("web_search", {"query": f"stork {LOOKALIKE}"})


@dataclass(frozen=True, slots=True)
class World:
    nanobot: Program
    model: LlmServer
    search: SearchApis
    tape: Path

    @property
    def requests(self) -> int:
        """What reached a fake so far."""
        return len(self.model.requests) + len(self.search.asked("searxng"))

    async def record(self, question: str = "Where do herons live?") -> str:
        """What the program printed while it recorded a turn that ends well."""
        ran = await self.nanobot.run(
            "agent", "--record", str(self.tape), "-m", question, env={"OTHER_API_KEY": ENV_CANARY}
        )
        assert ran.code == 0, ran.err
        return ran.out


@asynccontextmanager
async def world(tmp_path: Path, *replies: Reply | str) -> AsyncIterator[World]:
    async with LlmServer(*replies) as model, SearchApis() as search:
        web = {"search": {"provider": "searxng", "baseUrl": search.base("searxng"), "fallback": []}}
        nanobot = program(tmp_path, model, tools={"web": web, "ssrfWhitelist": ["127.0.0.1/32"]})
        nanobot.change(providers={"custom": {"apiKey": CANARY}})
        yield World(nanobot, model, search, tmp_path / "turn.jsonl")


def page(text: str) -> Answer:
    return Answer(f"<html><head><title>Herons</title></head><body><main><p>{text}</p></main></body></html>")


def elsewhere(tmp_path: Path) -> Program:
    """The program on a machine that has no configuration, no key and no session."""
    (tmp_path / "bare").mkdir()
    return Program(tmp_path / "bare" / "home")


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write(path: Path, changed: list[dict[str, object]]) -> None:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in changed), encoding="utf-8")


async def test_a_recorded_turn_is_repeated_without_network_configuration_or_key(tmp_path: Path) -> None:
    async with world(tmp_path, Reply(SEARCH, OTHER), Reply(SEARCH), "Herons live at rivers [1]. Found [2].") as here:
        said = await here.record()
        before = here.requests
        assert before == 3 + 2, "three requests to the model, and the same search is made once"
        ran = await elsewhere(tmp_path).run("replay", str(here.tape))
        assert here.requests == before
    assert "Sources" in said
    assert (ran.code, ran.out) == (0, said)
    assert "nanobot:" not in ran.err
    # With the servers gone nothing changes: nobody was asked.
    again = await here.nanobot.run("replay", str(here.tape))
    assert (again.code, again.out) == (0, said)


async def test_a_turn_with_files_is_repeated_where_there_are_none_and_changes_nothing(tmp_path: Path) -> None:
    write_it = Call("write_file", {"path": "herons.md", "content": "rivers\n"})
    calls = (write_it, Call("read_file", {"path": "herons.md"}), Call("read_file", {"path": "/etc/passwd"}))
    async with world(tmp_path, *map(Reply, calls), "Herons live at rivers; I wrote it down.") as here:
        said = await here.record()
        path = here.nanobot.home / "workspace/herons.md"
        assert path.read_text() == "rivers\n"
        path.unlink()
        ran = await here.nanobot.run("replay", str(here.tape))
    assert (ran.code, ran.out) == (0, said), ran.err
    assert not path.exists()


async def test_no_secret_stands_in_the_recording_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    answer = f"You gave me {CANARY}, {ENV_CANARY} and {LOOKALIKE}."
    async with world(tmp_path, Reply(SEARCH, OTHER), answer) as here:
        await here.record(f"My keys are {CANARY} and {ENV_CANARY}; my ü is fine.")
        assert CANARY in json.dumps(here.model.requests[0].body), "the question never held the secret"
    text = here.tape.read_text(encoding="utf-8")
    assert not [secret for secret in (CANARY, ENV_CANARY, LOOKALIKE) if secret in text]
    assert "my ü is fine" in text
    assert stat.S_IMODE(here.tape.stat().st_mode) == 0o600
    head = lines(here.tape)[0]
    assert (head["type"], head["format"], head["nanobot"]) == ("recording", 3, __version__)
    assert [line["type"] for line in lines(here.tape)] == ["recording", "answer", "call", "call", "answer", "end"]
    ran = await elsewhere(tmp_path).run("replay", str(here.tape))
    assert (ran.code, ran.out) == (0, "You gave me [secret], [secret] and [secret].\n")


async def test_a_recording_is_never_written_over_another_file(tmp_path: Path) -> None:
    async with world(tmp_path, "Yes.") as here:
        here.tape.write_text("precious", encoding="utf-8")
        ran = await here.nanobot.run("agent", "--record", str(here.tape), "-m", "hi")
        assert not here.model.requests
    assert (ran.code, ran.out, here.tape.read_text(encoding="utf-8")) == (2, "", "precious")
    assert "is there already" in ran.err


async def test_a_call_that_was_not_recorded_and_what_comes_out_otherwise_is_said_and_ends_with_1(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, Reply(SEARCH), "Rivers [1].") as here:
        await here.record()
    tape = lines(here.tape)
    whole = tape[-1]
    write(here.tape, [line for line in tape if line["type"] != "call"])
    unknown = await elsewhere(tmp_path).run("replay", str(here.tape))
    assert 'nanobot: The recording holds no call web_search {"query": "heron [secret]"}.' in unknown.err
    assert (unknown.code, "Traceback" in unknown.err) == (1, False)
    write(here.tape, [*tape[:-1], whole | {"text": "Lakes [1]."}])
    other = await here.nanobot.run("replay", str(here.tape))
    assert (other.code, "The answer differs" in other.err, "Rivers [1]." in other.out) == (1, True, True)
    write(here.tape, [*tape[:-1], whole | {"sources": []}])
    fewer = await here.nanobot.run("replay", str(here.tape))
    assert (fewer.code, "The sources differ" in fewer.err) == (1, True)
    write(here.tape, [*tape[:-2], whole])
    short = await here.nanobot.run("replay", str(here.tape))
    assert (short.code, "asked the model once more than was recorded" in short.err) == (1, True)
    write(here.tape, [*tape[:-1], tape[-2], whole])
    long = await here.nanobot.run("replay", str(here.tape))
    assert (long.code, "ended before 1 recorded answer of the model" in long.err) == (1, True)


async def test_a_file_that_is_no_recording_is_refused_with_its_line(tmp_path: Path) -> None:
    async with world(tmp_path, "Yes.") as here:
        await here.record()
    nanobot, good = elsewhere(tmp_path), lines(here.tape)

    async def refused(*changed: dict[str, object]) -> str:
        write(here.tape, list(changed))
        ran = await nanobot.run("replay", str(here.tape))
        assert (ran.code, ran.out, "Traceback" in ran.err) == (2, "", False)
        assert ran.err.count("\n") == 1
        return ran.err

    assert "turn.jsonl:2: " in await refused(good[0], {"type": "answer", "message": 7}, good[-1])
    assert "turn.jsonl:2: " in await refused(good[0], {"type": "tune"}, good[-1])
    assert "turn.jsonl:2: the recorded turn broke off here" in await refused(*good[:-1])
    assert "turn.jsonl:1: " in await refused(*good[1:])
    assert "turn.jsonl:1: " in await refused()
    other = {"type": "symphony", "format": 9, "nanobot": "9.9"}
    assert "in format 9, and this one reads 3; record it again" in await refused(other, *good[1:])
    ran = await nanobot.run("replay", str(tmp_path / "nowhere.jsonl"))
    assert (ran.code, "nowhere.jsonl cannot be read" in ran.err) == (2, True)


async def test_a_turn_that_failed_fails_again_in_the_same_words(tmp_path: Path) -> None:
    refusal = Reply(status=401, body={"error": {"message": "no such key"}})
    async with world(tmp_path, refusal) as here:
        failed = await here.nanobot.run("agent", "--record", str(here.tape), "-m", "hi")
    ran = await elsewhere(tmp_path).run("replay", str(here.tape))
    assert (failed.code, ran.code, ran.err) == (1, 0, failed.err)
    assert "no such key" in ran.err


@table(
    "arguments words",
    ([], "needs a message"),
    (["-m", "/help"], "a command is none"),
    (["--record", "", "-m", "hi"], "--record: it is empty"),
    (["--session", "", "-m", "hi"], "--session: it is empty"),
)
async def test_only_a_question_can_be_recorded(tmp_path: Path, arguments: list[str], words: str) -> None:
    async with world(tmp_path) as here:
        ran = await here.nanobot.run("agent", "--record", str(here.tape), *arguments)
    assert (ran.code, ran.out, here.tape.exists()) == (2, "", False)
    assert words in ran.err or "no message" in ran.err


async def test_what_the_model_said_of_pages_inside_a_call_is_repeated_too(tmp_path: Path) -> None:
    async with Website({"/a": page("The heron stands at rivers. " * 40)}) as site:
        read = Call("web_fetch", {"prompt": f"Where does the heron stand? {site.url}/a"})
        async with world(tmp_path, Reply(read), "At rivers [1].", "The heron stands at rivers [1].") as here:
            said = await here.record(f"Where do herons live? {site.url}/a")
            assert len(here.model.requests) == 3
    assert [line["type"] for line in lines(here.tape)] == ["recording", "answer", "call", "answer", "end"]
    ran = await elsewhere(tmp_path).run("replay", str(here.tape))
    assert (ran.code, ran.out) == (0, said)
    assert "Herons" in said


async def test_a_turn_that_was_stopped_is_not_replayed(tmp_path: Path) -> None:
    async with world(tmp_path, Reply("begun", Pause(25.0), "late")) as here:
        process = await here.nanobot.start("agent", "--record", str(here.tape), "-m", "hi")
        await here.model.asked(1, 15)
        process.send_signal(signal.SIGINT)
        assert (await finish(process)).code == 130
    ran = await elsewhere(tmp_path).run("replay", str(here.tape))
    assert (ran.code, ran.out) == (2, "")
    assert "was stopped before its end" in ran.err


async def test_a_full_disk_costs_the_recording_and_not_the_answer(tmp_path: Path) -> None:
    answer = "long words " * 20_000
    async with world(tmp_path, answer) as here:
        command = here.nanobot.command("agent", "--ephemeral", "--record", str(here.tape), "-m", "hi")
        limited = f"ulimit -f 64; exec {shlex.join(command)}"
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", limited), stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=here.nanobot.env
        )
        ran = await finish(process)
    assert (ran.code, ran.out.strip()) == (1, answer.strip())
    assert "turn.jsonl is not whole: File too large" in ran.err
    broken = await here.nanobot.run("replay", str(here.tape))
    assert (broken.code, "turn.jsonl:2: " in broken.err) == (2, True)
