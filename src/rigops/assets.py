"""deploys/ and templates/: inside an installed rigops, or at the top of a checkout."""

from __future__ import annotations

from pathlib import Path

from rigops.errors import Problem, RigopsError

PACKAGE = Path(__file__).resolve().parent


def find(name: str, *, package: Path = PACKAGE) -> Path:
    roots = [package]
    if package.parent.name == "src":
        roots.append(package.parents[1])
    for root in roots:
        path = root / name
        if path.exists():
            return path
    raise RigopsError(
        Problem(
            message=f"{name} is missing from this installation of rigops",
            fix="reinstall it: pipx install --force rigops, "
            "or python3 -m pip install --force-reinstall rigops",
            file=str(package / name),
        ),
    )
