"""From what is declared and what a host has to the files that it gets. Pure."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rigops import json_fields
from rigops.concerns.monitoring import AUTO
from rigops.concerns.monitoring.facts import Monitoring
from rigops.concerns.monitoring.record import TEXTFILE_PATH, TEXTFILE_SCHEMA
from rigops.errors import RigopsError

if TYPE_CHECKING:
    from rigops.inventory.spec.model import ExpectedGpus, Notify

PYTHON: Final = (3, 8)
TEXTFILE: Final = "rigops.prom"

_FLAG = re.compile(r"--collector\.textfile\.directory[= ][\"']?(?P<folder>/[A-Za-z0-9_./@+-]+)")


def no_python(found: Monitoring) -> str:
    """The blocker of the self-check; empty: none."""
    if found.python is None:
        return "the self-check needs /usr/bin/python3. fix: sudo apt install python3"
    if found.python < PYTHON:
        version = ".".join(map(str, found.python))
        return f"the self-check needs Python 3.8, and /usr/bin/python3 is {version}. fix: update it"
    return ""


def textfile_folder(declared: str, found: Monitoring) -> str | None:
    """The directory that node_exporter reads; None: not known."""
    if declared != AUTO:
        return declared
    named = [_FLAG.search(text) for text in (*found.commands, *found.settings)]
    folders = [shape["folder"] for shape in named if shape]
    if not folders and found.commands and found.debian_folder:
        folders = [found.debian_folder]
    return posixpath.normpath(folders[-1]) if folders else None


def no_folder(found: Monitoring) -> str:
    which = "node_exporter names no directory" if found.commands else "no node_exporter runs here"
    fix = (
        "install prometheus-node-exporter, give it --collector.textfile.directory, or declare the "
        "directory itself"
    )
    return f'metrics = "auto": {which}. fix: {fix}'


def target(notify: Notify) -> str:
    """The file of the notify program: a name and a value each, a line each."""
    named = {"url": notify.url, "command": notify.command, "ping": notify.ping}
    return "".join(f"{name}\n{value}\n" for name, value in named.items() if value is not None)


def settings(
    gpus: ExpectedGpus | None,
    folder: str | None,
    commands: Mapping[str, Sequence[str]],
    *,
    skips_p2p: bool = False,
) -> Iterator[str]:
    """The lines of the file that the self-check reads."""
    if skips_p2p:
        yield "p2p skip"
    if gpus is not None:
        yield f"gpus {gpus.count}"
    if folder is not None:
        yield f"metrics {folder}"
    for concern, words in commands.items():
        yield f"check {concern} {shlex.join(words)}"


def written_textfile(records: Mapping[str, str]) -> str | None:
    """The one that the program on the host wrote, as its record has it."""
    text = records.get(TEXTFILE_PATH)
    if text is None:
        return None
    try:
        fields = json_fields.parse(text, place=TEXTFILE_PATH)
        fields.require_schema(TEXTFILE_SCHEMA)
        path = fields.text("textfile")
    except RigopsError:
        return None
    is_ours = posixpath.normpath(path) == path and path.endswith(f"/{TEXTFILE}")
    return path if is_ours and path.startswith("/") and path.isprintable() else None
