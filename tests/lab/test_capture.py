"""Capture of a proven rig with backups: safe to wipe, or not and what is missing, by name."""

from __future__ import annotations

import json
import tarfile
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

import pytest

from rigops.capture.document import parse
from rigops.capture.store import newest
from rigops.vault.store import Store
from tests.lab import witness
from tests.lab.applying import INVENTORY
from tests.lab.driver_rig import ALWAYS_CHANGES, tended
from tests.lab.tree import Tree
from tests.lab.vault_rig import FIRST, VaultRig
from tests.shards import LAB_CAPTURE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.lab.laptop import Said

pytestmark = pytest.mark.shard(LAB_CAPTURE)

NAME: Final = "capture"
MARK: Final = "geheim-71ce20"
REPOSITORY: Final = "/mnt/backup/rig"
STATE: Final = "/var/lib/rigops/borg.json"
PROVEN: Final = "/var/lib/rigops/proven.json"
LAST_CARD: Final = "0000:e1:00.0"
# What borg itself writes when somebody lists: caches, and when it saw which repository.
BORG_WRITES: Final = ("/var/lib/rigops/borg/", "/var/cache/rigops/", "/root/")


class Rig:
    def __init__(self, vault: VaultRig) -> None:
        self.vault = vault
        self.rig = vault.rig
        self.laptop = vault.rig.laptop

    @property
    def secret(self) -> Path:
        """Where the person has the passphrase."""
        return self.laptop.folder / "passphrase"

    @property
    def data(self) -> Path:
        return self.laptop.folder / "data" / "rigops" / "vault"

    def declared(self, **borg: object) -> dict[str, Any]:
        return {
            "driver": FIRST,
            "kernel_args": [],
            "borg": {
                "repository": REPOSITORY,
                "paths": ["/home"],
                "keep": "7d",
                "exclude": ["sh:**/.cache"],
                "passphrase_command": f"cat {self.secret}",
                **borg,
            },
        }

    def capture(self, *words: str) -> Said:
        return self.laptop.rigops("capture", NAME, *words, *INVENTORY)

    def captured(self, code: int, *words: str) -> Mapping[str, Any]:
        said = self.capture("--yes", "--json", *words)
        assert said.code == code, said.out + said.err
        document = said.json()
        (host,) = document["hosts"]
        assert (document["schema"], document["status"]) == ("rigops.capture/1", host["status"])
        assert host["status"] == {0: "safe", 1: "not safe", 3: "unknown"}[code]
        return dict(host)

    def missing(self, *words: str) -> dict[str, str]:
        """What is in the way of a wipe, by its id; nothing else may be."""
        return named(self.captured(1, *words), "fail")

    @contextmanager
    def changed(self, path: str, **changes: object) -> Iterator[None]:
        """A record on the host with these fields, for a while."""
        before = self.rig.does(f"cat {path}")
        after = json.dumps({**json.loads(before), **changes})
        self._write(path, after)
        try:
            yield
        finally:
            self._write(path, f"{before}\n")

    def _write(self, path: str, text: str) -> None:
        assert self.rig.host.run(f"cat >{path}", given=text).returncode == 0


def named(host: Mapping[str, Any], status: str) -> dict[str, str]:
    found = [one for one in host["requirements"] if one["status"] == status]
    for one in found:
        assert one["summary"]
        assert one["fix"], one
    return {one["id"]: one["summary"] for one in found}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tended(tmp_path_factory, f"epyc-8x4090={NAME}", f"driver={FIRST}") as booted:
        rig = Rig(VaultRig(booted))
        rig.secret.write_text(f"{MARK}\n")
        booted.does(
            "set -e; mkdir -p /mnt/backup /data; mount /dev/sda /mnt/backup; mount /dev/sdb /data; "
            "mkdir -p /home/rig/.ssh; head -c 300000 /dev/urandom >/home/rig/thesis"
        )
        witness.watch_host(booted.host)
        yield rig


def test_a_host_that_was_never_applied_is_not_safe_and_every_gap_is_named(rig: Rig) -> None:
    rig.rig.declare(**rig.declared())

    missing = rig.missing()

    assert set(missing) >= {"apply", "proof", "lock", "vault", "borg.key", "borg.newest"}
    assert rig.vault.rig.there("/var/lib/rigops") == []


def test_after_apply_backup_and_drill_it_is_safe(rig: Rig) -> None:
    rig.vault.applied(**rig.declared())
    for words in ((), ("--drill",)):
        said = rig.laptop.rigops("backup", NAME, *words, *INVENTORY)
        assert said.code == 0, said.out + said.err

    host = rig.captured(0)

    assert named(host, "unknown") == {}
    ids = {one["id"] for one in host["requirements"] if one["status"] == "ok"}
    assert ids == {
        "apply", "proof", "gpus", "lock", "vault", "borg.key", "borg.passphrase", "borg.newest",
        "borg.verified", "backup.disk",
    }  # fmt: skip
    others = {one["subject"] for one in host["requirements"] if one["id"] == "coverage"}
    assert "/data" in others


def test_the_document_is_what_a_reinstall_needs(rig: Rig) -> None:
    host = rig.captured(0)

    (locked,) = rig.vault.locked["packages"]
    digests = {one["name"]: one["sha256"] for one in locked["packages"]}
    packages = host["driver"]["packages"]
    assert {one["name"]: one["sha256"] for one in packages} == digests
    assert all(one["is_in_vault"] for one in packages)
    assert {one["uuid"] for one in host["gpus"]} == {
        one["uuid"] for one in rig.vault.locked["gpus"]
    }
    assert {one["link_width"] for one in host["gpus"]} == {16}
    assert {one["verdict"] for one in host["p2p"]["pairs"]} == {"not_granted"}
    assert host["system"]["os_codename"] == "bookworm"
    assert host["system"]["machine_id"] == rig.rig.does("cat /etc/machine-id")
    assert host["host_keys"] == [
        {
            "type": "ssh-ed25519",
            "fingerprint": rig.rig.does(
                "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub | cut -d ' ' -f 2"
            ),
            "path": None,
        }
    ]
    people = {one["name"]: one for one in host["users"]}
    assert people["rig"]["home"] == "/home/rig"
    assert (
        people["root"]["authorized_keys"]
        == rig.rig.does("cat /root/.ssh/authorized_keys").splitlines()
    )
    assert sorted(host["packages"]) == sorted(rig.rig.does("apt-mark showmanual").splitlines())
    (net,) = (one for one in host["network"]["interfaces"] if one["addresses"])
    assert net["mac"] in rig.rig.does(f"ip -o link show {net['name']}")
    assert net["gateways"][0] == rig.rig.does("ip route show default | cut -d ' ' -f 3")
    assert host["borg"]["version"] == rig.rig.does("borg --version | cut -d ' ' -f 2")
    (backup,) = host["backups"]
    assert backup["newest_at"] <= backup["verified_at"]


FILES: Final = ("capture.json", "bundle.tar.gz")


def test_it_is_stored_for_this_person_alone_and_read_back(rig: Rig) -> None:
    host = rig.captured(0)

    place = rig.data / "captures" / NAME
    assert place.stat().st_mode & 0o777 == 0o700
    stored = newest(Store(rig.data), NAME)
    assert stored is not None
    assert stored.place == host["place"]
    document, bundle = (rig.data.parent / host["place"] / one for one in FILES)
    assert {one.stat().st_mode & 0o777 for one in (document, bundle)} == {0o600}
    assert parse(document.read_text(), place="x").as_json() == host
    said = rig.laptop.rigops("doctor", "--json", "--from", str(bundle))
    assert said.seen(NAME).host["source"] == "bundle"
    assert not [one for one in place.iterdir() if one.name.startswith(".")]


def test_the_host_stays_as_it_is_and_the_passphrase_is_nowhere(rig: Rig) -> None:
    tree = Tree(rig.rig.host)

    said = rig.capture("--yes", "-v")

    assert said.code == 0, said.out + said.err
    ignored = (*ALWAYS_CHANGES, *BORG_WRITES)
    found = {one for one in tree.differences(Tree(rig.rig.host)) if not one.startswith(ignored)}
    assert found == set()
    assert MARK not in said.out + said.err
    assert MARK not in "\n".join(map(str, witness.on_host(rig.rig.host)))
    for path in rig.laptop.folder.rglob("*"):
        if path.is_file() and path != rig.secret:
            assert MARK.encode() not in path.read_bytes(), path
    for path in rig.data.rglob("bundle.tar.gz"):
        with tarfile.open(path) as archive:
            for one in archive.getmembers():
                member = archive.extractfile(one)
                assert member is None or MARK.encode() not in member.read()


def test_what_a_person_reads_is_short_and_says_what_is_missing_and_the_fix(rig: Rig) -> None:
    safe = rig.capture("--yes")
    rig.secret.write_text("wrong\n")
    not_safe = rig.capture("--yes")
    rig.secret.write_text(f"{MARK}\n")

    assert safe.out.startswith(f"{NAME}  SAFE TO WIPE  Debian 12, driver {FIRST}, 8 GPUs\n")
    assert not_safe.out.startswith(f"{NAME}  NOT SAFE TO WIPE  ")
    assert "  fail    borg.passphrase " in not_safe.out
    assert "fix: let passphrase_command print the passphrase of this repository" in not_safe.out


def test_a_snippet_is_printed_and_nothing_else_is_done(rig: Rig) -> None:
    before = sorted(one.name for one in (rig.data / "captures" / NAME).iterdir())

    said = rig.capture("--snippet", "nixos")

    assert said.code == 0, said.out + said.err
    assert f'version = "{FIRST}";' in said.out
    assert sorted(one.name for one in (rig.data / "captures" / NAME).iterdir()) == before


def test_without_consent_the_passphrase_is_not_tried_and_nothing_is_called_safe(rig: Rig) -> None:
    said = rig.capture("--json")

    assert said.code == 3, said.out + said.err
    (host,) = said.json()["hosts"]
    assert named(host, "unknown") == {
        "borg.passphrase": "the passphrase was not tried: it was not confirmed"
    }


def test_an_inventory_that_was_changed_after_the_last_apply(rig: Rig) -> None:
    declared = rig.declared(paths=["/home", "/root"])
    rig.rig.declare(**declared)

    missing = rig.missing()

    rig.rig.declare(**rig.declared())
    assert list(missing) == ["apply"]
    assert "the inventory was changed since the last apply" in missing["apply"]


def test_a_key_that_is_not_exported(rig: Rig) -> None:
    (key,) = (rig.data / "borg").glob("*.key")
    aside = key.rename(rig.laptop.folder / "aside.key")

    missing = rig.missing()

    aside.rename(key)
    assert list(missing) == ["borg.key"]
    assert f"is not exported to {rig.data}" in missing["borg.key"]


def test_a_key_that_was_exported_before_the_passphrase_was_changed(rig: Rig) -> None:
    (key,) = (rig.data / "borg").glob("*.key")
    before = key.read_text()
    lines = before.splitlines()
    key.write_text("\n".join([lines[0], lines[1][::-1], *lines[2:]]) + "\n")

    missing = rig.missing()

    key.write_text(before)
    assert list(missing) == ["borg.key"]
    assert "another key than the repository has now" in missing["borg.key"]


def test_a_passphrase_that_this_machine_does_not_know(rig: Rig) -> None:
    rig.secret.write_text("wrong\n")
    wrong = rig.missing()
    rig.secret.unlink()
    absent = rig.missing()
    rig.secret.write_text(f"{MARK}\n")

    assert list(wrong) == list(absent) == ["borg.passphrase"]
    assert "does not open it" in wrong["borg.passphrase"]
    assert "passphrase_command ended with 1" in absent["borg.passphrase"]


def test_a_last_verified_backup_that_is_old(rig: Rig) -> None:
    old = (datetime.now(timezone.utc) - timedelta(days=10)).strftime("%Y-%m-%dT%H:%M:%SZ")
    outcome = {"at": old, "result": "ok"}

    with rig.changed(STATE, last_check=outcome, last_drill=outcome):
        verified = rig.missing()
        longer = rig.captured(0, "--max-age", "30")
    with rig.changed(STATE, newest_at=old):
        made = rig.missing()
    with rig.changed(STATE, last_drill={"at": old, "result": "failed", "error": "2 differ"}):
        failed = rig.missing()
    with rig.changed(STATE, last_check=None, last_drill=None):
        never = rig.missing()

    assert list(verified) == list(failed) == list(never) == ["borg.verified"]
    assert "is 10 days old, the most is 2 days" in verified["borg.verified"]
    assert longer["status"] == "safe"
    assert "2 differ" in failed["borg.verified"]
    assert made == {"borg.newest": "the newest backup is 10 days old, the most is 2 days"}


def test_a_vault_that_lacks_a_package_or_has_another_content(rig: Rig) -> None:
    package = rig.vault.package("libcuda1", FIRST)
    place = rig.vault.stored(package["sha256"])
    content = place.read_bytes()
    place.unlink()
    lacking = rig.missing()
    place.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    damaged = rig.missing()
    place.write_bytes(content)

    assert list(lacking) == list(damaged) == ["vault"]
    assert f"1 missing (libcuda1 {package['version']})" in lacking["vault"]
    assert f"1 damaged (libcuda1 {package['version']})" in damaged["vault"]


def test_a_card_that_is_missing_from_the_last_proof(rig: Rig) -> None:
    proven = json.loads(rig.rig.does(f"cat {PROVEN}"))
    others = [one for one in proven["gpus"] if one["address"] != LAST_CARD]

    with rig.changed(PROVEN, gpus=others):
        host = rig.captured(1)

    missing = named(host, "fail")
    assert set(missing) == {"proof", "gpus"}
    (subject,) = (one["subject"] for one in host["requirements"] if one["id"] == "gpus")
    assert subject == f"gpu {LAST_CARD}"
    assert "is missing from the last proof" in missing["gpus"]


def test_a_disk_that_is_not_mounted_is_unknown_and_never_safe(rig: Rig) -> None:
    rig.rig.does("umount /mnt/backup")

    host = rig.captured(3)

    rig.rig.does("mount /dev/sda /mnt/backup")
    assert set(named(host, "unknown")) == {"borg.passphrase", "backup.disk"}


def test_a_host_that_is_not_reached_is_unknown(rig: Rig) -> None:
    rig.rig.host.set("cut=3000")
    said = rig.capture("--yes", "--json")
    rig.rig.host.set("cut=")

    assert said.code == 3, said.out + said.err
    (host,) = said.json()["hosts"]
    assert (host["status"], bool(host["error"]["message"])) == ("unknown", True)


def test_a_host_outside_of_the_inventory_is_a_mistake(rig: Rig) -> None:
    said = rig.laptop.rigops("capture", "somebody-else", *INVENTORY)

    assert said.code == 2
    assert "not in the inventory" in said.err


def test_backups_on_the_disk_that_is_to_be_wiped(rig: Rig) -> None:
    inside = "/srv/backup/rig"
    rig.rig.does("mkdir -p /srv/backup")
    rig.vault.applied(**rig.declared(repository=inside))

    missing = rig.missing()

    assert set(missing) == {"backup.disk", "borg.newest", "borg.verified"}  # it is new and empty
    assert missing["backup.disk"] == (
        f"{inside} is on the file system of the root: a wipe takes it too"
    )


def test_a_card_of_the_last_proof_that_is_gone(rig: Rig) -> None:
    """The last test: the card stays away until the next boot."""
    rig.rig.host.set(f"lost={LAST_CARD}")

    host = rig.captured(1)

    missing = named(host, "fail")
    assert "was in the last proof and is missing" in missing["gpus"]
    assert f"gpu {LAST_CARD}" in {one["subject"] for one in host["requirements"]}
