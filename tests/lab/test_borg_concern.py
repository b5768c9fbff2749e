"""The borg concern on a booted host with real borg: its files, its secrets, and their end."""

from __future__ import annotations

import json
import re
import tarfile
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from rigops.concerns.registry import keys
from rigops.inventory import load
from tests.first_hour import laptop as laptop_of
from tests.lab import hosts, witness
from tests.lab.applying import INVENTORY, QUIETLY, only
from tests.lab.borg_host import own_disk
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.shards import LAB_CONCERNS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.shard(LAB_CONCERNS)

NAME: Final = "borg-concern"
MARK: Final = "geheim-4c1d77"
# A digest of a weak passphrase is as good as the passphrase.
GUESSABLE: Final = (MARK, *(sha256(one.encode()).hexdigest() for one in (MARK, f"{MARK}\n")))
PROGRAM: Final = "/usr/local/libexec/rigops/borg"
SETTINGS: Final = "/etc/rigops/borg.json"
CREDENTIAL: Final = "/etc/rigops/borg_passphrase.cred"
PLAIN: Final = "/etc/rigops/borg_passphrase"
KEY: Final = "/etc/rigops/borg_key"
NOTE: Final = "/var/lib/rigops/borg_key.json"
UNITS: Final = "/etc/systemd/system"
TIMERS: Final = ("rigops-borg.timer", "rigops-borg-drill.timer")
FILES: Final = (
    PROGRAM,
    SETTINGS,
    *(f"{UNITS}/{one}" for one in TIMERS),
    *(f"{UNITS}/{one.replace('timer', 'service')}" for one in TIMERS),
)
REPOSITORY: Final = "/mnt/backup/rig"
# Everywhere on the host where the text may be that comes by stdin: so no argument has it.
SEARCH: Final = """
umask 077
cat >/run/mark
grep -rl -D skip --exclude-dir=proc --exclude-dir=sys --exclude=mark -F -f /run/mark / 2>/dev/null
! journalctl -q --no-pager -o export | grep -a -q -F -f /run/mark || echo journal
for process in /proc/[0-9]*; do
    for file in cmdline environ; do
        ! tr '\\0' '\\n' <$process/$file 2>/dev/null | grep -q -F -f /run/mark ||
            echo "$(cat $process/comm): $file"
    done
done
rm /run/mark
"""


class Rig(Tended):
    @property
    def store(self) -> Path:
        """Where the person has the passphrase."""
        return self.laptop.folder / "passphrase"

    @property
    def declared(self) -> dict[str, Any]:
        return {
            "borg": {
                "repository": REPOSITORY,
                "paths": ["/etc", "/root"],
                "keep": "7d 4w",
                "exclude": ["sh:**/.cache"],
                "passphrase_command": f"date >>{self.laptop.folder}/asked; cat {self.store}",
            }
        }

    def remote(self) -> dict[str, Any]:
        """On a server that is the host itself."""
        address = self.does("sshd -T | sed -n 's/^listenaddress //p' | head -n 1")
        return {
            "borg": {**self.declared["borg"], "repository": f"ssh://me@{address}/srv/backups/rig"}
        }

    def asked(self) -> int:
        """How often the passphrase was asked for."""
        trace = self.laptop.folder / "asked"
        return len(trace.read_text().splitlines()) if trace.exists() else 0

    def places_of_the_passphrase(self) -> set[str]:
        done = self.host.run(SEARCH, given=MARK, timeout=120)
        assert done.returncode == 0, done.stderr
        return set(done.stdout.splitlines())

    def bundle(self) -> str:
        """All that doctor saves of the host, unredacted."""
        path = self.laptop.folder / "bundle.tar.gz"
        path.unlink(missing_ok=True)
        self.laptop.rigops("doctor", "--raw", "--save", str(path), "--json", *INVENTORY)
        with tarfile.open(path) as archive:
            files = [archive.extractfile(one) for one in archive.getmembers() if one.isfile()]
            text = b"".join(file.read() for file in files if file).decode(errors="replace")
        path.unlink()
        assert "rigops.owned" in text
        return text

    def vault(self) -> list[Path]:
        return sorted((self.laptop.folder / "data/rigops/vault/borg").glob("*"))


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with hosts.running([f"epyc-8x4090={NAME}"]) as (host,):
        rig = Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)
        rig.store.write_text(f"{MARK}\n")
        for folder in ("/mnt/backup", "/srv/backups"):
            rig.does(own_disk(folder))
        witness.watch_host(host)
        yield rig


def test_the_plan_shows_all_of_it_and_asks_for_no_passphrase(rig: Rig) -> None:
    host = rig.plan(**rig.declared)

    subjects = {one["subject"] for one in host["changes"]}
    secrets = {CREDENTIAL, f"repository {REPOSITORY}", f"key of {REPOSITORY}"}
    assert subjects == {*FILES, *secrets}
    assert MARK not in json.dumps(host)
    assert rig.asked() == 0
    assert rig.host.run(f"ls {' '.join(FILES)} {CREDENTIAL}").stdout == ""


def test_what_is_in_the_way_blocks_with_the_fix(rig: Rig) -> None:
    inside = {**rig.declared["borg"], "repository": "/etc/backup"}
    reasons = [one["reason"] for one in rig.plan(1, borg=inside)["blocked"]]
    assert [one for one in reasons if "lies in /etc, which is backed up into it" in one]

    rig.does("mv /usr/bin/borg /usr/bin/borg.away")
    reasons = [one["reason"] for one in rig.plan(1, **rig.declared)["blocked"]]
    rig.does("mv /usr/bin/borg.away /usr/bin/borg")
    assert reasons == ["borg is not installed. fix: sudo apt install borgbackup"]


def test_without_the_passphrase_apply_says_why_without_showing_it_and_installs_nothing(
    rig: Rig,
) -> None:
    command = f"cat {rig.store} | tee /dev/stderr; echo locked: $(cat {rig.store}) >&2; exit 7"
    rig.declare(borg={**rig.declared["borg"], "passphrase_command": command})
    said = rig.laptop.rigops("apply", *QUIETLY)

    assert said.code == 1
    assert "passphrase_command ended with 7: locked: ***" in said.out + said.err
    assert MARK not in said.out + said.err
    assert rig.host.run(f"ls {' '.join(FILES)} {CREDENTIAL} {REPOSITORY}").stdout == ""


@pytest.mark.story
def test_it_is_brought_about_with_one_question_and_a_second_apply_changes_nothing(rig: Rig) -> None:
    assert rig.apply(**rig.declared)["outcome"] == "changed"

    assert rig.asked() == 1
    assert rig.does(f"stat -c '%a %U' {CREDENTIAL} {SETTINGS}") == "600 root\n600 root"
    assert rig.host.run(f"ls {PLAIN}").stdout == ""
    for timer in TIMERS:
        assert rig.does(f"systemctl is-active {timer} && systemctl is-enabled {timer}")
        service = timer.replace("timer", "service")
        assert rig.host.run(f"systemd-analyze verify {UNITS}/{service}").stderr == ""
    host = rig.apply(**rig.declared)
    assert (host["outcome"], host["changes"]) == ("converged", [])
    assert rig.asked() == 1


def test_init_of_an_applied_host_loses_no_backup_and_names_what_to_fill_in(
    rig: Rig, tmp_path: Path
) -> None:
    other = laptop_of(tmp_path)

    said = other.rigops("init", "--host", NAME)

    assert said.code == 0, said.err
    assert 'fill in "passphrase_command" of "borg"' in said.err
    (host,) = load(tmp_path / "inventory.py", keys()).hosts
    known = {key: one for key, one in rig.declared["borg"].items() if "command" not in key}
    assert host.data["borg"] == known
    plan = only(other.rigops("plan", "--json"))
    assert (plan["changes"], plan["undeclared"]) == ([], [])
    assert "passphrase_command is not declared" in plan["blocked"][0]["reason"]


@pytest.mark.story
def test_the_repository_is_encrypted_with_it_and_its_key_is_in_the_vault(rig: Rig) -> None:
    (key,) = rig.vault()
    known = json.loads(rig.does("cat /var/lib/rigops/borg.json"))["repository"]["id"]
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.read_text().startswith(f"BORG_KEY {known}\n")
    assert json.loads(rig.does(f"cat {NOTE}"))["repository"] == known
    asked = rig.host.run(
        f"read -r BORG_PASSPHRASE; export BORG_PASSPHRASE; borg info --json {REPOSITORY}",
        given=f"{MARK}\n",
    )
    info = json.loads(asked.stdout)
    assert info["encryption"]["mode"] == "repokey-blake2"
    assert rig.host.run(f"BORG_PASSPHRASE=wrong borg info {REPOSITORY}").returncode != 0


def test_the_passphrase_is_nowhere_on_either_side(rig: Rig) -> None:
    rig.host.run("cat >/root/planted", given=MARK)
    rig.does(f"rm -f {CREDENTIAL}")
    assert "/root/planted" in rig.places_of_the_passphrase()  # the search finds
    rig.does("rm /root/planted")
    rig.declare(**rig.declared)
    said = rig.laptop.rigops("apply", "-v", *QUIETLY)
    assert said.code == 0, said.out + said.err
    doctor = rig.laptop.rigops("doctor", "--json", *INVENTORY)
    for one in (said, doctor):
        assert MARK not in one.out + one.err
    assert rig.places_of_the_passphrase() == set()
    assert not [secret for secret in GUESSABLE if secret in rig.bundle()]
    assert MARK not in "\n".join(map(str, witness.on_host(rig.host)))
    for path in rig.laptop.folder.rglob("*"):
        if path.is_file() and path != rig.store:
            assert MARK.encode() not in path.read_bytes(), path
    assert "borg_passphrase" not in rig.does("cat /var/lib/rigops/owned.json")


def test_a_backup_runs_with_the_credential_and_is_listed(rig: Rig) -> None:
    rig.declare(**rig.declared)
    backup = rig.laptop.rigops("backup", NAME, "--json", *INVENTORY)
    assert backup.code == 0, backup.out + backup.err
    (created,) = backup.json()["hosts"][0]["backup"]["created"]

    listed = rig.laptop.rigops("snapshots", NAME, *INVENTORY)

    assert listed.code == 0, listed.out + listed.err
    assert "/etc  1 snapshot, newest" in listed.out
    document = rig.laptop.rigops("snapshots", NAME, "--json", *INVENTORY).json()["hosts"][0]
    rows = {one["path"]: one["snapshots"] for one in document["subvolumes"]}
    assert set(rows) == {"/etc", "/root"}
    assert [one["name"] for one in rows["/etc"]] == [created["name"]]
    only = rig.laptop.rigops("snapshots", NAME, "--engine", "btrfs", "--json", *INVENTORY).json()
    assert only["hosts"][0]["subvolumes"] == []
    assert MARK not in backup.out + backup.err + listed.out


def test_no_program_that_runs_meanwhile_has_the_passphrase(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = rig.laptop.folder / "witness"
    for name, value in witness.watched(log).items():
        monkeypatch.setenv(name, value)
    rig.does(
        f"rm -f {CREDENTIAL} /run/over; (while [ ! -e /run/over ]; do"
        " cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ; sleep 0.02; done"
        " >/run/samples 2>/dev/null </dev/null) >/dev/null 2>&1 &"
    )
    rig.declare(**rig.declared)
    applied = rig.laptop.rigops("apply", "-v", *QUIETLY)
    backup = rig.laptop.rigops("backup", "-v", NAME, *INVENTORY)
    rig.does("touch /run/over; sleep 0.2")

    assert (applied.code, backup.code) == (0, 0), applied.err + backup.err
    assert rig.does("grep -a -c BORG_PASSPHRASE_FD /run/samples") != "0"  # borg was seen
    assert rig.host.run("grep -a -q -F -f - /run/samples", given=MARK).returncode == 1
    assert any("apply" in words for words in witness.read(log))
    assert MARK.encode() not in log.read_bytes()
    assert MARK not in applied.out + applied.err + backup.out + backup.err


def test_after_a_backup_the_key_is_in_the_vault_of_this_machine_too(rig: Rig) -> None:
    (key,) = rig.vault()
    text = key.read_text()
    key.unlink()
    done = rig.laptop.rigops("backup", NAME, "--json", *INVENTORY)

    assert done.code == 0, done.out + done.err
    assert done.json()["hosts"][0]["backup"]["key"] == str(key)
    assert key.read_text() == text


def test_a_credential_that_cannot_be_decrypted_is_written_anew(rig: Rig) -> None:
    rig.does("rm /var/lib/systemd/credential.secret")

    assert {one["subject"] for one in rig.plan(**rig.declared)["changes"]} == {CREDENTIAL}
    assert rig.apply(**rig.declared)["outcome"] == "changed"
    assert rig.apply(**rig.declared)["outcome"] == "converged"


def test_a_lost_vault_gets_the_key_again(rig: Rig) -> None:
    (key,) = rig.vault()
    text = key.read_text()
    key.unlink()

    subjects = {one["subject"] for one in rig.plan(**rig.declared)["changes"]}
    assert subjects == {f"key of {REPOSITORY}"}
    assert rig.apply(**rig.declared)["outcome"] == "changed"
    assert key.read_text() == text


def test_for_a_server_the_host_makes_a_key_and_says_what_lets_it_in(rig: Rig) -> None:
    host = rig.apply(**rig.remote())

    assert rig.does(f"stat -c '%a %U' {KEY}") == "600 root"
    public = rig.does(f"cat {KEY}.pub")
    (step,) = [one for one in host["story"] if one.startswith("repository: ")]
    serve = "borg serve --restrict-to-repository /srv/backups/rig"
    line = f'restrict,command="{serve}" {public}'
    assert step.endswith(f", append this line to ~/.ssh/authorized_keys: {line}")
    assert line in rig.laptop.rigops("backup", NAME, *INVENTORY).out.splitlines()
    assert rig.apply(**rig.remote())["outcome"] == "converged"
    assert "could not be used: " in " ".join(rig.plan(**rig.remote())["notices"])
    assert rig.finding("rigops.records", **rig.remote())["status"] == "ok"


def test_a_key_that_is_not_recorded_is_not_to_be_deleted_and_apply_records_it(rig: Rig) -> None:
    key, record = rig.does(f"cat {KEY}"), "/var/lib/rigops/owned.json"
    text = json.loads(rig.does(f"cat {record}"))
    text["files"] = [one for one in text["files"] if one["path"] != KEY]
    rig.host.run(f"cat >{record}", given=f"{json.dumps(text, indent=2)}\n")

    found = rig.finding("rigops.records", **rig.remote())
    assert (found["status"], found["subject"]) == ("warn", KEY)
    assert "do not delete it" in found["remedy"]["text"]

    host = rig.apply(**rig.remote())

    assert [one["subject"] for one in host["changes"]] == [KEY]
    assert rig.does(f"cat {KEY}") == key
    assert rig.finding("rigops.records", **rig.remote())["status"] == "ok"
    assert rig.apply(**rig.remote())["outcome"] == "converged"


def test_once_it_is_let_in_a_backup_makes_the_repository_and_exports_its_key(rig: Rig) -> None:
    serve = "borg serve --restrict-to-repository /srv/backups/rig"
    rig.does(
        "useradd -m me && mkdir -p /home/me/.ssh && "
        f"echo 'restrict,command=\"{serve}\" '$(cat {KEY}.pub) >/home/me/.ssh/authorized_keys"
    )
    before = len(rig.vault())
    refused = rig.laptop.rigops("backup", NAME, "--json", *INVENTORY).json()["hosts"][0]["error"]
    assert "Permission denied: '/srv/backups/rig'" in refused["message"]
    (command,) = re.findall("`(install .*?)`", refused["cure"])
    assert command in rig.finding("borg.repository", **rig.remote())["remedy"]["text"]
    assert command in " ".join(rig.plan(**rig.remote())["notices"])
    rig.does(command)
    done = rig.laptop.rigops("backup", NAME, "--json", *INVENTORY)

    assert done.code == 0, done.out + done.err
    assert len(rig.vault()) == before + 1
    pinned = rig.does("cat /etc/rigops/borg_known_hosts")
    assert len(pinned.splitlines()) > 0
    assert rig.apply(**rig.remote())["outcome"] == "converged"


def test_undeclared_its_files_and_secrets_go_and_the_repository_stays(rig: Rig) -> None:
    rig.apply(**rig.declared)
    host = rig.apply(1)
    assert [one["concern"] for one in host["withheld"]] == ["borg"]

    host = rig.apply(0, "--prune")

    assert f"the repository {REPOSITORY} stays as it is" in " ".join(host["notices"])
    left = rig.host.run(f"ls -d {' '.join(FILES)} {CREDENTIAL} {KEY}* {NOTE} /etc/rigops").stdout
    assert left == ""
    assert rig.host.run("ls /var/lib/systemd/timers | grep rigops").stdout == ""
    assert rig.does(f"ls {REPOSITORY}/config")
    assert len(rig.vault()) == 2
    assert rig.apply()["outcome"] == "converged"


def test_before_systemd_250_the_passphrase_is_a_file_of_root_alone_and_it_is_said(rig: Rig) -> None:
    rig.does("mv /usr/bin/systemd-creds /usr/bin/systemd-creds.away")
    host = rig.apply(**rig.declared)

    assert f"the passphrase lies in {PLAIN}, unencrypted" in " ".join(host["notices"])
    assert rig.does(f"stat -c '%a %U' {PLAIN}") == "400 root"
    assert rig.host.run(f"ls {CREDENTIAL}").stdout == ""
    assert f"LoadCredential=passphrase:{PLAIN}" in rig.does(f"cat {UNITS}/rigops-borg.service")
    assert rig.places_of_the_passphrase() == {PLAIN}
    assert not [secret for secret in GUESSABLE if secret in rig.bundle()]
    assert rig.apply(**rig.declared)["outcome"] == "converged"
    rig.does("mv /usr/bin/systemd-creds.away /usr/bin/systemd-creds")
    assert rig.apply(**rig.declared)["outcome"] == "changed"
    assert rig.host.run(f"ls {PLAIN}").stdout == ""


def test_the_same_deploy_runs_under_plain_pyinfra_and_a_release_undoes_it(rig: Rig) -> None:
    rig.does(f"rm -f {CREDENTIAL}")
    rig.declare(**rig.declared)
    rig.pyinfra_twice("borg.py")
    assert rig.does(f"stat -c '%a %U' {CREDENTIAL}") == "600 root"

    said = rig.laptop.rigops("release", NAME, "--yes", "--json", *INVENTORY)

    assert said.code == 0, said.out + said.err
    assert rig.host.run(f"ls -d {' '.join(FILES)} {CREDENTIAL} /etc/rigops").stdout == ""


def test_an_unmanaged_backup_is_watched_and_left_alone(rig: Rig) -> None:
    watched: dict[str, Any] = {
        "borg": {"managed": False, "unit": "backup.service", "newest": "date +%s"}
    }
    assert rig.apply(**watched)["outcome"] == "changed"

    assert rig.does("stat -c '%a %U' /etc/rigops/borg_watched") == "600 root"
    for words in (["backup", NAME], ["snapshots", NAME], ["restore", NAME, "/root/thesis"]):
        said = rig.laptop.rigops(*words, *INVENTORY)
        assert said.code == 1
        assert "backups are made by backup.service; rigops only watches their age" in said.out
    assert rig.apply(**watched)["outcome"] == "converged"
    assert rig.apply(0, "--prune")["outcome"] == "changed"
    assert rig.host.run("ls -d /etc/rigops").stdout == ""
