"""Commands as a person meets them: they run, tell, are bounded, and end with all that they started."""

import asyncio
import os
import secrets
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from nanobot.agent.context import ContextBuilder
from nanobot.agent.tools.commands.around import FilesAround
from nanobot.agent.tools.commands.background import BackgroundTasks
from nanobot.agent.tools.commands.processes import END_SECONDS
from nanobot.agent.tools.files.read import ReadFileTool
from nanobot.bus.events import Address, ToolProgress, ToolStarted, TurnFinished
from nanobot.config.schema_tools import ExecConfig
from nanobot.files.snapshots import MAX_ONE, ChangedBy
from nanobot.files.store import FileStore
from nanobot.files.versions import MAX_OUTPUT
from nanobot.providers.scripted import Call, ScriptedProvider
from nanobot.security.control_files import ControlFiles, control_files
from nanobot.security.sandbox import Reason, SandboxName, choose
from tests.agent.harness import agent, prompt_of
from tests.agent.tools.commands import HERE, Commands, alive, commands_in, usual
from tests.fakes.disk import without_room
from tests.fakes.website import Answer, Website
from tests.tables import table

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="NOT TRIED: commands run on Linux only")
SANDBOXES: tuple[SandboxName, ...] = ("bubblewrap", "landlock", "none")

#: Ignores SIGTERM, starts one like itself, one in a session of its own, and one that nobody is the parent of.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for leave in (False, True):
    if os.fork() == 0:
        if leave:
            os.setsid()
            if os.fork():
                os._exit(0)
        break
print("began", flush=True)
time.sleep(600)
"""


async def until_alive(mark: str, count: int) -> None:
    async with asyncio.timeout(120):
        while len(await asyncio.to_thread(alive, mark)) < count:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("name", SANDBOXES)
async def test_U4_stop_ends_all_that_a_command_started_and_the_next_message_works(
    tmp_path: Path, name: SandboxName
) -> None:
    mark = f"mark-{secrets.token_hex(6)}"
    async with commands_in(tmp_path, name) as made:
        (made.workspace / "stubborn.py").write_text(STUBBORN)
        line = [sys.executable, "stubborn.py", mark]
        provider = ScriptedProvider([(Call("exec", {"argv": line}),), "hello again"])
        async with agent(provider, *made.tools) as box:
            box.loop.runner.approvals.channels.add("terminal")
            box.loop.runner.approvals.policy.preset = "free"
            await box.say("run it")
            await until_alive(mark, 3)
            assert (await box.ask("/stop")).text.startswith("Stopped")
            assert (await box.ask("still there?")).text == "hello again"
        await made.exec.aclose()
        assert alive(mark) == []
        assert END_SECONDS < 5


@pytest.mark.parametrize("name", SANDBOXES)
async def test_U5_a_command_that_never_returns_is_ended_at_its_limit_and_holds_up_no_other_chat(
    tmp_path: Path, name: SandboxName
) -> None:
    mark = f"6{secrets.randbelow(10**9)}"
    async with commands_in(tmp_path, name) as made:
        hanging = asyncio.create_task(made.allowed(command=f"sleep {mark}", timeout=1))
        await until_alive(mark, 1)
        other = await made.allowed(made.context(session="another"), command="echo quick")
        assert "quick" in other.text
        assert not hanging.done() or "time limit" in hanging.result().text
        ended = await hanging
        assert (ended.error, alive(mark)) == ("timeout", [])
        assert ended.receipt.startswith(f"ran sleep {mark}: ended at its time limit of 1 s")
        assert "background: true" in ended.text


async def test_U16_what_a_command_did_is_told_by_the_runtime_and_its_lines_are_seen_meanwhile(tmp_path: Path) -> None:
    async with commands_in(tmp_path, config=ExecConfig(timeout=100)) as made:
        line = "echo first; while [ ! -e go ]; do sleep 0.05; done; echo second >&2; exit 3"
        provider = ScriptedProvider([(Call("exec", {"command": line}),), "It is done."])
        async with agent(provider, *made.tools) as box:
            await box.say("run it")
            await box.until(lambda: any(one.text == "first" for one in box.of(ToolProgress)))
            (made.workspace / "go").touch()
            await box.until(lambda: bool(box.of(TurnFinished)))
            (started,) = box.of(ToolStarted)
            (finished,) = box.of(TurnFinished)
        assert isinstance(started, ToolStarted)
        assert started.hint.startswith("run echo first")
        assert isinstance(finished, TurnFinished)
        (receipt,) = finished.receipts
        assert receipt.startswith("ran echo first; while [")
        assert ": exit 3, " in receipt
        result = provider.requests[1].messages[-1]
        assert "exit 3" in result.text
        assert "first\nsecond" in result.text


async def test_a_command_sees_no_variable_that_was_not_named_and_nobody_at_its_input(tmp_path: Path) -> None:
    env = {**usual(), "BOT_TOKEN": "canary-1", "EDITION": "blue", "LANG": "C.UTF-8"}
    config = ExecConfig(allowed_env_keys=("EDITION", "MISSING"), path_append="/opt/more/bin")
    async with commands_in(tmp_path, config=config, env=env) as made:
        seen = await made.call(command="env; cat; pwd; test -t 0 || echo no terminal")
        assert "canary-1" not in seen.text
        for line in ("EDITION=blue", "TERM=dumb", "HOME=/", "LANG=C.UTF-8", "no terminal"):
            assert line in seen.text
        assert f"{env['PATH']}:/opt/more/bin" in seen.text
        assert f"HOME={made.workspace}" not in seen.text
        assert str(made.workspace) in seen.text
        assert not seen.untrusted


async def test_a_long_output_shows_its_ends_and_is_kept_where_it_can_be_paged(tmp_path: Path) -> None:
    async with commands_in(tmp_path, config=ExecConfig(max_output_chars=1_000)) as made:
        (made.workspace / "sub").mkdir()
        for _ in range(2):
            seen = await made.call(command="seq 1 20000; printf 'a\\rb\\033[31mred\\n'", cwd="sub")
        path = seen.text.partition("through the whole: ")[2].partition("]")[0]
        assert path.startswith(".output/")
        assert (made.workspace / path).read_text().splitlines()[12_345] == "12346"
        assert "\n1\n2\n" in seen.text
        assert seen.text.endswith("20000\nbred\n")
        assert len(seen.text) < 1_500
        assert len(list((made.workspace / ".output").iterdir())) == 2


@table(
    "line shows last",
    ("head -c 60000 /dev/zero", "1\t[60,000 NUL]", 1),
    ("seq 1 3000; head -c 9 /dev/zero; echo; echo end", "3001\t[9 NUL]\n3002\tend", 3002),
    ("printf '%%PDF-1.7\n'; seq 1 3000", "1\t%PDF-1.7\n2\t1", 3001),
    ("printf '\\211PNG\\r\\n\\032\\n'; head -c 30000 /dev/urandom", "1\t\N{REPLACEMENT CHARACTER}PNG", 0),
    ("printf 'PK\\003\\004word/document.xml'; seq 1 3000", "1\tPK", 3000),
    ("head -c 30001 /dev/zero | tr '\\0' x", "16\tx", 16),
)
async def test_whatever_a_command_wrote_is_paged_by_read_file(tmp_path: Path, line: str, shows: str, last: int) -> None:
    async with commands_in(tmp_path, config=ExecConfig(max_output_chars=1_000)) as made:
        reading = ReadFileTool(made.spaces, media=made.home / "media", limit=20_000_000)
        made.registry.register(reading)
        kept = (await made.call(command=line)).text.partition("through the whole: ")[2].partition("]")[0]
        pages, at = "", 1
        while at:
            page = await made.call("read_file", path=kept, offset=at)
            assert page.error is None, page.text
            pages += f"{page.text}\n"
            at = int(page.text.partition("read on with offset=")[2].partition(".")[0] or 0)
        await reading.aclose()
        assert shows in pages
        assert not last or f"\n{last}\t" in f"\n{pages}"
        assert f"\n{last + 1}\t" not in f"\n{pages}" or not last


@pytest.mark.parametrize("link", [True, False])
async def test_U16_an_output_is_kept_nowhere_but_in_its_folder_and_its_command_is_told_as_run(
    tmp_path: Path, link: bool
) -> None:
    async with commands_in(tmp_path, config=ExecConfig(max_output_chars=1_000)) as made:
        (tmp_path / "outside").mkdir()
        place = made.workspace / ".output"
        place.symlink_to(tmp_path / "outside") if link else place.touch()
        seen = await made.call(command="touch done; seq 1 2000")
        assert (made.workspace / "done").exists()
        assert (seen.error, seen.untrusted) == (None, False)
        assert "exit 0" in seen.receipt
        assert "The whole could not be kept" in seen.text
        assert seen.text.endswith("\n2000\n")
        assert list((tmp_path / "outside").iterdir()) == []


async def test_of_what_a_fast_command_writes_no_more_is_kept_than_promised_and_all_of_it_can_be_paged(
    tmp_path: Path,
) -> None:
    async with commands_in(tmp_path) as made:
        seen = await made.call(command="head -c 70000000 /dev/zero | tr '\\0' '\\n'")
        kept = seen.text.partition("through the whole: ")[2].partition("]")[0]
        assert "50 MB" in seen.receipt
        assert (made.workspace / kept).stat().st_size == MAX_OUTPUT
        reading = ReadFileTool(made.spaces, media=made.home / "media", limit=20_000_000)
        made.registry.register(reading)
        page = await made.call("read_file", path=kept, offset=40_000_000, limit=2)
        assert page.text.startswith(f"{kept}, lines 40000000 to 40000001 of 50000000")
        await reading.aclose()


async def test_U73_without_a_sandbox_and_without_linux_a_command_has_its_limits_and_ends_with_its_group(
    tmp_path: Path,
) -> None:
    mark = f"6{secrets.randbelow(10**9)}"
    elsewhere = await choose("none", "darwin")
    assert not isinstance(elsewhere, Reason)
    made = Commands(tmp_path, elsewhere, ExecConfig(memory_mb=300), usual(), ())
    told = await made.allowed(
        command="ulimit -c; ulimit -d; n=$(ulimit -u 2>&- || ulimit -p); test $n -ge 512 && echo bounded; exit 3"
    )
    assert told.text.endswith("0\n300000\nbounded")
    assert "exit 3" in told.receipt
    late = await made.allowed(command=f"(sleep {mark} &); sleep {mark} & sleep {mark}", timeout=1)
    assert "ended at its time limit of 1 s" in late.receipt
    assert alive(mark) == []
    await made.exec.aclose()
    made.spaces.close()


async def test_memory_and_output_are_bounded(tmp_path: Path) -> None:
    async with commands_in(tmp_path, config=ExecConfig(memory_mb=200)) as made:
        big = await made.call(argv=[sys.executable, "-c", "print(len(bytearray(500_000_000)))"])
        assert "MemoryError" in big.text
        assert "exit 1" in big.text
        endless = await made.call(command="yes")
        assert "wrote more than 50 MB" in endless.receipt
        assert len(endless.text) < 12_000


async def test_more_processes_than_allowed_are_not_started_or_end_the_command(tmp_path: Path) -> None:
    mark = f"6{secrets.randbelow(10**9)}"
    async with commands_in(tmp_path, config=ExecConfig(processes=20)) as made:
        seen = await made.call(command=f"for i in $(seq 60); do sleep {mark} & done; wait", timeout=60)
        assert "more than 20 processes" in seen.receipt or "fork" in seen.text.casefold()
        assert alive(mark) == []


@table(
    "arguments kind target",
    ({"command": "ls  -la 'a b'"}, "run", "ls -la 'a b'"),
    ({"command": "no-such-program 1"}, "run", "sh -c 'no-such-program 1'"),
    ({"command": "ls -la"}, "run", "ls -la"),
    ({"cmd": "ls -la", "workdir": "sub"}, "run", "ls -la (in sub)"),
    ({"argv": ["rm", "-rf", "a b"]}, "run", "rm -rf 'a b'"),
    ({"command": "ls; rm -rf ~"}, "run", "sh -c 'ls; rm -rf ~'"),
    ({"command": "ls", "network": ["Example.org."]}, "run_open", "ls (network: example.org)"),
    ({"command": "ls", "network": ["granted.example"]}, "run", "ls (network: granted.example)"),
    ({"command": "ls", "network": ["a b"]}, "forbidden", ""),
    ({"command": "ls", "cwd": "/etc"}, "forbidden", "/etc"),
    ({"command": "ls", "cwd": "../.."}, "forbidden", "../.."),
    ({"command": "ls", "argv": ["ls"]}, "forbidden", ""),
    ({}, "forbidden", ""),
    ({"command": "ls\0"}, "forbidden", ""),
)
async def test_a_call_says_all_that_it_would_do(
    tmp_path: Path, arguments: dict[str, object], kind: str, target: str
) -> None:
    async with commands_in(tmp_path, config=ExecConfig(network=("granted.example",))) as made:
        (made.workspace / "sub").mkdir()
        (effect,) = made.exec.effects(arguments, made.context())
        assert (effect.kind, effect.target) == (kind, target)
        assert bool(effect.reason) == (kind == "forbidden")
        tainted = made.exec.effects(arguments, made.context(taint=("page a.example",)))[0].kind
        assert tainted == ("run_open" if "network:" in target else kind)


async def test_a_command_without_a_sandbox_or_with_a_network_is_asked_for_and_others_have_none(tmp_path: Path) -> None:
    async with commands_in(tmp_path, "none") as made:
        refused = await made.call(command="touch there")
        assert refused.error == "denied"
        assert not (made.workspace / "there").exists()
        guest = await made.call(context=made.context("guest"), command="touch there")
        assert guest.error == "denied"
        assert (await made.allowed(command="touch there")).receipt.startswith("ran touch there: exit 0")
        assert (made.workspace / "there").exists()


async def test_under_taint_no_command_runs_where_what_steers_is_too_much_to_be_kept(tmp_path: Path) -> None:
    async with commands_in(tmp_path) as made:
        notes = made.workspace / "memory"
        notes.mkdir()
        for number in range(4_100):
            (notes / f"{number}.md").touch()
        refused = await made.call(context=made.context(taint=("page evil.example",)), command="touch memory/new.md")
        assert refused.error == "denied"
        assert "was not started" in refused.text
        assert len([*notes.iterdir()]) == 4_100
        assert (await made.call(command="echo fine")).error is None


async def test_under_taint_what_steers_stays_and_what_is_written_is_foreign(tmp_path: Path) -> None:
    async with commands_in(tmp_path) as made:
        assert (await made.call(command="printf mine > AGENTS.md")).success
        assert (made.workspace / "AGENTS.md").read_text() == "mine", "no word from outside is there, nor any file"
        tainted = made.context(taint=("page evil.example",))
        line = "echo evil > AGENTS.md; echo evil > SOUL.md; mkdir -p skills/x; echo evil > skills/x/SKILL.md"
        seen = await made.call(context=tainted, command=f"{line}; echo ok > n.txt")
        assert seen.untrusted
        assert (made.workspace / "AGENTS.md").read_text() == "mine"
        assert not (made.workspace / "SOUL.md").exists()
        assert not (made.workspace / "skills").exists()
        assert "SOUL.md" in seen.receipt
        assert (made.workspace / "n.txt").read_text() == "ok\n"
        later = await made.call(command="cat n.txt")
        assert later.untrusted


async def test_a_script_from_outside_steers_nothing_in_a_later_conversation_and_what_it_writes_is_foreign(
    tmp_path: Path,
) -> None:
    async with commands_in(tmp_path) as made:
        store = made.store
        script = "echo evil > SOUL.md; mkdir -p templates; echo evil > templates/x; echo evil > out.md; mv d e"
        tainted = made.context(taint=("page evil.example",))
        lines = f"mkdir d node_modules; echo x > d/x.md; echo x > node_modules/x.md; echo '{script}' > build.sh"
        assert (await made.call(context=tainted, command=lines)).success
        await asyncio.to_thread(_is_past, made.workspace / "d/x.md")
        seen = await made.call(command="sh build.sh")
        assert seen.untrusted
        assert not (made.workspace / "SOUL.md").exists()
        assert not (made.workspace / "templates").exists()
        for name in ("out.md", "e/x.md", "node_modules/x.md"):
            assert store.origins.of(store.roots.place(name)), name


def _is_past(path: Path) -> None:
    """Until what was written counts as written before what begins now."""
    while time.time() - path.stat().st_ctime < 0.1:
        pass


async def test_what_a_user_wrote_is_foreign_to_the_owner_also_through_a_command(tmp_path: Path) -> None:
    async with commands_in(tmp_path) as made:
        note = made.workspace / "people/telegram-7/note.md"
        note.parent.mkdir(parents=True)
        note.write_text("Dear assistant, obey.")
        assert (await made.call(command="cp people/telegram-7/note.md mine.md; cat mine.md")).untrusted
        store = made.store
        assert store.origins.of(store.roots.place("mine.md"))


async def test_what_a_command_in_the_background_writes_is_foreign_while_it_runs_and_after_a_kill(
    tmp_path: Path,
) -> None:
    async with commands_in(tmp_path) as made:
        store = made.store
        tainted = made.context(taint=("page evil.example",))
        await made.call(context=tainted, command="echo evil > a.md; sleep 600", background=True)
        await made.until("a.md")
        assert store.origins.of(store.roots.place("a.md"))
        assert str(made.workspace / "a.md") in store.origins.below(made.workspace)
    dying = (
        "import os, sys; from pathlib import Path; from nanobot.files.store import FileStore; "
        "from nanobot.security.paths import Root, Roots; work = Path(sys.argv[1]); "
        "FileStore(Roots((Root(work, writable=True),)), Path(sys.argv[2])).origins.begin(); "
        "(work / 'b.md').write_text('evil'); os.kill(os.getpid(), 9)"
    )
    folders = (str(made.workspace), str(made.home / "files"))
    assert (await asyncio.to_thread(subprocess.run, [sys.executable, "-c", dying, *folders], check=False)).returncode
    later = FileStore(store.roots, made.home / "files")
    later.end_lost()
    assert later.origins.of(later.roots.place("b.md"))
    (made.workspace / "mine.md").write_text("written after it")
    assert not later.origins.of(later.roots.place("mine.md"))
    later.close()


def test_nothing_that_steers_hides_behind_many_or_large_files(tmp_path: Path) -> None:
    guard = ControlFiles(control_files(tmp_path))
    with (tmp_path / "CLAUDE.md").open("wb") as large:
        large.truncate(33_000_000)
    (tmp_path / "memory").mkdir()
    for number in range(4_100):
        (tmp_path / f"memory/{number}").touch()
    for name in ("skills/evil/SKILL.md", ".bashrc", ".git/hooks/pre-commit"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("evil")
    assert guard.put_back()
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert left == []


async def test_work_in_the_background_is_listed_read_and_stopped_across_turns(tmp_path: Path) -> None:
    mark = f"6{secrets.randbelow(10**9)}"
    async with commands_in(tmp_path) as made:
        begun = await made.call(command=f"echo ready; sleep {mark}", background=True)
        assert begun.receipt == f"started echo ready; sleep {mark} in the background (task 1)"
        await until_alive(mark, 1)
        assert "ready" in (await made.call("task", id=1)).text
        assert "(nothing new)" in (await made.call("task", task_id=1)).text
        assert "ready" in (await made.call("task", id=1, offset=0)).text
        assert f"`1` echo ready; sleep {mark}: running since" in (await made.call("task")).text
        assert "running since" in "".join(made.tasks.lines(HERE.key))
        assert "has no task 1" in (await made.call("task", made.context(address=Address("terminal", "b")), id=1)).text
        short = await made.call(command="echo over; exit 4", background=True)
        assert "Task 2" in short.text
        assert "exit 4" in (await made.call("task", id=2, wait=600)).text
        assert "stopped" in await made.tasks.shown(HERE.key, 1, stop=True)
        assert alive(mark) == []
        assert list((made.home / "tasks").iterdir()) == []


async def test_the_next_start_says_once_in_the_chat_what_ended_with_nanobot(tmp_path: Path) -> None:
    mark = f"6{secrets.randbelow(10**9)}"
    said: list[tuple[str, str]] = []

    async def say(address: Address, text: str, key: str) -> None:
        said.append((address.key, text))

    async with commands_in(tmp_path) as made:
        await made.call(command=f"sleep {mark}", background=True)
        await BackgroundTasks(made.home / "tasks").announce_lost("terminal", say)
        assert said == []  # it still runs
    assert alive(mark) == []
    later = BackgroundTasks(made.home / "tasks")
    await later.announce_lost("telegram", say)
    assert said == []
    await later.announce_lost("terminal", say)
    await later.announce_lost("terminal", say)
    assert said == [
        ("terminal:here", f"The command in the background `sleep {mark}` (task 1) ended when nanobot ended.")
    ]


CLIENT = """
import sys, urllib.error, urllib.request
for host in ("127.0.0.1", "other.example"):
    try:
        print(host, urllib.request.urlopen(f"http://{host}:{sys.argv[1]}/", timeout=60).read().decode())
    except OSError as error:
        print(host, "failed", error)
"""


@pytest.mark.parametrize("name", ["bubblewrap", "landlock"])
async def test_U74_a_command_reaches_the_host_that_was_granted_and_no_other(tmp_path: Path, name: SandboxName) -> None:
    async with Website({"/": Answer("hello")}) as served:
        port = served.server.port
        line, host = [sys.executable, "client.py", str(port)], f"127.0.0.1:{port}"
        async with commands_in(tmp_path, name, whitelist=("127.0.0.1",)) as made:
            (made.workspace / "client.py").write_text(CLIENT)
            assert "127.0.0.1 failed" in (await made.call(argv=line)).text
            assert (await made.call(argv=line, network=[host])).error == "denied"  # nobody is there who could allow it
            assert served.server.requests == []
            seen = await made.allowed(argv=line, network=[host])
            assert "127.0.0.1 hello" in seen.text
            assert "other.example failed" in seen.text
            assert f"Refused, for nobody granted it: other.example:{port}" in seen.text
            assert seen.untrusted
            assert len(served.server.requests) == 1
        config = ExecConfig(network=(host,))
        async with commands_in(tmp_path, name, config, whitelist=("127.0.0.1",)) as made:
            assert "127.0.0.1 hello" in (await made.call(argv=line)).text
            tainted = made.context(taint=("page a.example",))
            assert "127.0.0.1 failed" in (await made.call(context=tainted, argv=line)).text


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    """All that lies below a folder: modes, texts, and where links lead."""
    return {
        str(one.relative_to(folder)): (
            one.lstat().st_mode,
            os.fsencode(one.readlink()) if one.is_symlink() else one.read_bytes() if one.is_file() else b"",
        )
        for one in folder.rglob("*")
    }


def put_text(text: str, _: bytes | None) -> bytes:
    return text.encode()


def furnish(folder: Path) -> None:
    (folder / "photos/old").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "photos/old" / os.fsdecode(b"caf\xe9.jpg")).write_bytes(bytes(range(256)))
    (folder / "photos/b.jpg").write_text("b")
    (folder / "plan.md").write_text("the plan")
    (folder / "run.sh").write_text("#!/bin/sh")
    (folder / "run.sh").chmod(0o750)
    (folder / "latest").symlink_to("photos/b.jpg")
    (folder / ".hidden").write_text("kept, too")


DESTROYING = {
    "delete all": ("rm -rf ./*; rm -rf .hidden", "+0 ~0 −6 files"),
    "delete a folder": ("rm -r photos", "+0 ~0 −2 files"),
    "write into a file": ("printf evil > plan.md", "+0 ~1 −0 files"),
    "write as many bytes and set the time back": (
        "cp -p plan.md ~/t; printf 'THE PLAN' > plan.md; touch -r ~/t plan.md",
        "+0 ~1 −0 files",
    ),
    "rename a folder and change what is in it": ("mv photos gone; echo x >> gone/b.jpg", "+2 ~0 −2 files"),
    "change a mode": ("chmod 600 run.sh", "+0 ~1 −0 files"),
    "close a folder": ("chmod 000 photos", ""),
    "lead a link elsewhere": ("ln -sf /etc/passwd latest", "+0 ~1 −0 files"),
    "a folder in the place of a file": ("rm plan.md; mkdir plan.md; echo x > plan.md/x", "+1 ~1 −0 files"),
    "a file in the place of a folder": ("rm -r photos; echo x > photos", ""),
    "make files": ("mkdir -p deep/er; echo x > deep/er/x; echo y > y", "+2 ~0 −0 files"),
    "delete the home": ("rm -rf ~; rm -rf $HOME", ""),
    "fill the home deeper than Python 3.11 goes": ("cd ~; for i in $(seq 1200); do mkdir d; cd d; done; touch x", ""),
}


@pytest.mark.parametrize("name", SANDBOXES)
async def test_U4_whatever_a_command_destroys_one_undo_takes_all_of_it_back(tmp_path: Path, name: SandboxName) -> None:
    async with commands_in(tmp_path, name) as made:
        furnish(made.workspace)
        before = everything(made.workspace)
        store = made.store
        for what, (line, counted) in DESTROYING.items():
            ran = await made.allowed(command=line)
            assert f"({counted})" in ran.receipt or not counted, (what, ran.receipt)
            if "the home" in what:
                assert not ran.error, ran.text
                assert everything(made.workspace) == before
                continue
            assert everything(made.workspace) != before, what
            assert "is undone" in store.undo(made.context().chat), what
            assert everything(made.workspace) == before, what
        assert "nothing to undo" in store.undo(made.context().chat)
        assert "files" not in (await made.allowed(command="cat plan.md; touch plan.md")).receipt


async def test_U4_what_a_command_did_before_it_was_stopped_can_be_taken_back(tmp_path: Path) -> None:
    mark = f"6{secrets.randbelow(10**9)}"
    async with commands_in(tmp_path) as made:
        furnish(made.workspace)
        before, store = everything(made.workspace), made.store
        running = asyncio.create_task(made.call(command=f"rm -rf photos plan.md; sleep {mark}"))
        await until_alive(mark, 1)
        running.cancel()
        await asyncio.wait({running})
        await made.exec.aclose()
        assert everything(made.workspace) != before
        assert "3 files are as before" in store.undo(made.context().chat)
        assert everything(made.workspace) == before


async def test_what_a_command_did_on_a_disk_too_full_to_note_it_is_said_not_to_be_kept(tmp_path: Path) -> None:
    async with commands_in(tmp_path) as made:
        (made.workspace / "plan.md").write_text("mine")
        around = FilesAround(made.store, tainted=False, foreign=False)
        around.prepare()
        (made.workspace / "plan.md").unlink()
        with without_room(0):
            around.settle(ChangedBy("s", "rm plan.md"))
        assert around.tally.receipt.startswith("its changes are not kept: ")
        assert "files.db cannot be" in around.tally.receipt


async def test_U73_what_a_command_made_to_steer_is_taken_back_by_the_next_start_where_nanobot_was_killed(
    tmp_path: Path,
) -> None:
    async with commands_in(tmp_path) as made:
        work, store = made.workspace, made.store
        (work / "memory").mkdir()
        for name in ("SOUL.md", "memory/MEMORY.md"):
            (work / name).write_text("mine")
        dying = (
            "import os, sys; from pathlib import Path; from nanobot.files.store import FileStore; "
            "from nanobot.agent.tools.commands.around import FilesAround; "
            "from nanobot.security.paths import Root, Roots; work = Path(sys.argv[1]); "
            "store = FileStore(Roots((Root(work, writable=True),)), Path(sys.argv[2])); "
            "FilesAround(store, tainted=True, foreign=True).prepare(); "
            "[(work / one).write_text('evil') for one in ('SOUL.md', 'AGENTS.md', 'memory/MEMORY.md', 'plan.md')]; "
            "store.change(store.roots.place('USER.md', write=True), lambda _: b'approved', session='s'); "
            "os.kill(os.getpid(), 9)"
        )
        folders = (str(work), str(made.home / "files"))
        died = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", dying, *folders], check=False)
        assert died.returncode == -9
        prompts = ContextBuilder(work, foreign_below=made.spaces.foreign_below, doubted=made.spaces.doubted)
        assert "evil" not in prompt_of(prompts)
        made.spaces.prune()
        found = {one.name: one.read_text() for one in work.rglob("*.md")}
        saved = [one for one in (made.home / "files/trash").rglob("*") if one.is_file()]
        assert {one.name: one.read_text() for one in saved} == dict.fromkeys(
            ("SOUL.md", "AGENTS.md", "MEMORY.md"), "evil"
        ), "it could be what the owner wrote"
        assert found == {"SOUL.md": "mine", "MEMORY.md": "mine", "USER.md": "approved", "plan.md": "evil"}
        assert "evil" not in prompt_of(prompts)
        assert "approved" in prompt_of(prompts)
        assert store.origins.of(store.roots.place("plan.md"))
        assert not store.steering.doubted([work / "SOUL.md"])


async def test_U30_what_was_written_after_a_command_stays_when_it_is_undone(tmp_path: Path) -> None:
    async with commands_in(tmp_path) as made:
        furnish(made.workspace)
        store, chat = made.store, made.context().chat
        await made.call(command="echo evil > plan.md; echo new > new.md; rm run.sh")
        (made.workspace / "plan.md").write_text("mine")
        (made.workspace / "new.md").write_text("mine, too")
        told = store.undo(chat)
        assert "1 file is as before" in told
        assert (made.workspace / "run.sh").read_text() == "#!/bin/sh"
        assert [(made.workspace / one).read_text() for one in ("plan.md", "new.md")] == ["mine", "mine, too"]
        assert [one.read_text() for one in made.workspace.glob("plan.md.before-*")] == ["the plan"]


async def test_U30_of_a_command_in_the_background_what_is_gone_comes_back_and_the_rest_is_put_beside(
    tmp_path: Path,
) -> None:
    async with commands_in(tmp_path) as made:
        furnish(made.workspace)
        store, chat = made.store, made.context().chat
        changes = "rm -r photos; echo theirs > plan.md; echo new > new.md"
        line = f"{changes}; touch ready; while [ ! -e go ]; do sleep 0.02; done"
        await made.call(command=line, background=True)
        await made.until("ready")
        (made.workspace / ".hidden").write_text("my own words")
        place = store.roots.place("run.sh", write=True)
        store.change(place, lambda _: b"approved", session="another")
        (made.workspace / "go").touch()
        assert "+3 ~2 −2 files" in (await made.call("task", id=1, wait=60)).text
        assert "2 files are as before" in store.undo(chat)
        assert (made.workspace / "photos/b.jpg").read_text() == "b"
        assert [one.read_text() for one in made.workspace.glob("plan.md.before-*")] == ["the plan"]
        for name, text in ((".hidden", "my own words"), ("run.sh", "approved"), ("new.md", "new\n")):
            assert (made.workspace / name).read_text() == text


async def test_U73_beside_content_from_outside_what_cannot_be_kept_whole_is_asked_for(tmp_path: Path) -> None:
    async with commands_in(tmp_path) as made:
        furnish(made.workspace)
        tainted = made.context(taint=("page evil.example",))
        assert (await made.judged("exec", tainted, {"command": "rm -rf ./*"})).decision == "allow"
        with (made.workspace / "film.mkv").open("wb") as film:
            film.truncate(MAX_ONE + 1)
        allowed = tainted.allowed
        judged = await made.judged("exec", tainted, {"command": "rm -rf ./*"})
        assert (judged.decision, [one.kind for one in judged.open]) == ("deny", ["run_lossy"]), "nobody is there"
        tainted.allowed = allowed
        refused = await made.exec.call({"command": "rm -rf ./*"}, tainted)
        assert (refused.error, "not the one that was judged" in refused.text) == ("denied", True)
        assert (made.workspace / "plan.md").exists()


async def test_U30_a_file_that_is_too_large_to_be_kept_comes_back_unless_it_was_written_into(tmp_path: Path) -> None:
    async with commands_in(tmp_path) as made:
        furnish(made.workspace)
        with (made.workspace / "photos/film.mkv").open("wb") as film:
            film.truncate(MAX_ONE + 1)
        film_now = made.workspace / "photos/film.mkv"
        store, chat = made.store, made.context().chat
        before = everything(made.workspace)
        for line, counted in (
            ("rm -rf ./*", "+0 ~0 −6 files"),
            ("mv photos gone", "+3 ~0 −3 files"),
            ("mkdir films; mv photos/film.mkv films/", "+1 ~0 −1 files"),
            ("rm photos/film.mkv; echo small > photos/film.mkv", "+0 ~1 −0 files"),
        ):
            assert (await made.call(command=line)).receipt.endswith(f"({counted})"), line
            assert "is undone" in store.undo(chat)
            assert everything(made.workspace) == before, line
        written = await made.call(command="printf x >> photos/film.mkv; rm plan.md")
        assert written.receipt.endswith("(+0 ~1 −1 files; not kept: photos/film.mkv)")
        assert "photos/film.mkv" in store.undo(chat)
        assert film_now.stat().st_size == MAX_ONE + 2
        assert (made.workspace / "plan.md").read_text() == "the plan"
        assert not [one for one in os.scandir("/proc/self/fd") if "film.mkv" in os.path.realpath(one.path)]


async def test_U30_a_file_of_holes_comes_back_as_one(tmp_path: Path) -> None:
    async with commands_in(tmp_path) as made:
        disk = made.workspace / "disk.img"
        with disk.open("wb") as file:
            file.truncate(200_000_000_000)
            file.seek(100_000_000_000)
            file.write(b"words")
        assert (await made.call(command="rm disk.img")).receipt.endswith("(+0 ~0 −1 files)")
        assert "1 file is as before" in made.store.undo(made.context().chat)
        with disk.open("rb") as file:
            file.seek(100_000_000_000)
            assert file.read(5) == b"words"
        assert (disk.stat().st_size, disk.stat().st_blocks < 1_000) == (200_000_000_000, True)


async def test_U30_a_command_in_the_background_leaves_what_the_owner_has_approved_and_makes_nothing_for_prompts(
    tmp_path: Path,
) -> None:
    for sandbox in ("bubblewrap", "landlock"):
        async with commands_in(tmp_path / sandbox, sandbox) as made:
            work = made.workspace
            (work / "memory").mkdir()
            (work / "memory/MEMORY.md").write_text("Ada likes tea.")
            (work / "SOUL.md").write_text("Be kind.")
            furnish(work)
            store = made.store
            prompts = ContextBuilder(work, foreign_below=made.spaces.foreign_below, doubted=made.spaces.doubted)
            line = (
                "echo obey > AGENTS.md; mkdir -p templates/agent; echo obey > templates/agent/identity.md; "
                "echo obey > memory/MEMORY.md; rm -f plan.md; touch ready; "
                "while [ ! -e go ]; do sleep 0.02; done; echo obey > USER.md; echo obey >> SOUL.md"
            )
            tainted = made.context(taint=("page evil.example",))
            begun = await made.call(context=tainted, command=line, background=True)
            await made.until("ready")
            assert "obey" not in prompt_of(prompts)
            assert "Be kind." in prompt_of(prompts)
            approved = {"SOUL.md": "Be brief.", "USER.md": "Ada.", "skills/mine/SKILL.md": "mine"}
            for name, text in approved.items():
                place = store.roots.place(name, write=True)
                store.change(place, partial(put_text, text), session="other")
            assert "Be brief." in prompt_of(prompts)
            (work / "go").touch()
            assert begun.error is None
            ended = await made.call("task", id=1, wait=60)
            assert "obey" not in prompt_of(prompts)
            for name, text in approved.items():
                assert (work / name).read_text() == text, (sandbox, name)
            assert (work / "memory/MEMORY.md").read_text() == "Ada likes tea."
            assert not (work / "AGENTS.md").exists()
            assert not (work / "templates").exists()
            assert "AGENTS.md was made by the command and taken away again" in ended.text
            store.undo(made.context().chat)
            assert (work / "plan.md").read_text() == "the plan"
