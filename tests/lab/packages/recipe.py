"""The tables: which packages there are, in which suite, with which fields and which content."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TOML = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Modules:
    folder: str
    prefix: str  # "nvidia" becomes this in file names, as Debian has it
    license: str
    kernel: str = ""  # where they are built already


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    component: str
    fields: Mapping[str, str]
    words: Mapping[str, str]  # what @WORDS@ in its content stand for
    content: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()
    modules: Modules | None = None


@dataclass(frozen=True)
class Suite:
    repository: str
    name: str
    only_when_asked: bool
    packages: tuple[Package, ...]

    def has_driver(self, upstream: str) -> bool:
        return any(upstream == package.words.get("upstream") for package in self.packages)


def machine_kernel(release: str) -> str:
    """The release of the machine's kernel as a part of package names; usually it is just that."""
    return re.sub(r"[^a-z0-9+.-]", "-", release.lower())


def suites(release: str) -> list[Suite]:
    data = _load("repositories.toml")
    return [
        Suite(
            repository=repository,
            name=name,
            only_when_asked=suite.get("only_when_asked", False),
            packages=tuple(
                package for entry in suite["recipes"] for package in _packages(entry, release)
            ),
        )
        for repository, its in data.items()
        for name, suite in its.items()
    ]


def _packages(entry: Mapping[str, str], release: str) -> Iterator[Package]:
    machine = {"machine": machine_kernel(release)}
    words = {key: value.format(**machine) for key, value in entry.items()}
    recipe = _load(f"recipes/{words.pop('recipe')}.toml")
    for name, data in recipe["packages"].items():
        yield _package(_said({"name": name, **recipe, **data}, words), words)


def _package(data: Mapping[str, Any], words: Mapping[str, str]) -> Package:
    version = data.get("version", words.get("version"))
    section: str = data["section"]
    fields = {
        "Package": data["name"],
        "Source": data.get("source", ""),
        "Version": version,
        "Architecture": "amd64",
        "Maintainer": "The rigops lab <lab@rigops.invalid>",
        "Section": section,
        "Priority": "optional",
        **{key: value for key, value in data.items() if key[0].isupper()},
    }
    return Package(
        name=data["name"],
        version=version,
        component=section.rpartition("/")[0] or "main",
        fields=fields,
        words={**words, "version": version, **data.get("words", {})},
        content=tuple(data.get("content", ())),
        links=data.get("links", {}),
        libraries=tuple(data.get("libraries", ())),
        modules=Modules(**data["modules"]) if "modules" in data else None,
    )


def _said(data: Mapping[str, Any], words: Mapping[str, str]) -> dict[str, Any]:
    return {
        key.format(**words): _value(value, words)
        for key, value in data.items()
        if key != "packages"
    }


def _value(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return value.format(**words)
    if isinstance(value, dict):
        return _said(value, words)
    return [item.format(**words) for item in value]


def _load(name: str) -> dict[str, Any]:
    data: dict[str, Any] = _TOML.loads((FOLDER / name).read_text())
    return data
