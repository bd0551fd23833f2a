"""What of the package the program can reach: definitions and fields by their use, read from the syntax trees.

From `nanobot.__main__` on: a definition of a module is reached where a reached definition names it, through imports; a
member of a reached class where anything reached says `.name`, so that two members of one name are judged together. Too
little is called dead rather than too much. Methods that a class of a library calls are looked up in that library.
"""

import ast
import importlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
ENTRY = ("nanobot.__main__", "main")
#: Decorators that hand the function to nobody; one with any other decorator is called by whoever decorates it.
_PLAIN = {"property", "staticmethod", "classmethod", "cached_property", "contextmanager", "asynccontextmanager"}
_PLAIN |= {"cache", "lru_cache", "dataclass", "runtime_checkable", "setter", "overload"}
_QUOTED_TYPE = re.compile(r"[\w.\[\], |]*[A-Z][\w.\[\], |]*")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a module, parsed once for all rules."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """What `ast.walk` finds, walked once for all rules."""
    return tuple(ast.walk(tree))


@cache
def trees() -> dict[str, ast.Module]:
    """Every module of the package by its name."""
    return {module_name(path): tree_of(path) for path in sorted((ROOT / "nanobot").rglob("*.py"))}


@dataclass(slots=True, eq=False)
class Unit:
    """A module, or a definition in a module or class.

    It says `names` bare and `attributes` behind a dot, takes the first fields of classes apart (`patterns`), and names
    modules, or definitions of them, that it starts (`starts`).
    """

    module: str
    name: str
    node: ast.AST
    owner: "Unit | None" = None
    names: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    patterns: list[tuple[str, int]] = field(default_factory=list)
    starts: set[str] = field(default_factory=set)
    inside: list["Unit"] = field(default_factory=list)

    @property
    def shown(self) -> str:
        return f"{self.module}:{self.owner.name + '.' if self.owner else ''}{self.name}"

    def read(self, node: ast.AST) -> None:
        """Take in what `node` says, annotations in quotes too."""
        for part in ast.walk(node):
            match part:
                case ast.Name(id=name, ctx=ast.Load()):
                    self.names.add(name)
                case ast.Attribute(attr=name, ctx=ast.Load()):
                    self.attributes.add(name)
                case ast.MatchClass(cls=kind, patterns=given, kwd_attrs=named):
                    self.attributes.update(named)
                    self.patterns.append((ast.unparse(kind), len(given)))
                case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                    self.attributes.add(name)
                case ast.Constant(value=str(text)) if text.startswith("nanobot."):
                    self.starts.add(text)
                case ast.Constant(value=str(text)) if len(text) < 80 and _QUOTED_TYPE.fullmatch(text):
                    self.names.update(re.findall(r"\w+", text))


def imports_of(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """Local name → (module, name in it); the name is empty where the module itself was imported."""
    found = {}
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ImportFrom) and node.module:
            found.update({one.asname or one.name: (node.module, one.name) for one in node.names})
        elif isinstance(node, ast.Import):
            found.update({one.asname or one.name: (one.name, "") for one in node.names})
        for place in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, place, ())
            waiting += [one for one in inner if isinstance(one, ast.AST)] if isinstance(inner, list) else ()
    return found


def _defined(node: ast.stmt) -> str:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return ""


class Reach:
    """The units of the package, and which of them are reached."""

    def __init__(self) -> None:
        self.units: list[Unit] = []
        self.modules: dict[str, Unit] = {}
        self.reached: set[Unit] = set()
        self._top: dict[tuple[str, str], Unit] = {}
        self._members: dict[str, list[Unit]] = defaultdict(list)
        self._imports = {name: imports_of(tree) for name, tree in trees().items()}
        self._said: set[str] = set()
        self._queue: list[Unit] = []
        for name, tree in trees().items():
            self.modules[name] = Unit(name, name, tree)
            self._collect(tree.body, self.modules[name])
        self._module(ENTRY[0])
        self._reach(self._top[ENTRY])
        self._run()

    def _collect(self, body: Iterable[ast.stmt], owner: Unit) -> None:
        for node in body:
            name = _defined(node)
            if isinstance(node, ast.If | ast.Try | ast.With):
                inner = [*node.body, *getattr(node, "orelse", ()), *getattr(node, "finalbody", ())]
                self._collect([*inner, *(line for one in getattr(node, "handlers", ()) for line in one.body)], owner)
                if isinstance(node, ast.If):
                    owner.read(node.test)
            elif not name:
                owner.read(node)
            elif name != "__all__":
                self._add(node, name, owner)

    def _add(self, node: ast.stmt, name: str, owner: Unit) -> None:
        kind = owner if isinstance(owner.node, ast.ClassDef) else None
        unit = Unit(owner.module, name, node, kind)
        self.units.append(unit)
        owner.inside.append(unit)
        if kind is None:
            self._top.setdefault((unit.module, name), unit)
        else:
            self._members[name].append(unit)
        if isinstance(node, ast.ClassDef):
            for part in (*node.bases, *node.keywords, *node.decorator_list):
                unit.read(part)
            self._collect(node.body, unit)
        else:
            unit.read(node)

    def resolve(self, module: str, name: str, depth: int = 5) -> Unit | None:
        """The unit that `name` means in `module`, through re-exports too."""
        if (module, name) in self._top:
            return self._top[module, name]
        target, inner = self._imports.get(module, {}).get(name, ("", ""))
        return self.resolve(target, inner, depth - 1) if inner and target in self.modules and depth else None

    def _reach(self, unit: Unit | None) -> None:
        if unit is not None and unit not in self.reached:
            self.reached.add(unit)
            self._queue.append(unit)

    def _module(self, name: str) -> None:
        """A module that is imported, or started by its name, with all that it imports."""
        if name not in self.modules or self.modules[name] in self.reached:
            return
        self._reach(self.modules[name])
        self._module(name.rpartition(".")[0])
        for target, inner in self._imports[name].values():
            self._module(target)
            self._module(f"{target}.{inner}")

    def _run(self) -> None:
        while self._queue:
            while self._queue:
                self._follow(self._queue.pop())
            for name in self._said & self._members.keys():
                for unit in self._members[name]:
                    if unit.owner in self.reached:
                        self._reach(unit)
            if not self._queue:
                for unit in [one for one in self.dead() if one.owner is not None]:
                    if self._is_foreign(unit.owner) and _is_known_to_a_library(unit):
                        self._reach(unit)

    def _follow(self, unit: Unit) -> None:
        self._said |= unit.attributes
        for name in unit.starts:
            module, _, entry = name.partition(":")  # `module:name` is imported by who runs it
            self._module(module)
            self._reach(self._top.get((module, entry)))
        for name in unit.names:
            self._follow_name(unit, name)
        for name, count in unit.patterns:
            kind = self.resolve(unit.module, name)
            fields = [one for one in kind.inside if isinstance(one.node, ast.AnnAssign)] if kind else []
            for one in fields[:count]:
                self._reach(one)
        for one in unit.inside:
            special = one.name.startswith("__") and one.name.endswith("__")
            if _is_handed_over(one.node) or (special and isinstance(unit.node, ast.ClassDef)):
                self._reach(one)

    def _follow_name(self, unit: Unit, name: str) -> None:
        self._reach(self.resolve(unit.module, name))
        kind = unit.owner or unit
        for member in kind.inside if isinstance(kind.node, ast.ClassDef) else ():
            if member.name == name:
                self._reach(member)
        target, inner = self._imports[unit.module].get(name, ("", ""))
        module = f"{target}.{inner}" if inner else target
        for attribute in unit.attributes if module in self.modules else ():
            self._reach(self._top.get((module, attribute)))

    def _is_foreign(self, unit: Unit | None) -> bool:
        """True for a class that is built on one from outside the package."""
        for base in unit.node.bases if unit and isinstance(unit.node, ast.ClassDef) else ():
            name = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
            own = self.resolve(unit.module, name) if unit else None
            if self._is_foreign(own) if own else name not in {"Protocol", "Generic"}:
                return True
        return False

    def dead(self) -> Iterator[Unit]:
        """The outermost units that nothing reaches; of a module that nothing imports, the module alone."""
        for name, unit in self.modules.items():
            if unit not in self.reached:
                yield Unit(name, "", unit.node)
        for unit in self.units:
            if unit in self.reached or self.modules[unit.module] not in self.reached:
                continue
            if unit.owner is None or unit.owner in self.reached:
                yield unit


@cache
def reach() -> Reach:
    """Read once; both rules judge the same."""
    return Reach()


def _is_handed_over(node: ast.AST) -> bool:
    for decorator in getattr(node, "decorator_list", ()):
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if ast.unparse(called).rpartition(".")[2] not in _PLAIN:
            return True
    return False


def _is_known_to_a_library(unit: Unit) -> bool:
    kind = getattr(importlib.import_module(unit.module), unit.owner.name if unit.owner else "", None)
    bases = getattr(kind, "__mro__", ())
    return any(unit.name in vars(base) for base in bases if not base.__module__.startswith("nanobot"))


def unpassed() -> Iterator[str]:
    """Parameters with a default that no call of the package ever gives, as `function.parameter`.

    Only where that is certain: the name is defined once, every use of it is a call, and no call hands on `*` or `**`.
    What Python calls by itself is given elsewhere: the parameters of `__init_subclass__` where a class is defined.
    """
    every = [node for tree in trees().values() for node in nodes(tree)]
    calls: dict[str, list[ast.Call]] = defaultdict(list)
    uses: dict[str, int] = defaultdict(int)
    for node in every:
        if isinstance(node, ast.Call):
            calls[_last(node.func)].append(node)
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            uses[_last(node)] += 1
    functions: dict[str, list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, int]]] = defaultdict(list)
    for node in every:
        inside = node.body if isinstance(node, ast.ClassDef | ast.Module) else ()
        for one in inside:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                method = isinstance(node, ast.ClassDef)
                made = isinstance(node, ast.ClassDef) and one.name == "__init__"
                functions[node.name if made and isinstance(node, ast.ClassDef) else one.name].append((one, method))
    for name, found in functions.items():
        if name.startswith("__"):
            continue
        plain = not any(isinstance(part, ast.Starred) for call in calls[name] for part in call.args)
        certain = plain and not any(keyword.arg is None for call in calls[name] for keyword in call.keywords)
        if len(found) == 1 and calls[name] and certain and (name[0].isupper() or uses[name] == len(calls[name])):
            yield from (f"{name}.{one}" for one in _never_given(*found[0], calls[name]))


def _never_given(function: ast.FunctionDef | ast.AsyncFunctionDef, method: int, calls: list[ast.Call]) -> Iterator[str]:
    given = function.args
    placed = [*given.posonlyargs, *given.args][method:]
    first = len(placed) - len(given.defaults)
    most = max(len(call.args) for call in calls)
    named = {keyword.arg for call in calls for keyword in call.keywords}
    yield from (one.arg for at, one in enumerate(placed) if at >= max(first, most) and one.arg not in named)
    pairs = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    yield from (one.arg for one, default in pairs if default is not None and one.arg not in named)


def _last(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
