"""Captures in the vault of this machine, a folder each: the document, and all that was collected.

The capture is stored with names and serials, since a reinstalled host is compared with it;
so only this user may read it. Older captures stay: one of a host that was wiped already must not
take the place of the one before that.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from rigops import atomic_file
from rigops.capture.document import Capture, document, parse
from rigops.errors import RigopsError, rigops_error
from rigops.probe.bundle import Bundle
from rigops.probe.bundles.saving import save
from rigops.vault.store import Store

DOCUMENT: Final = "capture.json"
BUNDLE: Final = "bundle.tar.gz"

_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_MOST: Final = 10  # of one host, the newest one that was safe to wipe besides
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9.-]+")
_STAMP: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z(?:-[0-9]+)?")


def folder_of(store: Store, host: str) -> Path:
    return store.folder / "captures" / _UNSAFE.sub("_", host)


def put(store: Store, capture: Capture, bundle: Bundle) -> Capture:
    """With its place. It appears whole, or not at all."""
    above = folder_of(store, capture.host)
    try:
        store.made(store.folder)
        for one in (above.parent, above):
            one.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=".new-", dir=above))  # for this user alone
    except OSError as error:
        raise _unwritable(above, error) from error
    try:
        place = _free_place(above, capture.at)
        stored = replace(capture, place=str(place))
        save(bundle, aside / BUNDLE)
        text = json.dumps(document([stored]), indent=1) + "\n"
        atomic_file.replace(aside / DOCUMENT, text, _MODE)
        aside.rename(place)
        atomic_file.sync_folder(above)
    except OSError as error:
        raise _unwritable(above, error) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    _prune(above)
    return stored


def newest(store: Store, host: str) -> Capture | None:
    return next(newest_first(store, host), None)


def newest_first(store: Store, host: str) -> Iterator[Capture]:
    """A damaged one is an error, never an absent one."""
    return map(_read, _places(folder_of(store, host)))


def _places(above: Path) -> list[Path]:
    """The newest first."""
    try:
        found = [one for one in above.iterdir() if _STAMP.fullmatch(one.name)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(above, error) from error
    return sorted(found, key=_order, reverse=True)


def _order(place: Path) -> tuple[str, int]:
    stamp, _, number = place.name.partition("-")
    return stamp, int(number or 0)


def _read(place: Path) -> Capture:
    path = place / DOCUMENT
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error
    return parse(text, place=str(path))


def _free_place(above: Path, at: str) -> Path:
    stamp = re.sub(r"[-:]|\.[0-9]+", "", at)
    place, number = above / stamp, 2
    while place.exists():
        place, number = above / f"{stamp}-{number}", number + 1
    return place


def _prune(above: Path) -> None:
    has_safe = False
    for number, place in enumerate(_places(above)):
        if has_safe and number >= _MOST:
            shutil.rmtree(place, ignore_errors=True)
            continue
        with suppress(RigopsError):
            has_safe = has_safe or _read(place).status == "safe"


def _unwritable(path: Path, error: OSError) -> RigopsError:
    return rigops_error(
        message=f"cannot store the capture in {path}: {error.strerror or error}",
        key="rigops_vault",
        fix="make the folder writable, free space there, or declare another one",
    )


def _unreadable(path: Path, error: Exception) -> RigopsError:
    return rigops_error(
        message=f"cannot read {path}: {error}",
        file=str(path),
        fix="move it away; the capture before it is used then",
    )
