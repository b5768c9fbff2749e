"""The XML of `nvidia-smi -q -x`, as far as it goes.

Read tag by tag: no entity is ever expanded, an error line amid the tags costs only itself, and a
value counts only once its closing tag has come.
"""

from __future__ import annotations

import re

from rigops.probe.smi.values import DEEPEST, CardOutput, Leaf, SmiOutput

_ROOT = "nvidia_smi_log"
_CARD = "gpu"
_PROCESSES = "processes"
_PROCESS = "process_info"
_CLOCKS = "supported_clocks"
_NAME = r"[A-Za-z_][\w.-]{0,63}"
# A value with its tags at once, as nearly all are; and every tag alone.
_TAG = re.compile(
    rf"<(?!(?:{_ROOT}|{_CARD}|{_PROCESS})>)(?P<leaf>{_NAME})>(?P<value>[^<>]{{0,400}})</(?P=leaf)>|"
    rf"<!--|-->|<(?P<close>/?)(?P<name>{_NAME})(?P<more>(?:\s[^<>]{{0,200}})?)>",
    re.ASCII,
)
_ID = re.compile(r"""\sid\s?=\s?["']([^"']{0,64})["']""")
_SIGNS = re.compile(rf"</?{_ROOT}|<{_CARD}\s|<\?xml\s|</[a-z0-9_]{{1,64}}>")
_DECLARATION = re.compile(r"<\?xml\s[^<>]{0,200}\?>")
_DOCTYPE = "<!DOCTYPE"
_END_OF_SUBSET = re.compile(r"\]\s{0,20}>")
# Not those of xml.sax.saxutils, which brings what reads from the network. The last one is last.
_ENTITIES = {"&gt;": ">", "&lt;": "<", "&apos;": "'", "&quot;": '"', "&amp;": "&"}


def is_xml(text: str) -> bool:
    return _SIGNS.search(text) is not None


def read(text: str) -> SmiOutput:
    return _Reading(_without_prolog(text)).output


def _without_prolog(text: str) -> str:
    """A DOCTYPE may have a whole DTD inside; without its end, nothing after it counts."""
    text = _DECLARATION.sub("", text)
    start = text.find(_DOCTYPE)
    if start < 0:
        return text
    close, subset = text.find(">", start), text.find("[", start)
    if 0 <= subset < close:
        end = _END_OF_SUBSET.search(text, subset)
        close = end.end() - 1 if end else -1
    return text[:start] + text[close + 1 :] if close >= 0 else text[:start]


class _Reading:
    """One pass over the tags. Values too deep or too many are dropped."""

    def __init__(self, text: str) -> None:
        self.output = SmiOutput()
        self._text = text
        self._card: CardOutput | None = None
        self._stack: list[str] = []
        self._opened_at: int | None = None  # of the tag before, where that one opened a value
        self._was_begun = self._is_ended = False
        position, in_comment = 0, False
        for tag in _TAG.finditer(text):
            if not in_comment:
                self._take(tag, text[position : tag.start()])
            in_comment = tag[0] == "<!--" or (in_comment and tag[0] != "-->")
            position = tag.end()
        self._add_outside("" if in_comment else text[position:])
        cards = self.output.cards
        closed = all(card.is_closed for card in cards) and not in_comment
        self.output.is_complete = self._was_begun and self._is_ended and closed

    def _take(self, tag: re.Match[str], before: str) -> None:
        leaf, value, close, name, more = tag.groups()
        if leaf:
            self._add_outside(before)
            self._take_leaf(leaf, value, tag[0])
        elif name is None:
            self._add_outside(before)
        elif close:
            self._close(tag, name, before)
        else:
            self._add_outside(before)
            self._open(tag, name, more)

    def _take_leaf(self, name: str, value: str, said: str) -> None:
        self._opened_at = None
        if len(self._stack) < DEEPEST:
            self._stack.append(name)
            self._say(value, said)
            self._stack.pop()
        else:
            self._add_outside(value)
            self._leave(name)

    def _open(self, tag: re.Match[str], name: str, more: str) -> None:
        identity = _ID.search(more) if more else None
        self._opened_at = None
        if name == _ROOT:
            self._was_begun, self._stack = True, []
        elif name == _CARD and (identity or self._card is None):
            self._stack = []
            self._card = self.output.begin_card(tag[0], identity[1] if identity else "")
        elif not more.endswith("/") and len(self._stack) < DEEPEST:
            self._stack.append(name)
            self._opened_at = tag.start()
            if name == _PROCESS and self._card and self._stack[0] == _PROCESSES:
                self._card.processes.append({})

    def _close(self, tag: re.Match[str], name: str, before: str) -> None:
        if self._opened_at is not None and self._stack[-1] == name:
            self._say(before, self._text[self._opened_at : tag.end()].strip())
        else:
            self._add_outside(before)
        self._opened_at = None
        if name == _ROOT:
            self._is_ended, self._card, self._stack = self._was_begun, None, []
        elif name == _CARD and _CARD not in self._stack:
            if self._card:
                self._card.is_closed = True
            self._card, self._stack = None, []
        else:
            self._leave(name)

    def _leave(self, name: str) -> None:
        if name in self._stack:
            while self._stack.pop() != name:
                pass

    def _say(self, value: str, said: str) -> None:
        value = value.strip()
        if "&" in value:
            for entity, character in _ENTITIES.items():
                value = value.replace(entity, character)
        leaf = Leaf(value, said)
        if self._card is None:
            self.output.head.setdefault("/".join(self._stack), leaf)
        elif _PROCESS in self._stack and self._stack[0] == _PROCESSES and self._card.processes:
            self._card.processes[-1].setdefault(self._stack[-1], leaf)
        else:
            self._card.leaves.setdefault("/".join(self._stack), leaf)
            if self._stack[0] == _CLOCKS:
                self._card.clocks.append((self._stack[-1], leaf.value))

    def _add_outside(self, text: str) -> None:
        if text and not text.isspace():
            self.output.outside += [line for line in text.split("\n") if line.strip()]
