"""apt repositories: a pool of packages, and for each suite the lists that lead to them."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from typing import TYPE_CHECKING

from tests.lab.packages import content, deb

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from tests.lab.packages.libraries import Libraries
    from tests.lab.packages.recipe import Package, Suite

_DATE = "Thu, 01 Jan 2026 00:00:00 UTC"
_LABELS = {"debian": "Debian", "ubuntu": "Ubuntu"}
# A component exists even where a suite has nothing in it: apt warns about those it cannot find.
COMPONENTS: Mapping[str, tuple[str, ...]] = {
    "debian": ("main", "contrib", "non-free", "non-free-firmware"),
    "ubuntu": ("main", "restricted"),
}


def write(root: Path, suites: Iterable[Suite], libraries: Libraries) -> None:
    for suite in suites:
        repository = root / suite.repository
        lists: dict[str, list[str]] = defaultdict(list)
        for package in suite.packages:
            lists[package.component].append(_publish(repository, package, libraries))
        dists = repository / "dists" / suite.name
        for component in COMPONENTS[suite.repository]:
            folder = dists / component / "binary-amd64"
            folder.mkdir(parents=True)
            # Apt 3 reads a last stanza only where an empty line ends it.
            (folder / "Packages").write_text("".join(f"{one}\n" for one in lists[component]))
        (dists / "Release").write_text(_release(suite, dists))


def _publish(repository: Path, package: Package, libraries: Libraries) -> str:
    """Put a package into the pool, and say what a list has to say about it."""
    epochless = package.version.partition(":")[2] or package.version
    architecture = package.fields["Architecture"]
    source = package.fields["Source"] or package.name
    name = f"pool/{package.component}/{source}/{package.name}_{epochless}_{architecture}.deb"
    files = content.files(package, libraries)
    # apt takes two packages of one version for different ones when they differ in this field.
    fields = {**package.fields, "Installed-Size": deb.size(files)}
    data = deb.pack(fields, content.scripts(package), files)
    path = repository / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    about = {"Filename": name, "Size": str(len(data)), "SHA256": hashlib.sha256(data).hexdigest()}
    return deb.control({**fields, **about})


def _release(suite: Suite, dists: Path) -> str:
    label = _LABELS[suite.repository]
    fields = {
        "Origin": label,
        "Label": label,
        "Suite": suite.name,
        "Codename": suite.name,
        "Date": _DATE,
        "NotAutomatic": "yes" if suite.only_when_asked else "",
        "ButAutomaticUpgrades": "yes" if suite.only_when_asked else "",
        "Architectures": "amd64",
        "Components": " ".join(COMPONENTS[suite.repository]),
        "Acquire-By-Hash": "no",
    }
    sums = "".join(
        f" {hashlib.sha256(path.read_bytes()).hexdigest()} {path.stat().st_size}"
        f" {path.relative_to(dists)}\n"
        for path in sorted(dists.rglob("Packages"))
    )
    return f"{deb.control(fields)}SHA256:\n{sums}"
