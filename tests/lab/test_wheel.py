"""What people install: the wheel that is built from the sdist, in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

from rigops.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    # Without --wheel or --sdist, build makes the sdist from the tree and the wheel from the sdist.
    _run(sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT))
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an environment's programs, with rigops from a wheel, far from the checkout."""
    (wheel,) = built.glob("*.whl")
    folder = tmp_path_factory.mktemp("wheel")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env/bin/python"
    _run(sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", str(wheel))
    return folder / "env/bin"


def test_the_sdist_is_the_whole_checkout(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}

    tracked = set(_run("git", "-C", str(ROOT), "ls-files").splitlines())
    assert {"LICENSE", "Makefile", "tests/tiers.py", "docs/reference/concerns.md"} <= tracked
    assert sorted(tracked - held) == []


def test_every_command_of_an_installed_rigops_has_help(installed: Path) -> None:
    for command in COMMANDS:
        assert f"rigops {command}" in _run(str(installed / "rigops"), command, "--help")


@pytest.mark.parametrize("name", ["deploys", "templates"])
def test_an_installed_rigops_finds_its_folders_inside_itself(name: str, installed: Path) -> None:
    code = f"from rigops import assets; print(assets.find({name!r}))"

    found = Path(_run(str(installed / "python"), "-c", code).strip())

    assert found.is_dir()
    assert found.is_relative_to(installed.parent)
    shipped = {path.name for path in found.iterdir()} - {"__pycache__"}
    assert shipped == {path.name for path in (ROOT / name).iterdir()} - {"__pycache__"}


def test_an_installed_rigops_renders_its_templates(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "inventory.py").write_text('rigs = [("box", {"ssh_port": 2222})]\n')

    said = _run(str(installed / "rigops"), "ssh-config", cwd=tmp_path)

    assert "Host box\n    Port 2222\n" in said


def test_an_installed_rigops_has_its_catalog(installed: Path, tmp_path: Path) -> None:
    assert "545" in _run(str(installed / "rigops"), "drivers", "--gpu", "3090", cwd=tmp_path)


def _run(*command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
