"""Where the catalog differs from what NVIDIA and archives publish; a tool of developers.

    python -m rigops.catalog.refresh releases.json redistrib_*.json supported-gpus.json Packages

Each file is recognized by its content. Exit code 1: the catalog lacks or contradicts something; 2:
a file is none of these, or none is named. Branches that the catalog leaves out and that are older
than all supported ones, and older releases of branches without fixes, are not missing. No file
names a branch's end.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any, Final, Literal

from rigops.catalog import versions
from rigops.catalog.loader import Catalog
from rigops.catalog.lookup import find_branch, find_gpu, find_unlisted, has_ended
from rigops.dataclass import dataclass

_KINDS: Final = {
    "lts branch": "LTSB",
    "production branch": "production",
    "new feature branch": "new-feature",
}
_DAYS: Final = 14  # between NVIDIA's tag, its download page and its data center release
_OLDEST_BRANCH: Final = 340  # the catalog knows the chips from here on
_DEVICE: Final = re.compile(r"0x([0-9a-f]{4})", re.IGNORECASE)
_MODALIAS: Final = re.compile(r"v000010DEd0000([0-9A-F]{4})", re.IGNORECASE)
_DRIVER_PACKAGE: Final = re.compile(
    r"(nvidia|cuda)-(drivers?|kernel|dkms|open)\b.*|libnvidia-(compute|ml)\b.*"
)
_UPSTREAM: Final = re.compile(r"(?:[0-9]+:)?([3-9][0-9]{2}(?:\.[0-9]{1,3}){1,2})(?![0-9.])")
_FIELD: Final = re.compile(r"^([A-Za-z0-9-]+):[ \t]*(.*(?:\n[ \t].*)*)", re.MULTILINE)


@dataclass(frozen=True)
class Difference:
    kind: Literal["missing", "differs", "note"]
    text: str


def differences(catalog: Catalog, text: str, today: date) -> list[Difference]:
    """ValueError: the text is no such file."""
    return list(dict.fromkeys(_compared(catalog, text, today)))


def _compared(catalog: Catalog, text: str, today: date) -> Iterator[Difference]:
    try:
        content = json.loads(text)
    except ValueError:
        stanzas = [dict(_FIELD.findall(one)) for one in re.split(r"\n\s*\n", text)]
        if not any("Package" in one and "Version" in one for one in stanzas):
            raise ValueError("neither JSON nor a Packages file") from None
        return _packages(catalog, stanzas, today)
    if isinstance(content, dict):
        if isinstance(content.get("chips"), list):
            return _cards(catalog, content["chips"])
        if "release_date" in content:
            return _redistributable(catalog, content, today)
        branches = {
            name: one
            for name, one in content.items()
            if isinstance(one, dict) and isinstance(one.get("driver_info"), list)
        }
        if branches:
            return _releases(catalog, branches, today)
    raise ValueError("not releases.json, redistrib_*.json or supported-gpus.json")


def _releases(
    catalog: Catalog, branches: Mapping[str, dict[str, Any]], today: date
) -> Iterator[Difference]:
    for name, said in branches.items():
        branch, kind = find_branch(catalog, name), _KINDS.get(str(said.get("type", "")))
        if branch and kind and not has_ended(branch, today) and branch.kind != kind:
            yield Difference("differs", f"branch {name} is {kind}, in the catalog {branch.kind}")
        for one in said["driver_info"]:
            version = str(one.get("release_version", ""))
            if version.partition(".")[0] == name:
                yield from _release(catalog, version, str(one.get("release_date", "")), today)


def _redistributable(
    catalog: Catalog, content: Mapping[str, Any], today: date
) -> Iterator[Difference]:
    """Of a driver, or of a CUDA toolkit and the driver that comes with it."""
    label = str(content.get("release_label", ""))
    is_toolkit = content.get("release_product") == "cuda"
    version = str(content.get("nvidia_driver", {}).get("version", "") if is_toolkit else label)
    version = version or str(content.get("nvidia_driver", {}).get("version", ""))
    if not version:
        raise ValueError("a manifest without a driver")
    day = "" if is_toolkit else str(content["release_date"])
    yield from _release(catalog, version, day, today)
    builds = content.get("cuda_compat", {}).get("linux-x86_64", {})
    of_driver = (name.removeprefix("cuda") for name in builds if name.startswith("cuda"))
    cuda = ".".join(label.split(".")[:2]) if is_toolkit else next(of_driver, "")
    branch = find_branch(catalog, versions.branch_of(version))
    if branch and cuda and branch.cuda != cuda:
        kind: Literal["missing", "differs"] = "differs" if branch.cuda else "missing"
        yield Difference(
            kind, f"branch {branch.branch}: CUDA {cuda}, in the catalog {branch.cuda or 'none'}"
        )


def _release(catalog: Catalog, version: str, day: str, today: date) -> Iterator[Difference]:
    try:
        parsed = versions.parse(version)
    except ValueError:
        yield Difference("note", f"{version} is no release of NVIDIA's")
        return
    name = versions.branch_of(parsed)
    branch = find_branch(catalog, name)
    of = f" of {day}" if day else ""
    if branch is None:
        supported = [int(one.branch) for one in catalog.drivers if not has_ended(one, today)]
        if int(name) > min(supported, default=0):
            yield Difference("missing", f"branch {name}, with release {version}{of}")
        return
    known = {one.version: one.date for one in branch.releases}
    if version not in known:
        newer = all(parsed > versions.parse(one) for one in known)
        if newer or not has_ended(branch, today):
            yield Difference("missing", f"release {version}{of}")
    elif day and not known[version]:
        yield Difference("missing", f"the day of {version}: {day}")
    elif day and not _is_same_day(day, known[version]):
        yield Difference("differs", f"{version} is of {day}, in the catalog of {known[version]}")


def _is_same_day(day: str, known: str) -> bool:
    if day.startswith(known):
        return True
    try:
        return abs((date.fromisoformat(day) - date.fromisoformat(known)).days) <= _DAYS
    except ValueError:
        return False


def _cards(catalog: Catalog, chips: Iterable[Mapping[str, Any]]) -> Iterator[Difference]:
    by_device: dict[str, list[Mapping[str, Any]]] = {}
    for chip in chips:
        if shape := _DEVICE.fullmatch(str(chip.get("devid", ""))):
            by_device.setdefault(shape[1].lower(), []).append(chip)
    for device, same in by_device.items():
        legacy = str(same[0].get("legacybranch", "")).partition(".")[0]  # 470.xx, 173.14.xx
        if not legacy or int(legacy) >= _OLDEST_BRANCH:
            names = tuple(dict.fromkeys(str(one.get("name", "")) for one in same))
            yield from _chip(catalog, device, ", ".join(names), legacy, same[0].get("features"))
            yield from _name(catalog, device, names)


def _chip(
    catalog: Catalog, device: str, names: str, legacy: str, features: list[str] | None
) -> Iterator[Difference]:
    yield from _generation(catalog, device, names)
    chip = find_unlisted(catalog, int(device, 16))
    if chip is None:
        return
    if chip.last_branch != legacy:
        text = f"10de:{device} {names}: last branch {legacy or 'none'}"
        yield Difference("differs", f"{text}, in the catalog {chip.last_branch or 'none'}")
    if features is not None:
        has_open = "kernelopen" in features
        if has_open != any(chip.architecture in one.open_architectures for one in catalog.drivers):
            modules = "open modules" if has_open else "no open modules"
            yield Difference("differs", f"10de:{device} {names}: {modules} ({chip.architecture})")


def _name(catalog: Catalog, device: str, names: tuple[str, ...]) -> Iterator[Difference]:
    listed = find_gpu(catalog, f"10de:{device}").only
    found = [gpu for name in names for gpu in find_gpu(catalog, name).found]
    what = f"10de:{device} {', '.join(names)}"
    if listed and listed not in found:
        yield Difference("differs", f"{what}: in the catalog {listed.name}")
    elif not listed and not found:
        yield Difference("note", f"{what}: known by its chip alone")


def _generation(catalog: Catalog, device: str, name: str) -> Iterator[Difference]:
    if find_unlisted(catalog, int(device, 16)) is None:
        yield Difference("missing", f"10de:{device} {name}: no generation has its id".strip())


def _packages(
    catalog: Catalog, stanzas: Iterable[Mapping[str, str]], today: date
) -> Iterator[Difference]:
    for one in stanzas:
        package, shape = one.get("Package", ""), _UPSTREAM.match(one.get("Version", ""))
        if shape is None or not _DRIVER_PACKAGE.fullmatch(package):
            continue
        yield from _release(catalog, shape[1], "", today)
        branch = find_branch(catalog, versions.branch_of(shape[1]))
        for device in dict.fromkeys(_MODALIAS.findall(one.get("Modaliases", ""))):
            yield from _generation(catalog, device.lower(), f"of {package}")
            chip = find_unlisted(catalog, int(device, 16))
            if branch is None or chip is None:
                continue
            drives = {*branch.open_architectures}
            if not package.endswith("-open"):
                drives |= {*branch.architectures}
            if chip.architecture not in drives:
                yield Difference("differs", f"{package} drives {chip.architecture}")


def main(paths: Sequence[str]) -> int:
    if not paths:
        sys.stderr.write(
            "name the files: releases.json redistrib_*.json supported-gpus.json Packages\n"
        )
        return 2
    catalog, code, today = Catalog(), 0, datetime.now(timezone.utc).date()
    for path in paths:
        try:
            found = differences(catalog, Path(path).read_text(encoding="utf-8"), today)
        except (OSError, ValueError) as error:
            sys.stderr.write(f"{path}: {error}\n")
            code = 2
            continue
        wrong = sum(one.kind != "note" for one in found)
        lines = [f"{path}: {wrong or 'nothing'} to mend"]
        lines += [f"  {one.kind:<7}  {one.text}" for one in found]
        sys.stdout.write("\n".join((*lines, "")))
        code = max(code, 1 if wrong else 0)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
