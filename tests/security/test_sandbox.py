"""Commands that destroy, spy and break out, each run for real in each sandbox that works on this machine.

Where a sandbox does not work here its rows are skipped, and the reason that `nanobot status` gives is theirs.
"""

import asyncio
import contextlib
import functools
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

import nanobot
from nanobot.security.process_tree import descendants, listed_processes, processes_of_user
from nanobot.security.sandbox import Confinement, Landlocked, Lifeline, Reason, Sandbox, SandboxName, Unconfined, choose
from tests.tables import table

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="NOT TRIED: there is a sandbox on Linux only")

CANARY = "canary-5f1c7e0b"
#: Name → a line for the shell: `$P` is the person's folder, which may be read but for its secrets, `$H` nanobot's home
#: with the workspace in it, `$W` the workspace, `$O` a folder beside all of them, `$V` the number of another process.
#: Where a sandbox is broken a line does what it says: none may reach beyond the folder and the processes of its test.
DESTROYS = {
    "remove the person's folder": 'rm -rf "$P"; rm -rf "${P:?}"/* "${P:?}"/.[a-z]*',
    "remove nanobot's home": 'rm -rf "$H"',
    "remove through a link": 'ln -s "$P" link; rm -rf link/',
    "find -delete": 'find "$P" -mindepth 1 -delete',
    "find through /proc": 'find "/proc/self/root${P:?}" -mindepth 1 -delete',
    "overwrite .bashrc": 'echo "evil" > "$P/.bashrc"',
    "append to .bashrc": 'echo "evil" >> "$P/.bashrc"',
    "sed -i": 'sed -i s/alias/evil/ "$P/.bashrc"',
    "truncate": 'truncate -s 0 "$P/letter.txt"',
    "truncate by python": "python3 -c \"import os; os.truncate(os.environ['P'] + '/letter.txt', 0)\"",
    "dd": 'dd if=/dev/zero of="$P/letter.txt" bs=1 count=4 conv=notrunc',
    "tee": 'echo evil | tee "$P/letter.txt"',
    "cp over": 'echo evil > new; cp new "$P/letter.txt"',
    "mv over": 'echo evil > new; mv -f new "$P/letter.txt"',
    "mv away": 'mv "$P/letter.txt" stolen',
    "rename a folder": 'mv "$P/photos" "$P/gone"',
    "exchange": 'mkdir photos; mv -T photos "$P/photos"',
    "make a file": 'touch "$P/new"',
    "make a folder": 'mkdir "$P/new"',
    "make a link": 'ln -s /etc/passwd "$P/new"',
    "make a pipe": 'mkfifo "$P/new"',
    "write through a link": 'ln -s "$P/letter.txt" link; echo evil > link',
    "write through a link to a folder": 'ln -s "$P" link; echo evil > link/letter.txt',
    "write through ..": "echo evil > ../config.json",
    "write through /proc/self/root": 'echo evil > "/proc/self/root$P/letter.txt"',
    "write through /proc/self/cwd": "echo evil > /proc/self/cwd/../config.json",
    "write a hard link": 'ln "$P/letter.txt" hard && echo evil > hard',
    "write beside": 'echo evil > "$O/file"',
    "encoded": "echo cm0gLXJmICIkUCI= | base64 -d | sh",
    "a program of python": "python3 -c \"import shutil, os; shutil.rmtree(os.environ['P'], ignore_errors=True)\"",
    "chmod": 'chmod 777 "$P/letter.txt"',
    "chmod of a folder": 'chmod 000 "$P/photos"',
    "chmod by a link": 'ln -s "$P/letter.txt" link; chmod 777 link',
    "chmod by a descriptor": "python3 -c \"import os; os.fchmod(os.open(os.environ['P'] + '/letter.txt', 0), 0o777)\"",
    "chmod by ..": "chmod 777 ../config.json",
    "chown": 'chown 12345 "$P/letter.txt"; chown -h 12345 "$P/.bashrc"',
    "touch the time": 'touch -d 2001-01-01 "$P/letter.txt"; touch -hd 2001-01-01 "$P/letter.txt"',
    "utime": "python3 -c \"import os; os.utime(os.environ['P'] + '/letter.txt', (1, 1))\"",
    "attributes": "python3 -c \"import os; os.setxattr(os.environ['P'] + '/letter.txt', 'user.evil', b'1')\"",
    "remount": 'mount -o remount,rw "$P"; echo evil > "$P/letter.txt"',
    "mount": 'mkdir m; mount --bind "$P" m && echo evil > m/letter.txt',
    "unshare": 'unshare -Urm sh -c "mount -t tmpfs none $P; echo evil > $P/letter.txt"',
    "chroot": 'chroot "$P" /bin/sh -c "echo evil > /letter.txt"',
    "kill another process": 'kill -9 "$V"; kill -STOP "$V"; python3 -c "import os; os.kill(int(os.environ[\'V\']), 9)"',
    "kill the group of another process": "python3 -c \"import os; os.killpg(int(os.environ['V']), 9)\"",
    "limits of another process": "python3 -c \"import os, resource; v = int(os.environ['V']); "
    'resource.prlimit(v, resource.RLIMIT_CPU, (1, 1))"',
    "priority of another process": 'renice -n 19 -p "$V"',
    "late, in a session of its own": '(setsid sh -c "sleep 0.3; echo evil > $P/letter.txt" &) ; true',
}
SPIES = {
    "read the configuration": 'cat "$H/config.json"',
    "read by ..": "cat ../config.json",
    "read a key": 'cat "$P/.ssh/id_ed25519"',
    "read through a link": 'ln -s "$P/.ssh/id_ed25519" link; cat link; cp -L link copy',
    "read through a hard link": 'ln "$P/.ssh/id_ed25519" hard; cat hard; ln ../config.json hard2; cat hard2',
    "copy all": 'cp -r "$P" copy; cp -r "$H/config.json" copy2',
    "grep all": 'grep -r canary "$P" "$H" "$O" 2>/dev/null --include=config.json --include=id_ed25519 --include=file',
    "tar": 'tar cf all.tar "$P" "$H/config.json"',
    "read beside": 'cat "$O/file"',
    "list what is hidden": 'ls -la "$P/.ssh" "$H" | grep -c id_ed25519 && echo canary-5f1c7e0b',
    "environment of another process": 'cat "/proc/$V/environ" | tr "\\0" "\\n"',
    "command line of another process": 'cat "/proc/$V/cmdline"; ps axww',
    "environment of every process": 'cat /proc/[0-9]*/environ | tr "\\0" "\\n"',
    "files of another process": 'cat "/proc/$V/root$H/config.json"; cat "/proc/$V/cwd/../config.json"',
    "memory of another process": "python3 -c \"import os; v = os.environ['V']; "
    "f = open(f'/proc/{v}/mem', 'rb'); print('canary-5f1c7e0b')\"",
    "ptrace": 'python3 -c "import ctypes, os; c = ctypes.CDLL(None, use_errno=True); '
    "print('canary-5f1c7e0b') if c.ptrace(16, int(os.environ['V']), 0, 0) == 0 else None\"",
    "read the memory of a process": 'python3 -c "import ctypes, os, struct; c = ctypes.CDLL(None); '
    "b = ctypes.create_string_buffer(8); v = struct.pack('QQ', ctypes.addressof(b), 8); "
    "print('canary-5f1c7e0b') if c.process_vm_readv(int(os.environ['V']), v, 1, v, 1, 0) > 0 else None\"",
    "passwords of the system": "cat /etc/shadow > /dev/null && echo canary-5f1c7e0b",
    "TCP": "python3 -c \"import socket, os; socket.create_connection(('127.0.0.1', int(os.environ['TCP'])), 2); "
    "print('canary-5f1c7e0b')\"",
    "TCP by fast open": 'python3 -c "import socket, os; s = socket.socket(); '
    "s.sendto(b'x', 0x20000000, ('127.0.0.1', int(os.environ['TCP']))); print('canary-5f1c7e0b')\"",
    "a Unix socket": "python3 -c \"import socket, os; socket.socket(socket.AF_UNIX).connect(os.environ['SOCK']); "
    "print('canary-5f1c7e0b')\"",
    "an abstract socket": 'python3 -c "import socket, os; s = socket.socket(socket.AF_UNIX); '
    "s.connect(chr(0) + os.environ['ABSTRACT']); print('canary-5f1c7e0b')\"",
    "a netlink socket": 'python3 -c "import socket; s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); '
    "s.bind((0, 0)); s.send(b'\\x14\\0\\0\\0\\x16\\0\\1\\3' + bytes(12)); "
    "print('canary-5f1c7e0b') if b'eth0' in s.recv(65536) else None\"",
    "a packet socket": 'python3 -c "import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 768); '
    "print('canary-5f1c7e0b')\"",
    "keys of the kernel": 'python3 -c "import ctypes; c = ctypes.CDLL(None); '
    "print('canary-5f1c7e0b') if c.syscall(250, 0, -3, 1) > 0 and c.syscall(248, b'user', b'x', b'y', 1, -4) > 0 "
    'else None"',
    "io_uring": 'python3 -c "import ctypes; c = ctypes.CDLL(None); '
    "print('canary-5f1c7e0b') if c.syscall(425, 4, ctypes.create_string_buffer(120)) >= 0 else None\"",
}
#: Does lines one after the other in the workspace. What one leaves there has another name when the next one begins.
EACH = """
import json, os, subprocess, sys
for number, line in enumerate(json.load(sys.stdin)):
    subprocess.run(["/bin/sh", "-c", line], stdin=subprocess.DEVNULL)
    for name in os.listdir():
        if name[0] != ".":
            os.rename(name, f".{number}-{name}")
"""


class World:
    """Folders with things to lose, sockets to reach and a process to attack."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.person, self.other = folder, folder / "person", folder / "beside"
        self.home = self.person / ".nanobot"
        self.workspace = self.home / "workspace"
        for path in (self.workspace, self.person / ".ssh", self.person / "photos", self.other):
            path.mkdir(parents=True)
        for path in (self.home / "config.json", self.person / ".ssh" / "id_ed25519", self.other / "file"):
            path.write_text(CANARY, encoding="utf-8")
        for name in (".bashrc", "letter.txt", "photos/one.txt"):
            (self.person / name).write_text("alias ll='ls -l'\n", encoding="utf-8")
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(str(self.other / "socket"))
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind(f"\0{CANARY}-{folder}")
        for one in (self.unix, self.abstract):
            one.listen()
        secret = {"SECRET": CANARY, "PATH": "/usr/bin:/bin"}
        waits = ["/bin/sh", "-c", "read line", CANARY]
        self.victim = subprocess.Popen(
            waits, stdin=subprocess.PIPE, env=secret, cwd=self.workspace, start_new_session=True
        )
        self.before = self.state()

    def close(self) -> None:
        for one in (self.tcp, self.unix, self.abstract):
            one.close()
        self.victim.kill()
        self.victim.communicate()

    def state(self) -> dict[str, tuple[object, ...]]:
        """Everything outside the workspace: kinds, rights, owners, times, attributes and what is in the files."""
        found: dict[str, tuple[object, ...]] = {}
        for path in sorted(self.folder.rglob("*")):
            if self.workspace not in (path, *path.parents):
                at = path.lstat()
                text = path.read_bytes() if path.is_file() else b""
                kept = () if path.is_socket() else tuple(os.listxattr(path, follow_symlinks=False))
                found[str(path)] = (at.st_mode, at.st_uid, at.st_mtime_ns, at.st_nlink, kept, text)
        return found

    def confinement(self) -> Confinement:
        hidden = (self.person / ".ssh", self.home)
        return Confinement(writable=(self.workspace,), readable=(self.person,), hidden=hidden)

    def run(
        self, sandbox: Sandbox, line: str, given: Confinement | None = None, told: str = ""
    ) -> subprocess.CompletedProcess[str]:
        env = {
            "P": self.person,
            "H": self.home,
            "W": self.workspace,
            "O": self.other,
            "SOCK": self.other / "socket",
            "V": self.victim.pid,
            "TCP": self.tcp.getsockname()[1],
            "ABSTRACT": f"{CANARY}-{self.folder}",
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "TMPDIR": self.folder,
            "HOME": self.workspace,
        }
        command = sandbox.command(["/bin/sh", "-c", line], self.workspace, given or self.confinement())
        return subprocess.run(
            command,
            cwd=self.workspace,
            env={key: str(value) for key, value in env.items()},
            capture_output=True,
            text=True,
            errors="replace",
            input=told,
            timeout=240,
            check=False,
        )

    def harmed(self, sandbox: Sandbox, lines: Iterable[str]) -> str:
        """What these lines, done in one command, achieve that they may not; empty where nothing."""
        python = f'exec "{sys.executable}" -I -c "$EACH"'
        ran = self.run(sandbox, f"EACH={shlex.quote(EACH)}; {python}", told=json.dumps([*lines]))
        return self.judge(ran) or ("" if ran.returncode == 0 else f"not all were done: {ran.stderr[-300:]}")

    def judge(self, ran: subprocess.CompletedProcess[str]) -> str:
        """What the command achieved that it may not; empty where nothing."""
        if self.victim.poll() is not None:
            return "the other process was ended"
        state = Path(f"/proc/{self.victim.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        limits = Path(f"/proc/{self.victim.pid}/limits").read_text(encoding="utf-8").splitlines()
        nice = str(os.getpriority(os.PRIO_PROCESS, 0))
        limited = not any(one.split()[3:5] == ["unlimited"] * 2 for one in limits[1:2])
        if state[0] == "T" or state[16] != nice or limited:
            return f"the other process was held or changed: {state[0]} {state[16]} {limits[1]}"
        if CANARY in ran.stdout.replace(f"{CANARY}-", ""):
            return f"a secret was read: {ran.stdout[:300]}"
        with contextlib.suppress(OSError):
            for path in self.workspace.rglob("*"):
                if path.is_file() and not path.is_symlink() and CANARY.encode() in path.read_bytes():
                    return f"a secret lies in the workspace: {path.name}"
        changed = {key: value for key, value in self.state().items() if self.before.get(key) != value}
        lost = self.before.keys() - self.state().keys()
        return f"changed: {sorted(changed)}, lost: {sorted(lost)}" if changed or lost else ""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    # The folder of tests lies in that for temporary files, which a sandbox has of its own.
    made = World(tmp_path)
    yield made
    made.close()


@functools.cache
def chosen(name: SandboxName, platform: str) -> Sandbox | Reason:
    """Once for all tests, since it starts programs to find out."""
    return asyncio.run(choose(name, platform))


def working(name: SandboxName, platform: str = "linux") -> Sandbox:
    """The sandbox, or a skip that says aloud why it was not tried."""
    found = chosen(name, platform)
    if isinstance(found, Reason):
        pytest.skip(f"NOT TRIED: {found.text}")
    return found


@pytest.fixture(params=["bubblewrap", "landlock", "landlock of Linux 5.13", "landlock of Linux 6.7"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """Older versions of Landlock are the one here, asked for no more than they can."""
    name, _, older = request.param.partition(" of ")
    found = working(name)
    return Landlocked({"Linux 5.13": 1, "Linux 6.7": 4}[older]) if older else found


def harmful(world: World, sandbox: Sandbox, lines: Mapping[str, str]) -> dict[str, str]:
    """Which of these commands achieve something, and what: done together, and each alone only where that harms."""
    if not (found := {"together": world.harmed(sandbox, lines.values())})["together"]:
        return {}
    for name, line in lines.items():
        with contextlib.closing(World(Path(tempfile.mkdtemp()))) as alone:
            found[name] = alone.harmed(sandbox, [line])
    return {name: harm for name, harm in found.items() if harm}


def test_a_command_that_destroys_changes_nothing_outside_its_folders(world: World, sandbox: Sandbox) -> None:
    assert harmful(world, sandbox, DESTROYS) == {}


def test_a_command_that_spies_reads_nothing_secret_and_reaches_nobody(world: World, sandbox: Sandbox) -> None:
    assert harmful(world, sandbox, SPIES) == {}


#: Of the above those that hurt nobody but the world of the test where nothing confines them.
BITES = (
    "remove the person's folder, find -delete, overwrite .bashrc, sed -i, truncate by python, dd, cp over, mv away, "
    "rename a folder, make a pipe, write through a link to a folder, write through .., encoded, "
    "write through /proc/self/root, write a hard link, chmod by a descriptor, chmod by .., utime, touch the time, "
    "kill another process, kill the group of another process, limits of another process, priority of another process, "
    "read through a hard link, read the configuration, read a key, copy all, tar, environment of another process, TCP, "
    "memory of another process, a Unix socket, an abstract socket, files of another process"
).split(", ")


@pytest.mark.parametrize("name", BITES)
def test_without_a_sandbox_the_same_commands_do_harm(world: World, name: str) -> None:
    """So that the tests above would notice."""
    assert set(harmful(world, working("none"), {"before": "echo new > new", name: {**DESTROYS, **SPIES}[name]})) == {
        "together",
        name,
    }


WORKS = {
    "write and read": ("echo hi > a && cat a", "hi"),
    "folders": ("mkdir -p x/y && echo hi > x/y/z && mv x q && cat q/y/z && rm -r q && ls", "hi"),
    "modes": (
        "echo 'echo ran' > s && chmod +x s && ./s && stat -c %a s && chmod 600 s && stat -c %a s",
        "ran\n755\n600",
    ),
    "times": ("touch -d @1000000000 a && stat -c %Y a && cp -p a b && stat -c %Y b", "1000000000\n1000000000"),
    "links": ("echo hi > a && ln -s a b && ln a c && cat b c", "hi\nhi"),
    "the person's files": ('cat "$P/letter.txt" && ls "$P/photos"', "alias ll='ls -l'\none.txt"),
    "temporary files": ('f=$(mktemp) && echo hi > "$f" && cat "$f"', "hi"),
    "pipes and children": ("seq 100 | sort -n | tail -1 & wait; (exit 3); echo $?", "100\n3"),
    "python": ("python3 -c \"import json, subprocess; print(subprocess.check_output(['echo', 'hi']).decode())\"", "hi"),
    "tar": ("mkdir d && echo hi > d/f && chmod 640 d/f && tar cf t.tar d && rm -r d && tar xpf t.tar && cat d/f", "hi"),
    "ends its children": ("sleep 60 & kill $! && wait $!; echo $?", "143"),
    "git": (
        "git init -q && echo > f; git add f && git -c user.email=a@b -c user.name=a commit -qm1; git log --format=%s",
        "1",
    ),
}


@pytest.mark.parametrize("name", WORKS)
def test_ordinary_work_goes_on_in_the_sandbox(world: World, sandbox: Sandbox, name: str) -> None:
    if name == "git" and shutil.which("git") is None:
        pytest.skip("NOT TRIED: git is not installed")
    line, told = WORKS[name]
    ran = world.run(sandbox, line)
    assert (ran.stdout.strip(), ran.returncode) == (told, 0), ran.stderr
    assert world.judge(ran) == ""


@pytest.mark.parametrize(
    ("line", "code"), [("exit 7", 7), ("kill -9 $$", -9), ("kill -TERM $$", -15), ("nowhere", 127)]
)
def test_a_command_ends_as_it_would_without_a_sandbox(world: World, sandbox: Sandbox, line: str, code: int) -> None:
    assert world.run(sandbox, line).returncode in (code, 128 - code if code < 0 else code)


@pytest.mark.parametrize("how", ["by itself", "SIGTERM", "SIGKILL of the group"])
def test_U4_nothing_that_a_command_started_outlives_it(world: World, sandbox: Sandbox, how: str) -> None:
    seconds = f"6{os.getpid()}.{abs(hash(str(world.folder))) % 10**9}"
    stubborn = f"trap '' TERM INT HUP; setsid sh -c 'trap \"\" TERM; sleep {seconds}' & (setsid sleep {seconds} &) "
    line = f"{stubborn}; echo started; " + ("sleep 0.1" if how == "by itself" else f"sleep {seconds}; sleep {seconds}")
    command = sandbox.command(["/bin/sh", "-c", line], world.workspace, world.confinement())
    process = subprocess.Popen(command, cwd=world.workspace, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"
    if how != "by itself":
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5 if how != "SIGTERM" else 120)
    if how == "SIGKILL of the group":
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=120)  # ends when the last of them has closed its output
    assert not [one for one in Path("/proc").glob("[0-9]*/cmdline") if seconds.encode() in _read(one)]


def test_what_is_protected_stays_as_it_is_in_bubblewrap_also_for_those_who_may_write_around_it(world: World) -> None:
    sandbox = working("bubblewrap")
    kept = [world.workspace / name for name in ("AGENTS.md", ".git/config", ".git/hooks")]
    kept[2].mkdir(parents=True)
    for path in (*kept[:2], kept[2] / "pre-commit"):
        path.write_text("ours", encoding="utf-8")
    given = Confinement((world.workspace,), protected=(*kept, world.workspace / "CLAUDE.md"))
    lines = ["echo evil > AGENTS.md", "rm AGENTS.md", "mv AGENTS.md b", "echo evil > b; mv b AGENTS.md", "rm -rf .git"]
    lines += ["echo evil > .git/hooks/pre-commit", "touch .git/hooks/post-commit", "git config core.pager evil"]
    line = "; ".join([*lines, "echo fine > .git/HEAD", "echo fine > notes.md"])
    subprocess.run(sandbox.command(["sh", "-c", line], world.workspace, given), cwd=world.workspace, check=True)
    assert [path.read_text(encoding="utf-8") for path in (*kept[:2], kept[2] / "pre-commit")] == ["ours"] * 3
    assert [one.name for one in kept[2].iterdir()] == ["pre-commit"]
    assert (world.workspace / ".git/HEAD").read_text(encoding="utf-8") == "fine\n"
    assert (world.workspace / "notes.md").exists()


def test_what_is_hidden_or_only_read_inside_a_writable_root_is_so(world: World, sandbox: Sandbox) -> None:
    photos = world.person / "photos"
    given = Confinement((world.person, world.workspace), (photos,), (world.home, world.person / ".ssh"))
    line = (
        'cat "$P/.ssh/id_ed25519" "$H/config.json"; echo evil > "$P/.ssh/id_ed25519"; '
        'chmod 777 "$P/photos" "$P/photos/one.txt" "$P/.ssh"; '
        'echo evil > "$P/photos/one.txt"; rm "$P/photos/one.txt"; cat "$P/photos/one.txt"; '
        'echo new > "$P/letter.txt"; echo new > "$W/letter.txt"; cat "$P/letter.txt" "$W/letter.txt"'
    )
    ran = world.run(sandbox, line, given)
    assert ran.stdout == "alias ll='ls -l'\nnew\nnew\n"
    (world.person / "letter.txt").write_text("alias ll='ls -l'\n", encoding="utf-8")
    changed = {Path(path).name for path, value in world.state().items() if world.before.get(path) != value}
    assert changed <= {"letter.txt", "person"}  # their times


#: Starts a command line as nanobot does and says when that is done; then it waits to be killed.
_STARTS = """
import os, subprocess, sys
from nanobot.security.sandbox import Lifeline
lifeline = Lifeline()
line = [word.replace("-12345", str(lifeline.inside)) for word in sys.argv[1:]]
process = subprocess.Popen(line, start_new_session=True, stdin=subprocess.DEVNULL, pass_fds=(lifeline.inside,))
lifeline.started()
input()
"""
#: The same again and again from one process, which kills each starter at its moment; it prints in how many cases all of
#: what was started has let go of its output.
_DIES_EARLY = """
import os, select, signal, sys, time
count, milliseconds, starts = int(sys.argv.pop(1)), float(sys.argv.pop(1)), sys.argv.pop(1)
compiled, gone = compile(starts, "starts", "exec"), 0
import subprocess, nanobot.security.sandbox
for at in range(count):
    read, write = os.pipe()
    hold, other = os.pipe()
    starter = os.fork()
    if starter == 0:
        os.dup2(hold, 0)
        os.dup2(write, 1)
        exec(compiled)
        os._exit(0)
    os.close(write)
    time.sleep(milliseconds * at / count / 1_000)
    os.kill(starter, signal.SIGKILL)
    os.waitpid(starter, 0)
    while select.select([read], [], [], 20)[0] and os.read(read, 1_000):
        pass
    gone += bool(select.select([read], [], [], 0)[0])
    for one in (read, hold, other):
        os.close(one)
print(gone, "of", count)
"""


def _lasting(world: World, sandbox: Sandbox, stubborn: str = "") -> tuple[str, list[str]]:
    """A word that stands in the command line of all that it starts, and the line itself: it ends by itself never.

    Only Linux finds what has lost its parent and left its session.
    """
    seconds = f"7{os.getpid()}.{abs(hash(str(world.folder))) % 10**9}"
    leaves = "" if isinstance(sandbox, Unconfined) and not sandbox.linux else "setsid "
    line = f"{stubborn}({leaves}sleep {seconds} &); echo started; sleep {seconds}; sleep {seconds}"
    given = replace(world.confinement(), lifeline=-12345)
    return seconds, sandbox.command(["/bin/sh", "-c", line], world.workspace, given)


@pytest.fixture(params=["bubblewrap", "landlock", "none", "none elsewhere than on Linux"])
def any_sandbox(request: pytest.FixtureRequest) -> Sandbox:
    name, _, elsewhere = request.param.partition(" ")
    return working(name, "darwin" if elsewhere else "linux")


def test_U4_a_command_ends_with_nanobot_even_where_that_is_killed(world: World, any_sandbox: Sandbox) -> None:
    mark, command = _lasting(world, any_sandbox, "trap '' TERM INT HUP; ")
    process = subprocess.Popen(
        [sys.executable, "-c", _STARTS, *command], cwd=world.workspace, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"
    process.kill()
    process.communicate(timeout=120)  # its output is closed when the last of them has ended
    assert not [one for one in Path("/proc").glob("[0-9]*/cmdline") if mark.encode() in _read(one)]


@pytest.mark.parametrize("count", [24, pytest.param(200, marks=pytest.mark.crash_all)])
def test_U4_nothing_lives_on_at_whatever_moment_of_its_start_nanobot_is_killed(
    world: World, any_sandbox: Sandbox, count: int
) -> None:
    """Also in the middle of what bubblewrap does in two processes, of which one waits for the other."""
    mark, command = _lasting(world, any_sandbox)
    script = [sys.executable, "-c", _DIES_EARLY, str(count), "30", _STARTS, *command]
    ran = subprocess.run(script, cwd=world.workspace, stdout=subprocess.PIPE, text=True, timeout=280, check=True)
    assert ran.stdout == f"{count} of {count}\n"
    assert not [one for one in Path("/proc").glob("[0-9]*/cmdline") if mark.encode() in _read(one)]


def test_no_command_can_hold_on_to_the_lifeline(world: World, any_sandbox: Sandbox) -> None:
    """It holds none of its ends, and where its launcher is in sight it does not get at what that holds."""
    if any_sandbox.name == "none":
        pytest.skip("what is not confined can do it")
    lifeline = Lifeline()
    line = "for one in /proc/self/fd/* /proc/1/fd/* /proc/$PPID/fd/*; do readlink $one; done; "
    line += "for one in /proc/1/fd/* /proc/$PPID/fd/*; do (: > $one) && echo opened; done"
    ran = subprocess.run(
        any_sandbox.command(
            ["/bin/sh", "-c", line], world.workspace, replace(world.confinement(), lifeline=lifeline.inside)
        ),
        cwd=world.workspace,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        pass_fds=(lifeline.inside,),
        timeout=120,
        check=False,
    )
    ends = str(Path(f"/proc/self/fd/{lifeline.inside}").readlink())
    lifeline.cut()
    assert "opened" not in ran.stdout
    assert ends not in ran.stdout


@table(
    "platform wanted says",
    ("darwin", "none", "memory is limited on Linux only"),
    ("freebsd14", "none", "commands reach everything"),
    ("darwin", "auto", 'confined on Linux only, and this is darwin. Without one commands are off, unless "tools"'),
    ("win32", "none", "commands need a Unix"),
    ("win32", "auto", "commands need a Unix"),
)
async def test_U73_without_a_sandbox_commands_run_on_every_unix_where_the_owner_says_so(
    platform: str, wanted: SandboxName, says: str
) -> None:
    found = await choose(wanted, platform)
    assert isinstance(found, Reason) == (platform == "win32" or wanted == "auto")
    assert says in (found.text if isinstance(found, Reason) else found.note)


def test_processes_are_found_by_ps_where_there_is_no_proc() -> None:
    if not Path("/bin/ps").exists():
        pytest.skip("NOT TRIED: there is no ps")
    with subprocess.Popen(["/bin/sh", "-c", "cat | cat; :"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        shell.stdin.write(b"\n")
        shell.stdin.flush()
        assert shell.stdout.read(1) == b"\n"  # both are there
        found = descendants(shell.pid, proc=False)
        assert len(found) == 2
        assert sorted(found) == sorted(descendants(shell.pid, proc=True))
        assert set(found) < set(descendants(os.getpid(), proc=False))
        assert 0 < listed_processes(os.getuid()) <= processes_of_user() + 50


async def test_what_was_asked_for_and_does_not_work_is_a_reason_and_no_other_sandbox(tmp_path: Path) -> None:
    """Where the program is not found, in a process of its own, because what was found is kept."""
    code = (
        "import asyncio; from nanobot.security.sandbox import choose; "
        "print(*(asyncio.run(choose(one)) for one in ('bubblewrap', 'auto')), sep='\\n')"
    )
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120, check=True)
    named, automatic = ran.stdout.splitlines()
    assert named.startswith("Reason(")
    assert "bwrap is not installed" in named
    assert "bwrap is not installed" in automatic


def test_a_sandbox_that_lets_something_through_is_not_taken(tmp_path: Path) -> None:
    """With a program in the place of bubblewrap that confines nothing."""
    fake = tmp_path / "bwrap"
    own = str(Path(nanobot.__file__).parent.parent)
    code = "import os, sys; line = sys.argv[sys.argv.index('--') + 1 :]; "
    code += f"os.execvp(line[0], [one.replace('/run/nanobot', {own!r}) for one in line])"
    fake.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n', encoding="utf-8")
    fake.chmod(0o755)
    code = "import asyncio; from nanobot.security.sandbox import choose; print(asyncio.run(choose('bubblewrap')))"
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120, check=True)
    assert "bubblewrap: a command got out of it" in ran.stdout
    assert "could read what is hidden" in ran.stderr


def test_a_bubblewrap_from_before_0_8_is_taken_without_what_it_does_not_know(tmp_path: Path) -> None:
    """With a program in its place that knows no such options, and keeps everything in."""
    fake = tmp_path / "bwrap"
    fake.write_text(
        '#!/bin/sh\ncase "$*" in *--disable-userns*|*--size*) echo "bwrap: Unknown option" >&2; exit 1;; esac\n'
        'shift $(($# - 4))\n: > "$1/root/written"\n',
        encoding="utf-8",
    )
    fake.chmod(0o755)
    code = "import asyncio; from nanobot.security.sandbox import choose; print(asyncio.run(choose('bubblewrap')).note)"
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout == "bubblewrap, older than 0.8, tried here\n"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
