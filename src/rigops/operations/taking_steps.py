"""The sh script that carries out the steps of owned files on a host, in one exec. Pure."""

from __future__ import annotations

import shlex
from base64 import b64encode
from typing import TYPE_CHECKING

from rigops.owned import (
    PREVIOUS_FOLDER,
    RECORD,
    Conflict,
    Forget,
    Keep,
    Ownership,
    Present,
    Remove,
    Restore,
    Show,
    Step,
    Write,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_RECORD_MODE = 0o644

# Files are written aside with their mode, synced and renamed: a crash leaves the old or the new.
# A step begins by looking once more at what it is about to replace.
_TOOLS = f"""\
set -eu
umask 022
mkdir -p {PREVIOUS_FOLDER}
chmod 700 {PREVIOUS_FOLDER}
put() {{
    mkdir -p "${{1%/*}}"
    (umask 077 && base64 -d >"$1.rigops-new")
    chmod "$2" "$1.rigops-new"
    sync "$1.rigops-new"
    mv -f "$1.rigops-new" "$1"
}}
keep() {{
    cp -p "$1" "{PREVIOUS_FOLDER}/$2.rigops-new"
    sync "{PREVIOUS_FOLDER}/$2.rigops-new"
    mv -f "{PREVIOUS_FOLDER}/$2.rigops-new" "{PREVIOUS_FOLDER}/$2"
}}
bring_back() {{
    cp -p "{PREVIOUS_FOLDER}/$2" "$1.rigops-new"
    sync "$1.rigops-new"
    mv -f "$1.rigops-new" "$1"
}}
expect() {{
    found=absent
    if [ -e "$1" ]; then found=$(sha256sum <"$1"); found=${{found%% *}}; fi
    if [ "$found" != "$2" ]; then
        echo "$1 was changed by somebody else meanwhile; run this again" >&2
        exit 1
    fi
}}
"""


def script(
    ownership: Ownership,
    steps: Iterable[Step],
    contents: Mapping[str, bytes],
    *,
    effect: str = "",
) -> str:
    """The script, or nothing where no step changes anything.

    `effect` is what makes a change count, such as making a menu anew. A change that is taken back
    is forgotten only after that, so that a crash before it is mended by the next run.
    """
    lines: list[str] = []
    for step in steps:
        if not isinstance(step, (Keep, Show)):
            ownership = ownership.after(step)
            record = _put(RECORD, _RECORD_MODE, ownership.to_json().encode())
            lines += _lines(step, record, contents, effect)
    # Called on the last line: a script that arrives in part does nothing.
    return _TOOLS + "\n".join(["take_steps() {", *lines, "}", "take_steps", ""]) if lines else ""


def _lines(step: Step, record: str, contents: Mapping[str, bytes], effect: str) -> list[str]:
    match step:
        case Write(owned, before, kept) | Conflict(owned, before, kept):
            aside = [shlex.join(("keep", owned.path, kept.name))] if kept else []
            write = _put(owned.path, owned.mode, contents[owned.path])
            return [_expect(owned.path, before), *aside, record, write, effect]
        case Restore(owned, previous):
            back = shlex.join(("bring_back", owned.path, previous.name))
            return [*_expect_ours(owned.path, owned.digest, owned.replaces), back, effect, record]
        case Remove(owned):
            gone = shlex.join(("rm", "-f", owned.path))
            return [*_expect_ours(owned.path, owned.digest, owned.replaces), gone, effect, record]
        case Forget():
            return [effect, record]
        case Keep() | Show():
            return []


def _expect(path: str, before: Present | None) -> str:
    return shlex.join(("expect", path, before.digest if before else "absent"))


def _expect_ours(path: str, digest: str, replaces: str) -> list[str]:
    # While an update was interrupted, either of our two contents may be there.
    return [] if replaces else [shlex.join(("expect", path, digest))]


def _put(path: str, mode: int, content: bytes) -> str:
    # base64 has no character that ends the here-document or means something to the shell.
    text = b64encode(content).decode()
    return f"{shlex.join(('put', path, f'{mode:04o}'))} <<'RIGOPS_END'\n{text}\nRIGOPS_END"
