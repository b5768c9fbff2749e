"""Files that a program keeps between its runs."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rigops.backup.host.errors import as_host_error
from rigops.backup.utc import utc_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


def read_state(path: str, schema: str, shapes: Mapping[str, type]) -> object:
    """Empty where there is none that can be read; without what has another type than `shapes`."""
    try:
        found = json.loads(read_record(path) or "")
    except ValueError:
        return {}
    if not isinstance(found, dict) or found.get("schema") != schema:
        return {}
    return {
        name: value for name, value in found.items() if isinstance(value, shapes.get(name, object))
    }


def read_record(path: str) -> str | None:
    """None where there is none; empty where it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return ""


def write_state(path: str, schema: str, found: Mapping[str, object], now: datetime) -> None:
    """For doctor and the self-check, which may not be root's."""
    document = {**found, "schema": schema, "at": utc_text(now)}
    try:
        Path(path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        replace_file(Path(path), f"{json.dumps(document, indent=1, sort_keys=True)}\n", 0o644)
    except OSError as error:
        raise as_host_error("the state", error) from error


def replace_file(path: Path, text: str, mode: int = 0o600) -> None:
    """At every moment the old one or the new one."""
    aside = path.with_name(f".{path.name}.rigops-new")
    with suppress(FileNotFoundError):
        aside.unlink()
    with os.fdopen(os.open(str(aside), os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
