"""What version 0.1 left on a host and printed as JSON: tests/fixtures/version_0_1."""

from __future__ import annotations

import io
import json
import tarfile
import time
from functools import cache
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parent / "fixtures" / "version_0_1"
HOST: Final = "version-0-1"
KERNEL: Final = "6.1.0-40-amd64"  # replaces the name of the test machine's kernel
STATE: Final = "/var/lib/rigops"

_AFTER_THE_REBOOT: Final = (
    "/etc/default/grub.d/",
    f"{STATE}/journal.jsonl",
    f"{STATE}/proven.json",
    f"{STATE}/vault",
)
_TYPES: Final = {
    type(None): "null", bool: "boolean", int: "number", float: "number", str: "string",
    list: "array", dict: "object",
}  # fmt: skip


def text(name: str, kernel: str = KERNEL) -> str:
    return (FOLDER / name).read_text(encoding="utf-8").replace(KERNEL, kernel)


def load(name: str) -> Any:
    return json.loads(text(name))


def archive(kernel: str, *, reboot_owed: bool = False) -> bytes:
    """The host's files as they were, for tar to unpack at its root.

    `reboot_owed`: as they were before the reboot that tried the kernel arguments.
    """
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for entry in load("manifest.json"):
            path = entry["path"]
            if reboot_owed and path.startswith(_AFTER_THE_REBOOT):
                continue
            member = tarfile.TarInfo(path.lstrip("/"))
            member.mode = int(entry.get("mode", "0777"), 8)
            member.mtime = int(time.time())
            content = b""
            if entry["kind"] == "link":
                member.type, member.linkname = tarfile.SYMTYPE, entry["target"]
            elif entry["kind"] == "folder":
                member.type = tarfile.DIRTYPE
            else:
                earlier = FOLDER / "reboot_owed" / Path(path).name
                is_earlier = reboot_owed and earlier.exists()
                content = (earlier if is_earlier else FOLDER / "host" / member.name).read_bytes()
                if path.startswith(STATE):
                    content = content.replace(KERNEL.encode(), kernel.encode())
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


@cache
def _shapes() -> Any:
    return load("documents.json")


def breaches(document: Any) -> list[str]:
    """Where a current document differs from what a reader of version 0.1's expects."""
    schema = document["schema"]
    return _breaches(document, _shapes()[schema], schema)


def parsed(printed: str) -> Any:
    """The document; where version 0.1 had its schema, it has all that it had then."""
    document = json.loads(printed)
    if isinstance(document, dict) and document.get("schema") in _shapes():
        assert breaches(document) == []
    return document


def _breaches(value: Any, shape: Any, place: str) -> list[str]:
    if isinstance(shape, str):
        kind = _TYPES[type(value)]
        return [] if shape == "any" or kind in shape.split("|") else [f"{place} is {kind}: {shape}"]
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{place} is {_TYPES[type(value)]}: array"]
        return [one for item in value for one in _breaches(item, shape[0], f"{place}[]")]
    if "one of" in shape:
        tried = [_breaches(value, one, place) for one in shape["one of"]]
        return min(tried, key=len)
    if not isinstance(value, dict):
        return [f"{place} is {_TYPES[type(value)]}: object"]
    found = []
    for key, inner in shape.items():
        name = key.removesuffix("?")
        if key == "*":
            found += [
                one for key in value for one in _breaches(value[key], inner, f"{place}.{key}")
            ]
        elif name in value:
            found += _breaches(value[name], inner, f"{place}.{name}")
        elif name == key:
            found.append(f"{place}.{name} is absent")
    return found
