"""What a probe saw, as it was said: in memory, or as a directory with one file per section."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rigops import json_fields
from rigops.errors import Problem, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rigops.json_fields import Fields

SCHEMA: Final = "rigops.bundle/1"

_META = "meta.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TIMED_OUT = 124
_CURE = "Take the bundle again, or remove its meta.json: the sections alone are enough."


@dataclass(frozen=True)
class Collected:
    text: str = field(repr=False)
    rc: int = 0
    ms: int | None = None
    root: bool = False
    timed_out: bool = False

    @property
    def whole(self) -> bool:
        return self.rc == 0 and not self.timed_out


@dataclass(frozen=True)
class Bundle:
    """An absent section was not collected, which is never the same as healthy."""

    host: str
    collected_at: str | None
    root: bool
    sections: Mapping[str, Collected]

    def write(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        meta = {
            "schema": SCHEMA,
            "host": self.host,
            "collected_at": self.collected_at,
            "root": self.root,
            "sections": {
                name: {"rc": one.rc, "ms": one.ms, "root": one.root, "timed_out": one.timed_out}
                for name, one in self.sections.items()
            },
        }
        for name, one in self.sections.items():
            (directory / name).write_bytes(one.text.encode("utf-8", "replace"))
        (directory / _META).write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")

    @staticmethod
    def read(directory: Path) -> Bundle:
        """Also a hand-made one: meta.json may be partial or missing, a file may end in .txt."""
        if not directory.is_dir():
            raise UsageError(Problem(message="this is no bundle", file=str(directory)))
        meta = _meta(directory / _META)
        texts = {
            path.name.removesuffix(".txt"): path.read_bytes().decode("utf-8", "replace")
            for path in sorted(directory.iterdir())
            if path.name != _META and _NAME.fullmatch(path.name) and path.is_file()
        }
        about = _object(meta.get("sections"))
        host, collected_at = meta.get("host"), meta.get("collected_at")
        sections = {
            name: _collected(text, _object(about.get(name))) for name, text in texts.items()
        }
        for name, said in about.items():
            # Said to be there, and lost on the way: it says nothing, and must not look empty.
            if name not in sections:
                sections[name] = _collected("", {"rc": 1, **_object(said)})
        return Bundle(
            host=host if isinstance(host, str) and host else directory.resolve().name,
            collected_at=collected_at if isinstance(collected_at, str) else None,
            root=meta.get("root") is True,
            sections=sections,
        )


def _meta(path: Path) -> dict[str, object]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return {}
    fields: Fields = json_fields.parse(text, place=str(path), cure=_CURE)
    if fields.raw("schema") is not None:
        fields.require_schema(SCHEMA)
    return {name: fields.raw(name) for name in ("host", "collected_at", "root", "sections")}


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _collected(text: str, said: Mapping[str, object]) -> Collected:
    rc, ms, timed_out = said.get("rc"), said.get("ms"), said.get("timed_out") is True
    return Collected(
        text=text,
        rc=rc if isinstance(rc, int) else _TIMED_OUT if timed_out else 0,
        ms=ms if isinstance(ms, int) else None,
        root=said.get("root") is True,
        timed_out=timed_out,
    )
