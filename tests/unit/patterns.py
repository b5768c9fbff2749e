"""Every regular expression of rigops, how it is used, and texts that are hostile to it."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import random
import re
import signal
import time
from collections import defaultdict, deque
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import rigops
from rigops.probe.pastes.kinds import Pattern
from tests.unit.backtracking import Backtracking, TooManyStepsError, compiler, parsed, parser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import ModuleType

AnyPattern = re.Pattern[str] | re.Pattern[bytes]

SOURCES: Final = Path(rigops.__file__).parent
ANCHORED: Final = frozenset({"match", "fullmatch"})
# The one runs the program, the other replaces locks of the standard library.
NOT_IMPORTED: Final = frozenset({"rigops.__main__", "rigops.converge.early"})
# Functions that try a pattern on each line as a whole.
WHOLE_LINES: Final = frozenset({"matches", "_every", "_read", "_interfaces", "plain"})
# Tables whose patterns are only tried so; * is every table of a module.
TABLES: Final = {
    "rigops.probe.pastes.kinds:*": frozenset({"match"}),
    "rigops.probe.bundles.bug_report:_PARTS": frozenset({"fullmatch"}),
}
METHODS: Final = ANCHORED | {"search", "finditer", "findall", "sub", "subn", "split"}

_MANY: Final = 16  # a repeat up to fewer times is not worth an attack
_COMMON: Final = 'a0A -\t./:="'
_FOREIGN: Final = ("", "\0")  # what may follow a text so that it does not match
_LONGEST_PUMP: Final = 80
_SUSPICIOUS_S: Final = 0.003  # of the processor, however busy the machine is
_TOO_LONG_S: Final = 30
ENDLESS_S: Final = 1e6
_QUIET_S: Final = 0.05
_RATIO: Final = 3
_MOST_STEPS: Final = 500_000


@dataclass(frozen=True)
class Use:
    """A pattern, and what is called on it: `other` where it is passed on, to be tried anywhere."""

    place: str  # module:name, or module:line
    pattern: AnyPattern
    methods: frozenset[str]

    def run(self, text: str) -> None:
        subject: Any = text
        if isinstance(self.pattern.pattern, bytes):
            subject = text.encode("utf-8", "replace")
        if "fullmatch" in self.methods:
            self.pattern.fullmatch(subject)
        if "match" in self.methods:
            self.pattern.match(subject)
        if self.methods - ANCHORED:
            deque(self.pattern.finditer(subject), maxlen=0)


@dataclass(frozen=True)
class Call:
    """A call of a function of `re`. Without a pattern: it is made while the program runs."""

    place: str
    source: str
    method: str
    pattern: AnyPattern | None


@cache
def modules() -> dict[str, ModuleType]:
    names = {one.name for one in pkgutil.walk_packages([str(SOURCES)], "rigops.")} - NOT_IMPORTED
    return {name: importlib.import_module(name) for name in sorted(names)}


@cache
def trees() -> dict[str, ast.Module]:
    return {
        name: ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        for name, module in modules().items()
    }


@cache
def nodes() -> dict[str, list[ast.AST]]:
    """Of each module; what is outside comes before what is inside."""
    return {name: list(ast.walk(tree)) for name, tree in trees().items()}


@cache
def uses() -> dict[str, Use]:
    """By place. What a module keeps is used as its name is; what is passed on, everywhere."""
    found = {}
    for module, name, pattern in held():
        used = _methods(module if name.startswith("_") else None).get(name, frozenset())
        place = f"{module}:{name}"
        while place in found:
            place += "'"
        table = TABLES.get(f"{module}:{name}") or TABLES.get(f"{module}:*")
        found[place] = Use(place, pattern, table or used)
    for call in calls():
        if call.pattern is not None and call.method != "compile":
            found[call.place] = Use(call.place, call.pattern, frozenset({call.method}))
    return found


def held() -> Iterator[tuple[str, str, AnyPattern]]:
    """The patterns that modules define, also in tables: module, name, pattern."""
    for module, tree in trees().items():
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else [node]
            for target in targets:
                name = getattr(target, "target", target)
                if isinstance(name, ast.Name):
                    for pattern in _inside(vars(modules()[module]).get(name.id), set()):
                        yield module, name.id, pattern


def _inside(value: object, seen: set[int]) -> Iterator[AnyPattern]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, Pattern):
        yield re.compile(value.pattern)
    elif id(value) not in seen and not isinstance(value, (str, bytes, type)):
        seen.add(id(value))
        inner: Iterable[object] = ()
        if isinstance(value, dict):
            inner = (*value, *value.values())
        elif isinstance(value, (tuple, list, set, frozenset)):
            inner = value
        elif is_dataclass(value):
            inner = [getattr(value, field.name, None) for field in fields(value)]
        for one in inner:
            yield from _inside(one, seen)


def calls() -> Iterator[Call]:
    for module, every in nodes().items():
        for node in every:
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and getattr(node.func.value, "id", "") == "re"
                and node.func.attr in METHODS | {"compile"}
            ):
                place, source = f"{module}:{node.lineno}", ast.unparse(node.args[0])
                yield Call(place, source, node.func.attr, _evaluated(node, module))


def _evaluated(call: ast.Call, module: str) -> AnyPattern | None:
    arguments = [call.args[0], *call.args[1:], *(word.value for word in call.keywords)]
    flags = [one for one in arguments[1:] if ast.unparse(one).startswith("re.")]
    known = vars(modules()[module])
    try:
        pattern, *others = [
            eval(compile(ast.Expression(one), module, "eval"), dict(known))  # noqa: S307 - our own
            for one in (arguments[0], *flags)
        ]
    except NameError:
        return None
    return re.compile(pattern, others[0] if others else 0)


@cache
def _methods(module: str | None) -> dict[str, frozenset[str]]:
    """What is called on each name, in one module or in all; `other` where it is used otherwise."""
    found: dict[str, set[str]] = defaultdict(set)
    if module is None:
        for one in nodes():
            for name, methods in _methods(one).items():
                found[name] |= methods
        return {name: frozenset(methods) for name, methods in found.items()}
    seen: set[int] = set()
    for node in nodes()[module]:
        owner: ast.expr | None = None
        method = ""
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            owner, method = node.value, node.attr
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in WHOLE_LINES:
            owner = next((one for one in node.args if ast.unparse(one).isupper()), None)
            method = "fullmatch"
        elif isinstance(node, (ast.Name, ast.Attribute)) and id(node) not in seen:
            owner, method = node, "other"
        if owner is not None and isinstance(getattr(owner, "ctx", None), ast.Load):
            seen.update(map(id, ast.walk(owner)))
            found[str(getattr(owner, "attr", getattr(owner, "id", None)))].add(method)
    return {name: frozenset(methods) for name, methods in found.items()}


def growing_texts(pattern: AnyPattern, seed: int = 0, most: int = 20) -> list[Callable[[int], str]]:
    """Texts of any size that make a pattern go back and forth, from its own structure.

    The beginning of an example, then some part of the example or a character of its alphabet over
    and over, then an end that does not fit. All of one character alone, and `most` of the others.
    """
    items = parsed(pattern)
    heads = {""}
    pumps: set[str] = set()
    for sequence in _sequences(items):
        examples = [_example([item]) for item in sequence]
        for at, item in enumerate(sequence):
            if not _is_long(item):
                continue
            heads.add("".join(examples[:at]))
            pumps.update(
                "".join(examples[first : at + 1]) for first in range(max(0, at - 6), at + 1)
            )
            pumps.update(one for one in _alphabet(items) if _takes(item[1][2], one))
    alone, others = [], []
    for head in sorted(heads):
        for pump in sorted(pumps - {""}):
            made = [_text(head, pump, end) for end in _FOREIGN if pump != end]
            if not head and len(pump) == 1:
                alone += made[:1]
            elif len(pump) <= _LONGEST_PUMP:
                others += made
    return alone + random.Random(seed).sample(others, min(len(others), most))  # noqa: S311 - no secret


def _is_long(item: Any) -> bool:
    return str(item[0]) in {"MAX_REPEAT", "MIN_REPEAT"} and int(item[1][1]) >= _MANY


@cache
def _alphabet_of(literals: frozenset[str]) -> list[str]:
    return sorted({*_COMMON, *literals})


def _alphabet(parsed: Any) -> list[str]:
    return _alphabet_of(frozenset(_literals(parsed)))


def _takes(body: Any, one: str) -> bool:
    """Whether one round of a repeat may be this character."""
    try:
        return compiler.compile(body).fullmatch(one) is not None
    except (re.error, IndexError, AttributeError):  # it refers to a group outside
        return False


def _text(head: str, pump: str, end: str) -> Callable[[int], str]:
    return lambda size: head + pump * (size // len(pump)) + end


def _sequences(parsed: Any) -> Iterator[list[Any]]:
    items = list(parsed)
    yield items
    for kind, value in items:
        for inner in _inner(str(kind), value):
            yield from _sequences(inner)


def _inner(kind: str, value: Any) -> list[Any]:
    if kind in {"MAX_REPEAT", "MIN_REPEAT"}:
        return [value[2]]
    if kind == "SUBPATTERN":
        return [value[3]]
    if kind == "BRANCH":
        return list(value[1])
    if kind in {"ASSERT", "ASSERT_NOT"}:
        return [value[1]]
    return []


def _literals(parsed: Any) -> Iterator[str]:
    for sequence in _sequences(parsed):
        for kind, value in sequence:
            if str(kind) in {"LITERAL", "NOT_LITERAL"}:
                yield chr(value)
            elif str(kind) == "IN":
                for inner, one in value:
                    if str(inner) == "LITERAL":
                        yield chr(one)
                    elif str(inner) == "RANGE":
                        yield chr(one[0])


def _example(items: Any) -> str:
    return "".join(_of_item(str(kind), value) for kind, value in items)


def _of_item(kind: str, value: Any) -> str:
    if kind == "LITERAL":
        return chr(value)
    if kind in {"MAX_REPEAT", "MIN_REPEAT"}:
        return _example(value[2]) * max(1, min(int(value[0]), 40))
    if kind == "SUBPATTERN":
        return _example(value[3])
    if kind == "BRANCH":
        return _example(value[1][0])
    if kind in {"IN", "NOT_LITERAL", "ANY"}:
        return _member(kind, value)
    return ""


def every_way(pattern: re.Pattern[str]) -> list[str]:
    """Texts of it: each branch is in one, and what may be left out is left out of another."""
    return [one for one in _ways_of_all(parsed(pattern)) if pattern.search(one)]


def _ways_of_all(items: Any) -> list[str]:
    every = [_ways(str(kind), value) for kind, value in items]
    least = "".join(min(ways, key=len) for ways in every)
    made = [""]
    for ways in every:
        made = [made[0] + way for way in ways] + [one + ways[0] for one in made[1:]]
    return [*made, least]


def _ways(kind: str, value: Any) -> list[str]:
    if kind in {"MAX_REPEAT", "MIN_REPEAT"}:
        low = int(value[0])
        return [one * max(1, low) for one in _ways_of_all(value[2])] + [""] * (low == 0)
    if kind == "SUBPATTERN":
        return _ways_of_all(value[3])
    if kind == "BRANCH":
        return [one for way in value[1] for one in _ways_of_all(way)]
    if kind == "IN" and str(value[0][0]) == "LITERAL":
        return [chr(value[0][1])]
    return [_of_item(kind, value)]


def _member(kind: str, value: Any) -> str:
    if kind == "ANY":
        return "a"
    wanted = set(value) if kind == "IN" else None
    candidates = "a0Ax -_./:=,()[]{}<>\"'\\\t|#+@%&!?*;~^$Zz9é"
    for one in candidates:
        if wanted is None:
            if ord(one) != value:
                return one
        elif _is_in(one, value):
            return one
    return "a"


def _is_in(one: str, value: list[Any]) -> bool:
    source = parser.parse("x")
    source.data[0] = (parser.IN, value)
    return compiler.compile(source).fullmatch(one) is not None


def growth(use: Use, text: Callable[[int], str], size: int = 64) -> str | None:
    """What took more than three times the steps at each of four doublings, or seemed endless.

    What is quadratic takes four times as many.
    """
    steps: list[int] = []
    for factor in (1, 2, 4, 8, 16):
        steps.append(_steps(use, text(size * factor)))
        if steps[-1] < _MOST_STEPS and len(steps) > 1 and steps[-1] <= steps[-2] * _RATIO:
            return None
    return f"{text(size)[:60]!r}: {', '.join(map(str, steps))} steps"


def _steps(use: Use, text: str) -> int:
    if isinstance(use.pattern.pattern, bytes):
        text = text.encode("utf-8", "replace").decode("latin-1")
    engine = _engine(use.pattern)
    engine.steps = 0
    try:
        if "fullmatch" in use.methods:
            engine.fullmatch(text)
        if "match" in use.methods:
            engine.match(text)
        if use.methods - ANCHORED:
            engine.finditer(text)
    except TooManyStepsError:
        return _MOST_STEPS
    return engine.steps


@lru_cache(maxsize=1)  # since the texts of a pattern are tried one after the other
def _engine(pattern: AnyPattern) -> Backtracking:
    return Backtracking(pattern, _MOST_STEPS)


def slow_growth(
    run: Callable[[str], object], text: Callable[[int], str], size: int = 4096
) -> str | None:
    """What took more than three times as long at each of three doublings, or seemed endless.

    A quadratic function takes four times as long.
    """
    if all(seconds(run, text(less)) <= _SUSPICIOUS_S for less in (16, 256, size)):
        return None
    taken: list[float] = []
    for factor in (1, 2, 4, 8):
        taken.append(seconds(run, text(size * factor), attempts=2))
        if taken[-1] == ENDLESS_S:
            return f"{text(size)[:60]!r}: more than {_TOO_LONG_S} s"
        if factor > 1 and taken[-1] < taken[-2] * _RATIO:
            return None
    if taken[-1] < _QUIET_S:
        return None
    return f"{text(size)[:60]!r}: {', '.join(f'{one:.3f} s' for one in taken)}"


def seconds(run: Callable[[str], object], text: str, *, attempts: int = 1) -> float:
    least = ENDLESS_S
    for _ in range(attempts):
        began = time.thread_time()
        signal.signal(signal.SIGVTALRM, _give_up)
        signal.setitimer(signal.ITIMER_VIRTUAL, _TOO_LONG_S)
        try:
            run(text)
        except TimeoutError:
            return ENDLESS_S
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        least = min(least, time.thread_time() - began)
    return least


def _give_up(_number: int, _frame: object) -> None:
    raise TimeoutError


def calls_of_methods(module: str, names: set[str]) -> list[int]:
    """The lines of `x.NAME()`."""
    return [
        node.lineno
        for node in nodes()[module]
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in names
    ]
