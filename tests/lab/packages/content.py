"""What is inside a package: files of content/ with its words filled in, libraries, modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tests.lab.packages import elf
from tests.lab.packages.deb import File
from tests.lab.packages.recipe import FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.lab.packages.recipe import Modules, Package

_CONTENT = FOLDER / "content"
_SCRIPTS = "DEBIAN"
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_MODULES = ("", "-modeset", "-drm", "-uvm", "-peermem")


class Libraries(Protocol):
    def built(self, soname: str, upstream: str) -> bytes: ...


def scripts(package: Package) -> list[File]:
    found = [
        File(path.name, _filled(path, package), 0o755)
        for group in package.content
        for path in sorted((_CONTENT / group / _SCRIPTS).glob("*"))
    ]
    if package.libraries:
        found.append(File("triggers", b"activate-noawait ldconfig\n"))
    return found


def files(package: Package, libraries: Libraries) -> list[File]:
    about = File(f"usr/share/doc/{package.name}/README", f"{package.name} of the lab\n".encode())
    return [
        about,
        *_from_tree(package),
        *(File(path, link=target) for path, target in package.links.items()),
        *_libraries(package, libraries),
        *(_modules(package.modules, package.words["upstream"]) if package.modules else ()),
    ]


def _from_tree(package: Package) -> Iterator[File]:
    for group in package.content:
        for path in sorted((_CONTENT / group).rglob("*")):
            name = path.relative_to(_CONTENT / group)
            if path.is_file() and name.parts[0] != _SCRIPTS:
                mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
                yield File(_say(str(name), package.words), _filled(path, package), mode)


def _filled(path: Path, package: Package) -> bytes:
    return _say(path.read_text(), package.words).encode()


def _say(text: str, words: Mapping[str, str]) -> str:
    for word, meaning in {**words, "width": str(elf.WIDTH)}.items():
        text = text.replace(f"@{word.upper()}@", meaning)
    return text


def _libraries(package: Package, libraries: Libraries) -> Iterator[File]:
    for soname in package.libraries:
        upstream = package.words["upstream"]
        real = f"{soname.partition('.so.')[0]}.so.{upstream}"
        yield File(f"{_LIBRARIES}/{real}", libraries.built(soname, upstream))
        yield File(f"{_LIBRARIES}/{soname}", link=real)


def _modules(modules: Modules, upstream: str) -> Iterator[File]:
    for suffix in _MODULES:
        unfilled = elf.module(
            [
                ("version", upstream),
                ("supported", "external"),
                ("license", modules.license),
                ("name", f"nvidia{suffix}".replace("-", "_")),
                ("retpoline", "Y"),
                ("depends", "nvidia" if suffix else ""),
            ]
        )
        path = f"{modules.folder}/{modules.prefix}{suffix}.ko"
        if modules.kernel:
            yield File(path, elf.filled(unfilled, modules.kernel))
        else:
            yield File(f"{path}.in", unfilled)
