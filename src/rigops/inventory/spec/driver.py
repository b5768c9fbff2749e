"""The driver keys: what to install and where it may come from."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import urlsplit

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from rigops.inventory.spec.faults import Collector, refuse
from rigops.inventory.spec.model import DriverDeclaration, DriverSource
from rigops.inventory.spec.names import did_you_mean
from rigops.inventory.spec.scalars import mapping, text

_BRANCH = re.compile(r"[0-9]{3}")
_VERSION = re.compile(r"[0-9]{3}\.[0-9]{2,3}(\.[0-9]{1,2})?")
_RANGE = re.compile(r"[0-9.<>=!~*, ]+")
_PACKAGE = re.compile(
    r"(?:nvidia-)?(?:driver|dkms|headless)?-?([0-9]{3})(?:-(?:open|server).*|\.\*)?"
)
_SNAPSHOT = re.compile(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}(T[0-9]{2}:?[0-9]{2}:?[0-9]{2}Z)?")
_FIELDS = (
    "Types", "URIs", "Suites", "Components", "Architectures", "Signed-By", "Enabled",
    "Check-Valid-Until", "Languages", "Targets", "By-Hash", "PDiffs",
)  # fmt: skip
_BRANCHES_BEGIN, _BRANCHES_END = 300, 999

EXAMPLE = '"535", "535.261.03" or ">=535,<536"'


def driver(value: object) -> DriverDeclaration:
    if isinstance(value, float):
        refuse(
            "a version must be in quotes, or Python drops its zeros", value, fix=f'write "{value}"'
        )
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        refuse("not a driver branch, version or range", value, fix=f"write {EXAMPLE}")
    wish = str(value).strip()
    if _BRANCH.fullmatch(wish):
        branch = int(wish)
        if not _BRANCHES_BEGIN <= branch <= _BRANCHES_END:
            refuse(f"no such driver branch: {wish}", value, fix=f"write {EXAMPLE}")
        return DriverDeclaration("branch", wish, SpecifierSet(f">={branch},<{branch + 1}"))
    if _VERSION.fullmatch(wish):
        return DriverDeclaration("version", wish, SpecifierSet(f"=={wish}"))
    return DriverDeclaration("range", wish, _range(wish, value))


def _range(wish: str, value: object) -> SpecifierSet:
    package = _PACKAGE.fullmatch(wish)
    if package:
        refuse(
            "a package name or a wildcard may install another branch",
            value,
            fix=f'write "{package[1]}"',
        )
    if not _RANGE.fullmatch(wish) or not wish:
        refuse("not a driver branch, version or range", value, fix=f"write {EXAMPLE}")
    try:
        versions = SpecifierSet(wish)
    except InvalidSpecifier:
        refuse("not a version range", value, fix=f"write {EXAMPLE}")
    if versions.is_unsatisfiable():
        refuse("no version can satisfy this", value, fix=f"write {EXAMPLE}")
    return versions


def driver_source(value: object) -> DriverSource:
    if isinstance(value, dict):
        return _deb822(value)
    word = text(value)
    if word == "auto":
        return DriverSource("auto")
    if word == "distribution":
        return DriverSource("distribution")
    if word == "vendor":
        return DriverSource("vendor")
    kind, colon, rest = word.partition(":")
    if colon and kind == "snapshot":
        if not _SNAPSHOT.fullmatch(rest):
            refuse("not a snapshot date", value, fix='write "snapshot:20240401T000000Z"')
        return DriverSource("snapshot", snapshot=rest)
    if colon and kind == "dir":
        if not rest.strip():
            refuse("the directory is missing", value, fix='write "dir:/path/to/packages"')
        return DriverSource("dir", directory=rest)
    words = ("auto", "distribution", "vendor", "snapshot:DATE", "dir:PATH")
    refuse("not a source of packages", value, fix=did_you_mean(word, words))


def _deb822(value: object) -> DriverSource:
    example = '{"URIs": "…", "Suites": "bookworm", "Components": "main non-free"}'
    data = mapping(value, noun="deb822 fields", example=example)
    if not data:
        refuse("names no source", value, fix=f"write {example}")
    found = Collector()
    spelled = {name.lower(): name for name in _FIELDS}
    fields: list[tuple[str, str]] = []
    for name, given in data.items():
        if name.lower() == "trusted":
            found.refuse(
                "rigops installs only packages whose signature it can check",
                given,
                name,
                fix="leave Trusted out and give Signed-By",
            )
        elif name.lower() not in spelled:
            found.refuse("unknown deb822 field", given, name, fix=did_you_mean(name, _FIELDS))
        else:
            parsed = found.check(_field(name), given, name, "")
            fields.append((spelled[name.lower()], parsed))
    named = {name for name, _ in fields}
    for missing in [name for name in ("URIs", "Suites") if name not in named]:
        found.refuse(f"{missing} is missing", value, missing, fix=f"write {example}")
    return found.finish(DriverSource("deb822", fields=tuple(fields)))


def _field(name: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if isinstance(value, (list, tuple)):
            return " ".join(text(item) for item in value)
        if name.lower() == "signed-by" and isinstance(value, str) and "\n" in value:
            return value  # an armoured key is many lines long
        word = text(value)
        if name.lower() == "uris":
            for uri in word.split():
                _check_uri(uri)
        return word

    return parse


def _check_uri(uri: str) -> None:
    parts = urlsplit(uri)
    if not parts.scheme:
        refuse("not a URI", uri)
    if parts.username or parts.password:
        refuse(
            "do not put credentials in an inventory",
            uri,
            fix="put it in a file of /etc/apt/auth.conf.d on the host",
            secret=True,
        )
