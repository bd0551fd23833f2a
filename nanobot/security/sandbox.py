"""How a command runs so that it reaches its folders and nothing else: which sandbox works here, and its command line.

bubblewrap gives a command a file system of its own, in which only what is listed exists, processes of its own and no
network (bwrap(1)). Where it does not work, Landlock and a filter of system calls refuse the same on the real one
(`nanobot.security.landlock`). Above the command stands `nanobot.security.launcher` in each of them. `choose` believes
neither: it lets a command try to break out, and where that is not refused, or what was asked for does not work, the
answer is the reason, and no other sandbox.
"""

import asyncio
import fcntl
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from loguru import logger
from msgspec import Struct
from msgspec.structs import replace

from nanobot.utils.host import process_identity
from nanobot.utils.processes import run_program
from nanobot.utils.translation import N_, _, apart, language, sentences

SandboxName = Literal["auto", "bubblewrap", "landlock", "none"]

#: What a command may read of the system, and what of that it may not.
_SYSTEM = tuple("/usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc /opt /nix".split())
_SYSTEM_SECRETS = tuple(
    "/etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d /etc/security/opasswd /etc/ssh "
    "/etc/ssl/private /etc/pki/tls/private /etc/letsencrypt /etc/krb5.keytab /etc/wireguard /etc/openvpn /etc/ppp "
    "/etc/NetworkManager/system-connections /etc/netplan /etc/wpa_supplicant /etc/docker /etc/kubernetes "
    "/etc/environment.d /etc/nanobot".split()
)
#: Compilers, interpreters and their packages in a person's own folder, and what of that holds keys.
_TOOLS = tuple(
    ".pyenv .local/bin .local/lib .local/share/uv .local/share/mise .cargo .rustup .nvm .fnm .volta .asdf .rbenv "
    ".sdkman .bun/bin .deno/bin .ghcup/bin .juliaup .nix-profile go".split()
)
_TOOL_SECRETS = (".cargo/credentials", ".cargo/credentials.toml", ".cargo/config.toml", ".local/share/uv/credentials")
#: Seconds for the attempts to break out; a machine that is very busy takes some.
_PROBE_SECONDS = 30.0
#: Bytes of each empty folder that bubblewrap makes, which takes memory.
_EMPTY_BYTES = 1 << 30
_PROXY_INSIDE, _PACKAGE_INSIDE = "/run/proxy", Path("/run/nanobot")
_LAUNCHER = "nanobot.security.launcher:main"
# English: a program
_LAUNCH = "import sys; sys.path.insert(0, {!r}); from {} import {}; main({!r})"
_PACKAGE = Path(__file__).resolve().parent.parent
#: Kinds of places inside bubblewrap: its own, empty or of its own processes; read; written; kept as it is; hidden.
_OWN, _READ, _WRITE, _KEEP, _HIDE = "0 own", "1 read", "2 write", "3 keep", "4 hide"
_OWN_PLACES = tuple(Path(one) for one in ("/tmp", "/var/tmp", "/proc", "/dev", "/run", "/sys", "/boot"))  # noqa: S108
_UNCONFINED = N_("none, as tools.exec.sandbox says: commands reach everything that nanobot reaches")
_OR_NONE = N_('Without one commands are off, unless "tools": {"exec": {"sandbox": "none"}} lets them run unconfined')


class Confinement(Struct, frozen=True):
    """What a command may reach beside the system and its tools, as absolute paths.

    `writable` and `readable` are the roots; `hidden` what lies in one and may not be read; `protected` what lies in a
    writable one and may not be changed. `proxy_socket` is the one way out: a proxy that judges each host. `lifeline` is
    the descriptor of a `Lifeline`, which whoever starts the command line lets it inherit.
    """

    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    protected: tuple[Path, ...] = ()
    proxy_socket: Path | None = None
    lifeline: int = -1


class Lifeline:
    """A pipe that ends what holds its reading end, `inside`, once it is cut, or this process is gone, however it went.

    Its number is higher than those that a shell redirects.
    """

    def __init__(self) -> None:
        read, self._ours = os.pipe()
        self.inside = fcntl.fcntl(read, fcntl.F_DUPFD_CLOEXEC, 20)
        os.close(read)

    def started(self) -> None:
        """What was to hold it has it."""
        if self.inside >= 0:
            os.close(self.inside)
            self.inside = -1

    def cut(self) -> None:
        """End it; a second time does nothing."""
        self.started()
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1


class Reason(Struct, frozen=True):
    """Why there is no sandbox as it was asked for, and what to do."""

    text: str


class Bubblewrap(Struct, frozen=True):
    """Own namespaces of bubblewrap; `strict` where it is recent enough (0.8) to forbid new ones inside.

    `filter` is a file with the filter of system calls, for what the kernel keeps outside of namespaces, such as keys.
    """

    program: str
    strict: bool = True
    filter: str = ""
    note: str = "bubblewrap"
    name: str = "bubblewrap"
    network_closed: bool = True

    def command(self, argv: Sequence[str], cwd: Path, confinement: Confinement) -> list[str]:
        """The whole command line, to be started in `cwd`, with no more environment than the command may see.

        What the sandbox needs (a folder for temporary files, the proxy) is added to the environment inside.
        """
        # Bound to its parent, bubblewrap could be ended between two steps and leave the half of it behind that waits
        # for the other: it goes on instead, to the launcher, which ends all where the lifeline is cut.
        line = [self.program, "--unshare-all", "--as-pid-1", "--new-session", "--cap-drop", "ALL"]
        line += ["--unshare-user", "--disable-userns"] if self.strict else []
        places = sorted(set(self._places(confinement)), key=lambda one: (len(one[0].parts), one))
        mounted = [place for place, kind, _ in places if kind in (_READ, _WRITE)]
        hidden: list[Path] = []
        for place, kind, source in places:
            if kind != _HIDE:
                line += self._mount(place, kind, source)
            elif any(place.is_relative_to(one) for one in mounted):
                folder = place.is_dir()
                line += self._mount(place, _OWN if folder else _READ, Path(os.devnull))
                hidden += [place] if folder else []
        line += self._mount(_PACKAGE_INSIDE / _PACKAGE.name, _READ, _PACKAGE)
        proxy = "" if confinement.proxy_socket is None else _PROXY_INSIDE
        line += ["--bind", str(confinement.proxy_socket), proxy] if proxy else []
        given = Confinement(lifeline=confinement.lifeline)
        inner = _launcher(argv, given, proxy=proxy, package=_PACKAGE_INSIDE)
        for place in hidden:  # at the end, for until then folders are made in them
            line += ["--remount-ro", str(place)]
        line += ["--seccomp", "3"] if self.filter else []
        shell = ["/bin/sh", "-c", 'exec 3<"$0" && exec "$@"', self.filter] if self.filter else []
        return [*shell, *line, "--chdir", str(_real(cwd)), "--", *inner]

    def _places(self, confinement: Confinement) -> Iterator[tuple[Path, str, Path]]:
        """Where something stands inside, what it is, and what stands there; in one place the last kind wins."""
        yield from ((path, _OWN, path) for path in _OWN_PLACES)
        yield from ((path, _READ, _real(path)) for path in _readable_always())
        yield from ((_real(path), _READ, _real(path)) for path in confinement.readable)
        yield from ((_real(path), _WRITE, _real(path)) for path in confinement.writable)
        yield from ((_real(path), _KEEP, _real(path)) for path in confinement.protected if _is_there(path))
        for path in (*_hidden_always(), *confinement.hidden):
            yield from ((one, _HIDE, one) for one in {path, _real(path)} if _is_there(one) and not one.is_symlink())

    def _mount(self, place: Path, kind: str, source: Path) -> list[str]:
        if kind == _OWN and str(place) in ("/proc", "/dev"):
            return [f"--{place.name}", str(place)]
        if kind == _OWN:
            return [*(("--size", str(_EMPTY_BYTES)) if self.strict else ()), "--tmpfs", str(place)]
        return ["--bind" if kind == _WRITE else "--ro-bind", str(source), str(place)]


class Landlocked(Struct, frozen=True):
    """Landlock of version `abi` and a filter of system calls, on the real file system.

    It cannot keep a file unchanged in a writable folder: whoever runs a command puts `protected` files back afterwards.
    """

    abi: int
    note: str = "Landlock"
    name: str = "landlock"
    network_closed: bool = True

    def command(self, argv: Sequence[str], cwd: Path, confinement: Confinement) -> list[str]:  # noqa: ARG002
        return _launcher(argv, confinement, proxy=str(confinement.proxy_socket or ""), abi=self.abi)


class Unconfined(Struct, frozen=True):
    """No sandbox, because the owner said so: a command reaches what nanobot reaches."""

    note: str = _UNCONFINED
    name: str = "none"
    network_closed: bool = False

    linux: bool = True

    def command(self, argv: Sequence[str], cwd: Path, confinement: Confinement) -> list[str]:  # noqa: ARG002
        return _launcher(argv, Confinement(lifeline=confinement.lifeline), linux=self.linux)


#: A way to run commands. `note` says which it is and why not another, for `nanobot status`.
Sandbox = Bubblewrap | Landlocked | Unconfined


def _launcher(
    argv: Sequence[str],
    given: Confinement,
    *,
    proxy: str = "",
    abi: int = 0,
    package: Path = _PACKAGE.parent,
    linux: bool = True,
) -> list[str]:
    """`argv` under `nanobot.security.launcher`, confined by Landlock; with an `abi` of 0 it only stays above it."""
    spec = {
        "writable": _named(given.writable),
        "readable": _named((*given.readable, *(_readable_always() if abi else ()))),
        "hidden": _named((*given.hidden, *((*_hidden_always(), *_OWN_PLACES) if abi else ()))),
        "protected": _named(given.protected),
        "proxy": proxy,
        "abi": abi,
        "lifeline": given.lifeline,
        "linux": linux,
    }
    return [sys.executable, "-I", "-S", "-c", _LAUNCH.format(str(package), *_LAUNCHER.split(":"), spec), *argv]


def _named(paths: Iterable[Path]) -> list[str]:
    return list(dict.fromkeys(str(_real(path)) for path in paths))


def _is_there(path: Path) -> bool:
    """False also where a folder above it may not be looked into."""
    return os.path.exists(path)  # noqa: PTH110 - Path.exists raises there


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _readable_always() -> list[Path]:
    """The system, the tools in the person's own folder, and the Python that nanobot runs on."""
    home = Path.home()
    found = [Path(one) for one in _SYSTEM] + [home / one for one in _TOOLS] + [Path(sys.prefix), Path(sys.base_prefix)]
    return [one for one in dict.fromkeys(found) if one.is_dir()]


def _hidden_always() -> list[Path]:
    home = Path.home()
    return [*(Path(one) for one in _SYSTEM_SECRETS), *(home / one for one in _TOOL_SECRETS)]


# Which sandbox works here

_chosen: dict[tuple[str, str, str], Sandbox] = {}


async def choose(wanted: SandboxName, platform: str = sys.platform) -> Sandbox | Reason:
    """The sandbox that was asked for and has been tried, or why there is none. One that works is tried once.

    `auto` takes bubblewrap, else Landlock. None is taken for another that was named. `platform` is as `sys.platform`
    says it.
    """
    key = wanted, platform, language()  # what is said of it is in a language
    if key in _chosen:
        return _chosen[key]
    found = await _choose(wanted, platform)
    if not isinstance(found, Reason):
        _chosen[key] = found
    return found


async def _choose(wanted: SandboxName, platform: str) -> Sandbox | Reason:
    if platform in ("win32", "cygwin"):
        return Reason(_("commands need a Unix: their limits and their end are made of what Windows does not have"))
    if wanted == "none":
        if platform == "linux":
            return Unconfined(_(_UNCONFINED))
        return Unconfined(_("{sandbox}, and memory is limited on Linux only", sandbox=_(_UNCONFINED)), linux=False)
    if platform != "linux":
        only = _("commands are confined on Linux only, and this is {platform}.", platform=platform)
        return Reason(sentences(only, _(_OR_NONE)))
    reasons: list[str] = []
    for name, attempt in (("bubblewrap", _bubblewrap), ("landlock", _landlock)):
        if wanted in ("auto", name):
            found = await attempt()
            if not isinstance(found, str):
                return replace(found, note=apart([found.note, *reasons]))
            reasons.append(f"{name}: {found}")
    return Reason(sentences(_("{reasons}.", reasons=apart(reasons)), _(_OR_NONE)))


async def _bubblewrap() -> Bubblewrap | str:
    from nanobot.security.seccomp import filter_file

    program = shutil.which("bwrap")
    if program is None:
        return _("bwrap is not installed (the package is called bubblewrap)")
    made = Bubblewrap(program, filter=filter_file(), note=_("bubblewrap, tried here"))
    if not (failed := await _escapes(made)):
        return made
    older = replace(made, strict=False, note=_("bubblewrap, older than 0.8, tried here"))
    return failed if await _escapes(older) else older


async def _landlock() -> Landlocked | str:
    from nanobot.security.landlock import abi
    from nanobot.security.seccomp import ARCHITECTURES, machine

    if machine() not in ARCHITECTURES:
        return _("there is no filter of system calls for {machine}", machine=machine())
    if not abi():
        return _("this kernel has no Landlock (Linux 5.13 is the first), or it is switched off")
    made = Landlocked(abi(), note=_("Landlock {version} with a filter of system calls, tried here", version=abi()))
    return await _escapes(made) or made


async def _escapes(sandbox: Sandbox) -> str:
    """What a command in the sandbox could do that it may not, or why it could not run; empty where it was kept in."""
    folder = await asyncio.to_thread(_prepare)
    try:
        with socket.create_server(("127.0.0.1", 0)) as network, socket.socket(socket.AF_UNIX) as beside:
            beside.bind(str(folder / "outside" / "socket"))
            beside.listen()
            given = Confinement((folder / "root",), (folder / "read",), (folder / "read" / "hidden",))
            began, port = process_identity(os.getpid()).rpartition(" ")[2], network.getsockname()[1]
            attempts = [sys.executable, "-I", "-S", "-c", _ATTEMPTS, str(folder), str(os.getpid()), began, str(port)]
            ran = await run_program(sandbox.command(attempts, folder / "root", given), _PROBE_SECONDS)
        kept_in = ran.code == 0 and (folder / "root" / "written").is_file()
    except TimeoutError:
        return _("an attempt took longer than {seconds:.0f} s", seconds=_PROBE_SECONDS)
    except OSError as error:
        return _("it could not be started: {why}", why=error)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    if told := ran.out.decode(errors="replace").strip():
        logger.warning("in {} a command could {}", sandbox.name, told)
        return _("a command got out of it")
    said = ran.error.decode(errors="replace").strip().splitlines()
    return "" if kept_in else said[-1][:200] if said else _("it ended with code {code}", code=ran.code)


def _prepare() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="nanobot-sandbox-"))
    for name in ("root", "read", "read/hidden", "outside"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_bytes(b"untouched")
    return folder


# English: a program, which says what it could do
_ATTEMPTS = """
import os, socket, sys
folder, parent, began, port = sys.argv[1:]
def tries(what, attempt):
    try:
        attempt()
    except (OSError, AttributeError, IndexError):
        return
    print(what)
    sys.exit(1)
def read_nanobot():  # in namespaces of its own another process has this number
    if open("/proc/" + parent + "/stat").read().rpartition(")")[2].split()[19] != began:
        raise OSError
    open("/proc/" + parent + "/environ").close()
open(folder + "/root/written", "w").close()
open(folder + "/read/file").close()
tries("read what is hidden", lambda: open(folder + "/read/hidden/file").close())
tries("change what it may only read", lambda: os.truncate(folder + "/read/file", 0))
tries("read outside its folders", lambda: open(folder + "/outside/file").close())
tries("change a file outside its folders", lambda: os.truncate(folder + "/outside/file", 0))
tries("change the mode of a file outside its folders", lambda: os.chmod(folder + "/outside/file", 0o600))
tries("read the memory of nanobot", read_nanobot)
tries("reach the network", lambda: socket.create_connection(("127.0.0.1", int(port)), 1))
tries("reach another program's socket", lambda: socket.socket(socket.AF_UNIX).connect(folder + "/outside/socket"))
"""
