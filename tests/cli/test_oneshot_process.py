"""One question as a process: what stands on which stream, and the exit code."""

import asyncio
import json
import re
import shlex
import signal
from pathlib import Path

import pytest

from nanobot.cli.habits import meant
from nanobot.errors import UsageError
from nanobot.providers.scripted import Call, Pause, Say
from tests.cli.harness import finish, modelled, program
from tests.fakes.llm_server import LlmRequest, LlmServer, Reply
from tests.tables import table

HOSTILE = "\x1b[31mred\x1b]0;owned\x07\x9b2J\rover\u202e"
MARKDOWN = "# Answer\n\nSome **bold** text, [a link](https://example.com/x) and\n\n```py\nx = 1\n```"


def asked(request: LlmRequest) -> str:
    """Everything that the request says to the model, as text."""
    return json.dumps(request.body, ensure_ascii=False)


async def test_in_a_pipe_the_answer_alone_stands_on_stdout_as_the_model_wrote_it(tmp_path: Path) -> None:
    async with LlmServer(Reply(Call("nanobot_docs", {"query": "sessions"})), MARKDOWN) as server:
        ran = await program(tmp_path, server).run("agent", "-m", "hi", env={"FORCE_COLOR": "1"})
    assert (ran.code, ran.out.partition("\n\n**Sources**")[0].partition("\n\nSources")[0].rstrip()) == (0, MARKDOWN)
    assert 'docs "sessions"' in ran.err
    assert "\x1b" not in ran.out + ran.err


async def test_single_words_of_habit_are_never_sent_to_a_model(tmp_path: Path) -> None:
    async with modelled(tmp_path, after="asked") as (nanobot, server):
        meant = {"help": "usage: nanobot", "sessions": "There are no sessions yet.", "models": "Model: **fake**"}
        meant |= {"memory": "Nothing is noted of you.", "remind": "Nothing is scheduled."}
        for word, answer in meant.items():
            ran = await nanobot.run(word)
            assert (ran.code, ran.out.startswith(answer)) == (0, True), word
        for word in ("uninstall", "exit"):
            ran = await nanobot.run(word)
            assert (ran.code, ran.out, f"There is no command '{word}'. " in ran.err) == (2, "", True), word
        assert server.requests == []


#: First words of talks that look like the names of commands.
GREETINGS = (
    "hello hell held what with which water wait watches state stats map soup reply relay impact confirm agenda "
    "important abend stadt statt schlecht woche wach doktor uhr hilfe hallo hola agua ayuda argent revoir statut"
).split()


def test_an_ordinary_word_that_looks_like_a_command_is_a_message_and_a_slip_of_a_finger_is_told() -> None:
    assert [word for word in GREETINGS if meant([word]) != ["agent", word]] == []
    for word, name in (("hlep", "help"), ("gatewya", "gateway"), ("gatway", "gateway"), ("schedulle", "schedule")):
        with pytest.raises(UsageError, match=f"Did you mean '{name}'"):
            meant([word])
    for word, name in (("ls", "sessions"), ("list", "sessions"), ("docs", "help"), ("info", "status")):
        with pytest.raises(UsageError, match=f"Did you mean '{name}'.* As a message: nanobot -m {word}"):
            meant([word])


async def test_the_name_of_a_chat_command_alone_says_how_it_is_run_and_how_it_is_asked(tmp_path: Path) -> None:
    async with modelled(tmp_path, Reply("An undo tree is …"), Reply("One source.")) as (nanobot, llm):
        for word in ("undo", "sources", "retry", "tasks"):
            ran = await nanobot.run(word)
            assert f"There is no command '{word}'. Did you mean /{word} in the last conversation?" in ran.err
            assert (ran.code, ran.err.endswith(f"\nAs a message: nanobot -m {word}\n")) == (2, True)
        assert llm.requests == []
        assert (await nanobot.run("-m", "undo")).out == "An undo tree is …\n"
        assert (await nanobot.run("sources", stdin=b"one text\n")).out == "One source.\n"


async def test_the_log_tells_the_story_of_a_turn(tmp_path: Path) -> None:
    failing = Reply(status=500, body={"error": {"message": "boom"}}, headers=[("retry-after", "0")])
    call = Reply(Call("nanobot_docs", {"query": "sessions"}), Call("gone", {}))
    async with modelled(tmp_path, failing, call, "The answer.") as (nanobot, _):
        ran = await nanobot.run("-m", "a private question", "--debug")
    log = (nanobot.home / "logs/nanobot.log").read_text("utf-8")
    told = re.findall(r"INFO nanobot\S+ \[(\w+)\] (\w+ \w+)", log)
    story = ["turn begins", "request is", "request 1", "tool nanobot_docs", "request 2", "turn ends"]
    assert [words for _, words in told if words in story] == story
    assert len({turn for turn, words in told if words in story}) == 1
    assert all(words in ran.err for words in story)
    assert {*re.findall(r"tool (\w+: \w+) in", log)} == {"nanobot_docs: ok", "gone: not_found"}
    assert "private" not in log


async def test_bare_words_are_a_message_and_what_is_piped_in_is_its_context(tmp_path: Path) -> None:
    async with modelled(tmp_path, "done", "again") as (nanobot, server):
        ran = await nanobot.run("review", "this", stdin=b"the piped diff")
        assert "review this" in asked(server.requests[0])
        assert "the piped diff" in asked(server.requests[0])
        assert (ran.code, ran.out) == (0, "done\n")
        await nanobot.run("-", stdin="the prompt: größe".encode())
        assert "the prompt: größe" in asked(server.requests[1])


async def test_a_pipe_longer_than_the_limit_is_cut_and_said_so(tmp_path: Path) -> None:
    async with LlmServer("ok") as server:
        ran = await program(tmp_path, server).run("-m", "sum", stdin=b"a" * 1_000_100)
        assert all(words in asked(server.requests[0]) for words in ("sum", "a" * 1_000))
    assert "longer than 1 MB" in ran.err
    assert ran.out == "ok\n"


async def test_json_is_one_object(tmp_path: Path) -> None:
    async with LlmServer(Reply(Call("nanobot_docs", {"query": "x"})), "Done.") as server:
        ran = await program(tmp_path, server).run("-m", "hi", "--json")
    (body,) = ran.lines
    assert (body["ok"], body["text"], body["exit"], body["outcome"]) == (True, "Done.", 0, "completed")
    assert isinstance(body["session"], str)
    figures = {"input": 200, "output": 20, "cached": 0, "reasoning": 0, "requests": 2, "cost": 0.0, "unpriced": 0}
    assert body["usage"] == figures
    tools = body["tools"]
    assert isinstance(tools, list)
    assert [tool["hint"] for tool in tools] == ['docs "x"']


async def test_stream_json_tells_every_event_on_a_line_of_its_own(tmp_path: Path) -> None:
    async with LlmServer(Reply(Call("nanobot_docs", {"query": "x"})), Reply(Say("One two.", 4))) as server:
        ran = await program(tmp_path, server).run("-m", "hi", "--stream-json")
    kinds = [line["type"] for line in ran.lines]
    assert kinds == ["init", "tool_start", "tool_end", "text", "text", "result"]
    init, last = ran.lines[0], ran.lines[-1]
    assert (init["protocol"], init["model"]) == (1, "fake")
    assert (last["ok"], last["text"], last["exit"]) == (True, "One two.", 0)
    assert "".join(str(line["text"]) for line in ran.lines if line["type"] == "text") == "One two."


async def test_stream_json_lines_arrive_while_the_model_still_writes(tmp_path: Path) -> None:
    async with LlmServer(Reply("first", Pause(100.0), "second")) as server:
        process = await program(tmp_path, server).start("-m", "hi", "--stream-json")
        assert process.stdout
        async with asyncio.timeout(120):
            assert json.loads(await process.stdout.readline())["type"] == "init"
            assert json.loads(await process.stdout.readline())["text"] == "first"
        process.send_signal(signal.SIGINT)
        ran = await finish(process)
    assert (ran.code, ran.lines[-1]["exit"], ran.lines[-1]["ok"]) == (130, 130, False)


async def test_continue_and_session_go_on_where_the_last_run_stopped(tmp_path: Path) -> None:
    async with modelled(tmp_path, "It is heron.", after="Yes.") as (nanobot, server):
        first = await nanobot.run("-m", "my word is heron", "--json")
        identity = str(first.lines[0]["session"])
        await nanobot.run("-m", "a fresh one")
        assert "heron" not in asked(server.requests[1])
        await nanobot.run("-r", identity[:6], "-m", "which word?")
        assert "heron" in asked(server.requests[2])
        await nanobot.run("--continue", "-m", "and now?")
        assert "heron" in asked(server.requests[3])
        missing = await nanobot.run("-r", "nosuch", "-m", "x")
    assert (missing.code, missing.out) == (2, "")
    assert missing.err == "nanobot: There is no session 'nosuch'. `nanobot sessions` lists them.\n"


async def test_a_server_that_is_not_there_is_worth_another_try(tmp_path: Path) -> None:
    async with LlmServer() as server:
        nanobot = program(tmp_path, server)
    ran = await nanobot.run("-m", "hi", "--json", "--timeout", "25")
    assert (ran.code, ran.lines[0]["temporary"], ran.lines[0]["ok"]) in [(75, True, False), (124, True, False)]


async def test_the_time_limit_ends_with_124(tmp_path: Path) -> None:
    async with LlmServer(Reply("begun", Pause(100.0), "late")) as server:
        ran = await program(tmp_path, server).run("-m", "hi", "--timeout", "1s")
    assert (ran.code, ran.out) == (124, "")
    assert "1 s" in ran.err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_a_signal_stops_a_turn_and_keeps_what_was_said(tmp_path: Path, number: signal.Signals, code: int) -> None:
    async with modelled(tmp_path, Reply("begun", Pause(100.0), "late"), "Here.") as (nanobot, server):
        process = await nanobot.start("-m", "remember the heron")
        await server.asked(1)
        process.send_signal(number)
        ran = await finish(process)
        assert (ran.code, ran.out) == (code, "")
        assert "Traceback" not in ran.err
        await nanobot.run("--continue", "-m", "go on")
        assert "heron" in asked(server.requests[1])


async def test_text_from_the_web_cannot_drive_the_terminal(tmp_path: Path) -> None:
    async with LlmServer("a\x1b]0;owned\x07b\x1b[2Jc\u202ed") as server:
        ran = await program(tmp_path, server).run("-m", "hi")
    assert ran.out == "abcd\n"


async def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path) -> None:
    async with modelled(tmp_path, Reply(Say("words " * 50_000))) as (nanobot, _):
        command = shlex.join(nanobot.command("-m", "hi")) + " | head -c 10"
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_shell(
            command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=nanobot.env
        )
        ran = await finish(process)
    assert (ran.out, ran.err) == ("words word", "")


@pytest.mark.parametrize(("closed", "out"), [("<&-", "words\n"), ("<&- >&-", ""), ("<&- >&- 2>&-", "")])
async def test_a_process_without_standard_streams_answers_all_the_same(tmp_path: Path, closed: str, out: str) -> None:
    async with modelled(tmp_path, "words") as (nanobot, server):
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_shell(
            f"{shlex.join(nanobot.command('-m', 'hi'))} {closed}", stdout=pipe, stderr=pipe, env=nanobot.env
        )
        ran = await finish(process)
        assert (len(server.requests), ran.code, ran.out, ran.err) == (1, 0, out, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only some systems have a device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-m", "hi"], 1),
        (["-m", "hi"], 9_000),
        (["-m", "hi", "--json"], 9_000),
        (["--help"], 1),
        (["help", "telegram"], 1),
        (["completion", "bash"], 1),
    ],
)
async def test_output_that_cannot_be_written_is_one_sentence_and_exit_code_1(
    tmp_path: Path, arguments: list[str], words: int, unbuffered: str
) -> None:
    async with modelled(tmp_path, "words " * words) as (nanobot, _):
        with Path("/dev/full").open("wb") as full:
            process = await asyncio.create_subprocess_exec(
                *nanobot.command(*arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=full,
                stderr=asyncio.subprocess.PIPE,
                env={**nanobot.env, "PYTHONUNBUFFERED": unbuffered},
            )
        _out, said = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 1
    assert said.decode().strip().splitlines()[-1] == (
        "nanobot: the output could not be written: No space left on device. Free some room or print elsewhere."
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only some systems have a device that is always full")
async def test_where_nothing_can_be_said_beside_it_the_answer_is_there_all_the_same(tmp_path: Path) -> None:
    async with modelled(tmp_path, Reply("Look.", Call("nanobot_docs", {"query": "x"})), "Here it is.") as (nanobot, _):
        with Path("/dev/full").open("wb") as full:
            process = await asyncio.create_subprocess_exec(
                *nanobot.command("-m", "see @gone.md"), stdin=-3, stdout=-1, stderr=full, env=nanobot.env
            )
        out, _err = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0
    assert out.startswith(b"Here it is.\n")


@table(
    "arguments words",
    (["agent"], "no message"),
    (["-m", ""], "empty"),
    (["-m", "a", "b"], "twice"),
    (["--nonsense"], "--nonsense"),
    (["statu"], "status"),
    (["-m", "x", "--timeout", "soon"], "soon"),
    (["-m", "x", "--json", "--stream-json"], "not allowed"),
    (["--config", "/nowhere/config.json", "-m", "x"], "/nowhere/config.json"),
    (["-r", "zzz", "-m", "x", "--model", "lookup"], "There is no session 'zzz'. `nanobot sessions` lists them"),
)
async def test_wrong_usage_is_a_sentence_and_exit_code_2(tmp_path: Path, arguments: list[str], words: str) -> None:
    ran = await program(tmp_path).run(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert "Traceback" not in ran.err


async def test_status_tells_where_things_are_also_when_no_model_can_answer_and_lookup_can_be_named(
    tmp_path: Path,
) -> None:
    nanobot = program(tmp_path, None, agents={"defaults": {"model": "gpt-x", "provider": "openai"}})
    ran = await nanobot.run("status")
    assert (ran.code, ran.err) == (2, "")
    assert "- It would not start: OpenAI needs a key" in ran.out
    assert f"- Log: {nanobot.home}" in ran.out
    ran = await nanobot.run("--model", "lookup", "-m", "How do I connect Telegram?")
    assert ran.code == 0, ran.err
    assert "@BotFather" in ran.out


async def test_a_broken_configuration_names_the_line(tmp_path: Path) -> None:
    nanobot = program(tmp_path)
    (nanobot.home / "config.json").write_text('{\n  "agents": {"defaults": {"maxTokens": "many"}}\n}', encoding="utf-8")
    ran = await nanobot.run("-m", "x")
    assert (ran.code, ran.out) == (2, "")
    assert "config.json:2" in ran.err


@pytest.mark.parametrize("words", [["status"], ["config", "check"], ["config", "show"], ["-m", "x"], ["-r", HOSTILE]])
async def test_nothing_of_a_file_an_argument_or_a_name_drives_the_terminal(tmp_path: Path, words: list[str]) -> None:
    """Whatever a command makes of them: names of models, unknown keys, values that are wrong."""
    async with modelled(tmp_path) as (nanobot, _):
        hostile = {"agents": {"defaults": {"model": f"fake{HOSTILE}"}}, f"odd{HOSTILE}": 1}
        nanobot.change(**hostile, gateway={"healthFile": HOSTILE})
        ran = await nanobot.run(*words)
    assert ran.out + ran.err
    assert not set(ran.out + ran.err) & set("\x1b\x07\x9b\r\u202e"), ran.out + ran.err


async def test_a_provider_without_its_variable_stays_off_though_a_key_is_in_the_environment(tmp_path: Path) -> None:
    config = {"providers": {"openai": {"apiBase": "${NO_SUCH_BASE}", "apiKey": "k"}}}
    async with modelled(tmp_path, "wrong") as (nanobot, server):
        (tmp_path / "off.json").write_text(json.dumps(config), encoding="utf-8")
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"{server.url}/v1"}
        ran = await nanobot.run("--config", str(tmp_path / "off.json"), "--model", "gpt-5", "hi", env=env)
        assert not server.requests
    assert (ran.code, ran.out) == (2, "")
    assert "OpenAI is switched off: the environment variable NO_SUCH_BASE is not set" in ran.err
    assert "warning: providers.openai is switched off: " in ran.err


async def test_lookup_without_a_network_says_so_plainly_and_ends_with_75(tmp_path: Path) -> None:
    search = {"provider": "searxng", "baseUrl": "http://127.0.0.1:9", "fallback": []}
    config = {"agents": {"defaults": {"provider": "lookup"}}, "tools": {"web": {"search": search}}}
    async with modelled(tmp_path) as (nanobot, _):
        (tmp_path / "lookup.json").write_text(json.dumps(config), encoding="utf-8")
        ran = await nanobot.run("--config", str(tmp_path / "lookup.json"), "What is the capital of France?")
    assert (ran.code, ran.out) == (75, "")
    last = ran.err.splitlines()[-1]
    assert last.startswith("nanobot: Neither search nor pages could be reached")
    assert "`nanobot demo`" in last
    assert "It said" not in last


async def test_a_refusal_is_told_once_with_what_was_said_and_what_to_do(tmp_path: Path) -> None:
    refusal = Reply(status=401, body={"error": {"message": "no such key"}})
    failing = Reply(status=500, body={"error": {"message": "boom"}}, headers=[("retry-after", "0")])
    async with modelled(tmp_path, refusal, failing, "Fine.") as (nanobot, _):
        refused = await nanobot.run("hi")
        retried = await nanobot.run("hi")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("nanobot: ")
    assert "Traceback" not in refused.err
    assert refused.err.count("no such key") == refused.err.count("refused the key") == refused.err.count("Check") == 1
    assert "Check providers.custom.apiKey" in refused.err
    assert (retried.out, retried.err) == ("Fine.\n", "your server: HTTP 500: boom; asking again.\n")


async def test_without_a_language_model_learn_says_that_it_needs_one_and_searches_for_nothing(tmp_path: Path) -> None:
    done = await program(tmp_path, None, agents={"defaults": {"provider": "lookup"}}).run("-m", "/learn the way home")
    assert "A skill is written by a language model" in done.out + done.err
    assert "search" not in done.err


async def test_a_model_reads_english_whatever_the_person_reads_and_the_time_of_the_systems_zone(tmp_path: Path) -> None:
    tools = {"profile": "full", "exec": {"sandbox": "none"}, "web": {"search": {"provider": "duckduckgo"}}}
    async with LlmServer(Reply(Call("read_file", {"path": "none.txt"})), "done") as server:
        nanobot = program(tmp_path, server, tools=tools)
        ran = await nanobot.run("-m", "hello", env={"LANG": "zh_CN.UTF-8", "TZ": "Asia/Tokyo"})
    assert ran.code == 0, ran.err
    first = json.dumps(server.requests[0].body, ensure_ascii=False)
    assert len(server.requests) == 2
    assert len(first) > 5_000
    assert "(Asia/Tokyo)" in first
    assert not re.findall(r"[\u3400-\u9fff]+", first)


async def test_a_reminder_belongs_to_every_terminal_and_not_to_the_one_that_set_it(tmp_path: Path) -> None:
    async with modelled(tmp_path) as (nanobot, _):
        ran = await nanobot.run("-m", "/schedule tomorrow at 9: call the dentist")
    assert ran.code == 0, ran.err
    assert nanobot.rows("SELECT chat FROM job") == [("terminal:local",)]
