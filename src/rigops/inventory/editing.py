"""Keys written into the text of an inventory, with its comments and its form kept.

Imported by `rigops fix` alone: libcst takes a tenth of a second.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar, cast

import libcst as cst

from rigops.dataclass import dataclass
from rigops.python_literal import literal

Collection = TypeVar("Collection", bound="cst.Dict | cst.List")
Item = cst.BaseDictElement | cst.BaseElement
_STEP = "    "
_BREAK = cst.TrailingWhitespace()
_SPACE = cst.SimpleWhitespace(" ")


def edits(
    text: bytes, host: str, keys: Mapping[str, object], had: Mapping[str, object]
) -> Iterator[bytes]:
    """Texts in which the data of this host has these keys, the likeliest first.

    `had`: its values so far, to which lists and dicts add. What a text declares has to be read: a
    later name may override it.
    """
    try:
        module = cst.parse_module(text)
    except cst.ParserSyntaxError:  # a newer Python's than libcst's
        return
    for name, data in _places(module, host):
        if data is None:
            written = ", ".join(f"{literal(key)}: {literal(value)}" for key, value in keys.items())
            node = cst.parse_expression(f"({name.value}, {{{written}}})")
            yield _replaced(module, name, node)
        else:
            for before, after in _extended(module, data, keys, had):
                yield _replaced(module, before, after)


def line_of(text: bytes, host: str, groups: Sequence[str]) -> int:
    """Where a person finds the host: its name, else its group, else the beginning."""
    tree = ast.parse(text)
    named = (
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value == host
    )
    assigned = (
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id in groups and isinstance(node.ctx, ast.Store)
    )
    return next(named, next(assigned, 1))


def _replaced(module: cst.Module, before: cst.CSTNode, after: cst.CSTNode) -> bytes:
    return cast("cst.Module", module.deep_replace(before, after)).bytes


def _places(
    module: cst.Module, host: str
) -> Iterator[tuple[cst.SimpleString, cst.BaseExpression | None]]:
    """Its name and data, the last first; then its name alone, in a list."""
    found = _Found(host)
    module.visit(found)
    yield from reversed(found.pairs)
    for name in reversed(found.names):
        yield name, None


class _Found(cst.CSTVisitor):
    def __init__(self, host: str) -> None:
        super().__init__()
        self._host = host
        self.pairs: list[tuple[cst.SimpleString, cst.BaseExpression]] = []
        self.names: list[cst.SimpleString] = []

    def visit_Tuple(self, node: cst.Tuple) -> None:  # noqa: N802 - libcst's
        match [one.value for one in node.elements]:
            case [cst.SimpleString() as name, data] if name.evaluated_value == self._host:
                self.pairs.append((name, data))

    def visit_List(self, node: cst.List) -> None:  # noqa: N802 - libcst's
        for one in node.elements:
            if isinstance(one.value, cst.SimpleString) and one.value.evaluated_value == self._host:
                self.names.append(one.value)


def _extended(
    module: cst.Module,
    data: cst.BaseExpression,
    keys: Mapping[str, object],
    had: Mapping[str, object],
) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """What to replace by what."""
    match data:
        case cst.Dict():
            yield data, _with_keys(data, keys, had)
            return
        case cst.BinaryOperation(operator=cst.BitOr(), right=cst.Dict() as own):
            yield own, _with_keys(own, keys, had)
        case cst.Name(value=name):
            # One that others use too is tried as well; then it is read that they would change.
            assigned = _Assigned(name)
            module.visit(assigned)
            for own in assigned.dicts:
                yield own, _with_keys(own, keys, had)
    yield data, _with_keys(_unpacked(data), keys, had)


class _Assigned(cst.CSTVisitor):
    """The dicts that are assigned to a name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self.dicts: list[cst.Dict] = []

    def visit_Assign(self, node: cst.Assign) -> None:  # noqa: N802 - libcst's
        names = [one.target for one in node.targets]
        if any(isinstance(one, cst.Name) and one.value == self._name for one in names):
            self._add(node.value)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:  # noqa: N802 - libcst's
        if isinstance(node.target, cst.Name) and node.target.value == self._name:
            self._add(node.value)

    def _add(self, value: cst.BaseExpression | None) -> None:
        if isinstance(value, cst.Dict):
            self.dicts.append(value)


def _unpacked(data: cst.BaseExpression) -> cst.Dict:
    return cst.Dict([cst.StarredDictElement(_operand(data))])


def _operand(value: cst.BaseExpression) -> cst.BaseExpression:
    if value.lpar or isinstance(value, cst.Name | cst.Attribute | cst.Call | cst.Subscript):
        return value
    return value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _with_keys(node: cst.Dict, keys: Mapping[str, object], had: Mapping[str, object]) -> cst.Dict:
    left, elements = dict(keys), list(node.elements)
    for number in reversed(range(len(elements))):
        match elements[number]:
            case cst.DictElement(key=cst.SimpleString() as name) as element:
                key = name.evaluated_value
                if isinstance(key, str) and key in left:
                    value = _value(element.value, left.pop(key), had.get(key))
                    elements[number] = element.with_changes(value=value)
    gaps = _Gaps.of(node.with_changes(elements=elements))
    left = gaps.take_off_comments(left)
    gaps.append([_element(key, value) for key, value in left.items()])
    return gaps.around(node)


def _value(node: cst.BaseExpression, wanted: object, had: object) -> cst.BaseExpression:
    """Lists and dicts are added to."""
    if isinstance(wanted, list) and isinstance(had, (list, tuple)):
        added: list[Item] = [
            cst.Element(cst.parse_expression(literal(one))) for one in wanted if one not in had
        ]
        own = node if isinstance(node, cst.List) else cst.List([cst.StarredElement(_operand(node))])
        gaps = _Gaps.of(own)
        gaps.append(added)
        return gaps.around(own)
    if isinstance(wanted, Mapping) and isinstance(had, Mapping):
        changed = {key: one for key, one in wanted.items() if key not in had or had[key] != one}
        return _with_keys(node if isinstance(node, cst.Dict) else _unpacked(node), changed, had)
    return cst.parse_expression(literal(wanted))


def _element(key: str, value: object) -> cst.DictElement:
    return cst.DictElement(cst.SimpleString(literal(key)), cst.parse_expression(literal(value)))


@dataclass
class _Gaps:
    """The items between two brackets, and what is before, between and after them.

    `ends_with_comma`: the last item.
    """

    items: list[Item]
    gaps: list[cst.BaseParenthesizableWhitespace]
    ends_with_comma: bool

    @classmethod
    def of(cls, node: cst.Dict | cst.List) -> _Gaps:
        opening = node.lbrace if isinstance(node, cst.Dict) else node.lbracket
        closing = node.rbrace if isinstance(node, cst.Dict) else node.rbracket
        items: list[Item] = list(node.elements)
        between = [_comma(one).whitespace_after for one in items[:-1]]
        after = [closing.whitespace_before] if items else []
        comma = bool(items) and isinstance(items[-1].comma, cst.Comma)
        return cls(items, [opening.whitespace_after, *between, *after], comma)

    def around(self, node: Collection) -> Collection:
        if not self.items:
            return node
        first, *between, last = self.gaps
        elements = [
            one.with_changes(comma=_comma(one).with_changes(whitespace_after=gap))
            for one, gap in zip(self.items, between, strict=False)
        ]
        comma = _comma(self.items[-1]) if self.ends_with_comma else cst.MaybeSentinel.DEFAULT
        if isinstance(comma, cst.Comma):
            comma = comma.with_changes(whitespace_after=cst.SimpleWhitespace(""))
        elements.append(self.items[-1].with_changes(comma=comma))
        opening, closing = (
            ("lbrace", "rbrace") if isinstance(node, cst.Dict) else ("lbracket", "rbracket")
        )
        brackets = {
            opening: getattr(node, opening).with_changes(whitespace_after=first),
            closing: getattr(node, closing).with_changes(whitespace_before=last),
        }
        return cast("Collection", node.with_changes(elements=elements, **brackets))

    def take_off_comments(self, keys: Mapping[str, object]) -> dict[str, object]:
        """Remove the # of lines that declare some of these keys so; what is left of them."""
        left = dict(keys)
        place = 0
        while place < len(self.gaps):
            gap = self.gaps[place]
            for number, line in enumerate(_lines(gap)):
                declared = _commented(line)
                if declared and all(left.get(key) == one for key, one in declared.items()):
                    self._insert(place, number, declared)
                    left = {key: one for key, one in left.items() if key not in declared}
                    place += len(declared) - 1
                    break
            place += 1
        return left

    def _insert(self, place: int, number: int, declared: Mapping[str, object]) -> None:
        gap = cast("cst.ParenthesizedWhitespace", self.gaps[place])
        lines = gap.empty_lines
        before = gap.with_changes(
            empty_lines=lines[:number], indent=True, last_line=lines[number].whitespace
        )
        after = gap.with_changes(first_line=_BREAK, empty_lines=lines[number + 1 :])
        together = [_SPACE] * (len(declared) - 1)
        if place == len(self.items):  # the last
            self.ends_with_comma = True
        self.gaps[place : place + 1] = [before, *together, after]
        self.items[place:place] = [_element(key, value) for key, value in declared.items()]

    def append(self, added: Sequence[Item]) -> None:
        for one in added:
            last = self.gaps[-1]
            lead = self._lead()
            if not self.items:
                has_lines = isinstance(last, cst.ParenthesizedWhitespace)
                self.gaps = [lead, _closing(last)]
                self.ends_with_comma = has_lines
            elif isinstance(last, cst.ParenthesizedWhitespace):
                self.gaps[-1:] = [lead, _closing(last)]
                self.ends_with_comma = True
            else:
                self.gaps[-1:] = [lead, last]
            self.items.append(one)

    def _lead(self) -> cst.BaseParenthesizableWhitespace:
        """What is before a new last item: the comments that end the others, and their indent."""
        last = self.gaps[-1]
        if not self.items and not isinstance(last, cst.ParenthesizedWhitespace):
            return last
        lines = [one for one in self.gaps if isinstance(one, cst.ParenthesizedWhitespace)]
        if not lines:
            return _SPACE
        if isinstance(last, cst.ParenthesizedWhitespace):
            return last.with_changes(indent=True, last_line=self._indent(last))
        return cst.ParenthesizedWhitespace(_BREAK, [], indent=True, last_line=lines[-1].last_line)

    def _indent(self, last: cst.ParenthesizedWhitespace) -> cst.SimpleWhitespace:
        """Of items that begin a line, else of comments, else a step more than the bracket."""
        before = [
            one.last_line for one in self.gaps[:-1] if isinstance(one, cst.ParenthesizedWhitespace)
        ]
        commented = [one.whitespace for one in _lines(last) if one.comment]
        deeper = cst.SimpleWhitespace(f"{last.last_line.value}{_STEP}")
        return [*reversed(before), *commented, deeper][0]


def _comma(item: Item) -> cst.Comma:
    return item.comma if isinstance(item.comma, cst.Comma) else cst.Comma()


def _closing(gap: cst.BaseParenthesizableWhitespace) -> cst.BaseParenthesizableWhitespace:
    """Its end, before the bracket."""
    if isinstance(gap, cst.ParenthesizedWhitespace):
        return gap.with_changes(first_line=_BREAK, empty_lines=[])
    return cst.SimpleWhitespace("")


def _lines(gap: cst.BaseParenthesizableWhitespace) -> Sequence[cst.EmptyLine]:
    return gap.empty_lines if isinstance(gap, cst.ParenthesizedWhitespace) else ()


def _commented(line: cst.EmptyLine) -> dict[str, object]:
    """The keys that a comment would declare without its #."""
    text = line.comment.value.removeprefix("#").strip() if line.comment else ""
    if not text.startswith('"'):
        return {}
    try:
        found = ast.literal_eval(f"{{{text}}}")
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return {}
    return found if isinstance(found, dict) and all(isinstance(k, str) for k in found) else {}
