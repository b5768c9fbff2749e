from __future__ import annotations

import json
import stat
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rigops.autoinstall import preseed
from rigops.capture.document import document
from tests.unit.autoinstall.captured import KEY, RIG, WIFI, WIRED

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.capture.document import Capture
    from tests.unit.cli.conftest import Rigops

HOST = RIG.host
pytestmark = pytest.mark.usefixtures("captured")


@pytest.fixture
def captured(tmp_path: Path) -> None:
    """An inventory with a captured host, and a key."""
    path = tmp_path / "inventory.py"
    vault = tmp_path / "vault"
    path.write_text(f'rigs = [("{HOST}", {{"rigops_vault": "{vault}", "ssh_user": "me"}})]\n')
    (tmp_path / "me.pub").write_text(f"{KEY}\n")
    _put(vault, RIG)


def _put(vault: Path, capture: Capture) -> None:
    folder = vault / "captures" / HOST / "20261125T163000Z"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "capture.json").write_text(json.dumps(document([capture])))


def test_debians_preseed_is_written(rigops: Rigops, tmp_path: Path) -> None:
    done = rigops("autoinstall", HOST, "--for", "debian", "--ssh-key", "me.pub")

    file = tmp_path / f"autoinstall-{HOST}" / "preseed.cfg"
    assert done.code == 0, done.err
    assert "wipes    nvme0n1" in done.out
    assert preseed.faults(file.read_text()) == []
    assert KEY in file.read_text()


def test_ubuntus_files_are_written_and_described(rigops: Rigops, tmp_path: Path) -> None:
    words = ("--for", "ubuntu", "--root", "ext4", "--out", "stick", "--ssh-key", "me.pub", "--json")
    done = rigops("autoinstall", HOST, *words)

    (host,) = done.json()["hosts"]
    assert done.json()["schema"] == "rigops.autoinstall/1"
    assert host["files"] == ["stick/user-data", "stick/meta-data"]
    assert host["disk"]["name"] == "nvme0n1"
    text = (tmp_path / "stick/user-data").read_text()
    for entry in host["disk"]["match"]:
        assert f"          - serial: {json.dumps(entry['glob'])}\n" in text


@pytest.mark.parametrize(
    ("distribution", "argument"),
    [
        ("debian", "  auto=true priority=critical file=/hd-media/preseed.cfg"),
        ("ubuntu", "  autoinstall"),
    ],
)
def test_what_to_add_to_the_line_of_the_kernel_is_printed(
    rigops: Rigops, distribution: str, argument: str
) -> None:
    done = rigops("autoinstall", HOST, "--for", distribution, "--ssh-key", "me.pub")

    assert argument in done.out.splitlines()


@pytest.mark.parametrize(
    ("distribution", "name"), [("debian", "preseed.cfg"), ("ubuntu", "meta-data")]
)
def test_a_second_run_writes_them_anew_and_nothing_of_somebody_else(
    rigops: Rigops, tmp_path: Path, distribution: str, name: str
) -> None:
    words = ("autoinstall", HOST, "--for", distribution, "--ssh-key", "me.pub", "--out", "x")
    file = tmp_path / "x" / name
    assert rigops(*words).code == 0
    assert rigops(*words).code == 0
    file.write_text("d-i mine\n")

    done = rigops(*words)

    assert done.code == 2
    assert "not overwritten" in done.err
    assert file.read_text() == "d-i mine\n"


def test_the_wifi_secret_is_read_on_consent_and_hidden(
    rigops: Rigops, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = replace(RIG.network, interfaces=(WIRED, WIFI))
    _put(tmp_path / "vault", replace(RIG, network=network))
    words = ("autoinstall", HOST, "--for", "debian", "--ssh-key", "me.pub", "--out", "x")
    file = tmp_path / "x" / "preseed.cfg"

    without = rigops(*words)
    assert "--with-wifi-secret" in without.err
    assert "wpa-psk" not in file.read_text()

    class Stdin:
        def readline(self) -> str:
            return "correct horse\n"

        def isatty(self) -> bool:
            return False

    monkeypatch.setattr("sys.stdin", Stdin())
    done = rigops(*words, "--with-wifi-secret")

    assert done.code == 0, done.err
    assert "wpa-psk correct horse" in file.read_text()
    assert "correct horse" not in done.out + done.err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nobody", "--for", "debian"), "nobody: not captured"),
        ((HOST, "--for", "debian", "--disk", "sdb"), "sdb holds backups"),
        ((HOST, "--for", "debian", "--release", "24.04"), "no release 24.04 of debian"),
        ((HOST, "--for", "arch"), "'arch' is not one of"),
        ((HOST, "--for", "debian", "--ssh-key", "inventory.py"), "not a public ssh key"),
        ((HOST, "--for", "debian", "--with-wifi-secret"), "no Wi-Fi"),
        ((HOST, "--for", "debian", "--out", "/proc/none"), "/proc/none: cannot be written"),
    ],
)
def test_a_wrong_choice_writes_nothing(
    rigops: Rigops, tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    key = () if "--ssh-key" in words else ("--ssh-key", "me.pub")
    done = rigops("autoinstall", *words, *key)

    assert done.code == 2
    assert says in done.err
    assert not list(tmp_path.glob("autoinstall-*"))
