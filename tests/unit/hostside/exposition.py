"""A strict reader of Prometheus' text format 0.0.4, for tests."""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL: Final = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
_SAMPLE = re.compile(
    rf"(?P<name>{_NAME})(?:\{{(?P<labels>{_LABEL}(?:,{_LABEL})*)\}})? (?P<value>\S+)"
)
_HELP = re.compile(rf"# HELP (?P<name>{_NAME}) (?P<text>[^\n]+)")
_TYPE = re.compile(rf"# TYPE (?P<name>{_NAME}) (?P<kind>gauge|counter|untyped)")
_PAIR = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPES: Final = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


def parse(text: str) -> Samples:
    """Samples by name and labels. Raises ValueError for all that node_exporter could stumble over.

    Every metric has one HELP and one TYPE, in this order, and then all its samples; no series is
    there twice; the last line is ended.
    """
    if not text.endswith("\n"):
        raise ValueError("the last line is not ended")
    found: Samples = {}
    described: dict[str, str] = {}
    current = ""
    for line in text[:-1].split("\n"):
        if shape := _HELP.fullmatch(line):
            _require(shape["name"] not in described, line)
            described[shape["name"]] = ""
        elif shape := _TYPE.fullmatch(line):
            _require(described.get(shape["name"]) == "", line)
            current = shape["name"]
            described[current] = shape["kind"]
            found[current] = {}
        elif shape := _SAMPLE.fullmatch(line):
            _require(shape["name"] == current, line)
            labels = tuple(
                (name, re.sub(r'\\[\\"n]', lambda one: _ESCAPES[one[0]], value))
                for name, value in _PAIR.findall(shape["labels"] or "")
            )
            _require(labels not in found[current], line)
            _require(len({name for name, _ in labels}) == len(labels), line)
            found[current][labels] = float(shape["value"])
        else:
            _require(False, line)  # noqa: FBT003 - always
    return found


def _require(is_right: bool, line: str) -> None:  # noqa: FBT001 - as assert
    if not is_right:
        raise ValueError(line)
