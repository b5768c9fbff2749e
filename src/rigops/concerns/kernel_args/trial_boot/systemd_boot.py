"""A trial boot by systemd-boot: one more entry, which an EFI variable has it start once.

Not boot counting: that calls a boot good in which nothing can be reached.
"""

from __future__ import annotations

import re
import shlex
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final

from rigops.concerns.kernel_args.trial_boot.conditions import Conditions
from rigops.concerns.kernel_args.trial_boot.parts import (
    HEADER,
    LOADER_ENTRY,
    NoTrial,
    Trial,
    TrialFile,
    armed,
    step,
)
from rigops.probe.kernel_arguments import name, split

_SORTS_BY_KEY_SINCE: Final = 250
_COUNTED: Final = re.compile(r"\+[0-9]+(?:-[0-9]+)?(?=\.conf$)")
_NOT_COPIED: Final = frozenset({"title", "options", "sort-key"})


def prepare(
    conditions: Conditions,
    *,
    wanted: tuple[str, ...],
    files: Mapping[str, TrialFile],
    notices: tuple[str, ...],
) -> Trial | NoTrial:
    paths = {_id(path): path for path in conditions.entries}
    others = {one: conditions.entries[path] for one, path in paths.items() if one != LOADER_ENTRY}
    selected = _id(conditions.selected)
    if reason := next(_blockers(conditions, selected, others), ""):
        return NoTrial(reason)
    folder = paths[selected].rpartition("/")[0]
    arm = _arm(f"{folder}/{LOADER_ENTRY}", _entry(others[selected], wanted).encode())
    return Trial(files=files, arm=arm, notices=notices)


def _blockers(conditions: Conditions, selected: str, others: Mapping[str, str]) -> Iterator[str]:
    if "bootctl" not in conditions.tools:
        yield "there is no bootctl, which orders an entry of systemd-boot for one boot"
    if selected.endswith(".efi"):
        yield "it starts a unified kernel image, which has its arguments inside"
    if selected not in others:
        yield "systemd-boot does not report which entry it started"
    elif "***" in others[selected]:
        yield "the entry that starts it holds a secret, which rigops does not read"
    if not _default_stays(conditions, others):
        yield (
            "systemd-boot has no configured default entry, and a new one might become it (set "
            "`default` in loader.conf)"
        )


def _id(path: str) -> str:
    """Without what boot counting has added to the name. FAT knows no case."""
    return _COUNTED.sub("", path.rpartition("/")[2].lower())


def _default_stays(conditions: Conditions, others: Mapping[str, str]) -> bool:
    wishes = [conditions.default, *_values("default", conditions.loader_conf.values())]
    for wish in (wish.lower() for wish in wishes if wish and not wish.startswith("@")):
        if any(fnmatchcase(one, wish) for one in others) and not fnmatchcase(LOADER_ENTRY, wish):
            return True
    version = re.match(r"systemd-boot ([0-9]{1,5})", conditions.loader)
    is_new = version is not None and int(version[1]) >= _SORTS_BY_KEY_SINCE
    return is_new and all(any(_values("sort-key", [text])) for text in others.values())


def _values(key: str, texts: Iterable[str]) -> list[str]:
    rows = (line.split(None, 1) for text in texts for line in text.splitlines())
    return [row[1].strip() for row in rows if len(row) > 1 and row[0] == key]


def _entry(text: str, wanted: tuple[str, ...]) -> str:
    # The older systemd-boot puts the initrds of the entry on the command line itself.
    own = split(" ".join(_values("options", [text])))
    options = [one for one in wanted if name(one) != "initrd" or one in own]
    kept = [
        line.rstrip()
        for line in text.splitlines()
        if line.split() and line.split()[0] not in _NOT_COPIED and not line.startswith("#")
    ]
    sorted_by_key = ["sort-key zzz-rigops"] if any(_values("sort-key", [text])) else []
    head = [HEADER, "title rigops: new kernel arguments, for one boot", *sorted_by_key]
    return "\n".join([*head, *kept, f"options {' '.join(options)}", ""])


def _arm(path: str, entry: bytes) -> str:
    target, aside = shlex.quote(path), shlex.quote(f"{path}.rigops-new")
    content = f"{b64encode(entry).decode()}\nRIGOPS_END"
    return armed(
        step(f"base64 -d >{aside} <<'RIGOPS_END'\n{content}", f"{path} cannot be written"),
        step(f"sync {aside} && mv -f {aside} {target}", f"{path} cannot be written"),
        step(f"bootctl set-oneshot {LOADER_ENTRY}", "bootctl set-oneshot failed"),
        step(f'[ "$(trial_one_shot)" = {LOADER_ENTRY} ]', "systemd-boot has not got the order"),
    )
