"""What a person answers to a backup that stops, and what hears of it without one: by rigops."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab import hosts
from tests.lab.applying import INVENTORY, QUIETLY
from tests.lab.borg_14 import install_14, use_14
from tests.lab.borg_host import WRAPPER, BorgHost
from tests.lab.laptop import Laptop
from tests.lab.listening import Listening, listening
from tests.lab.tended import Tended
from tests.shards import LAB_BORG

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.lab.laptop import Said

pytestmark = pytest.mark.shard(LAB_BORG)

NAME: Final = "borg-consents"
HOME: Final = "/data/home"
REPOSITORY: Final = "/mnt/backup/rig"
CREDENTIAL: Final = "/etc/rigops/borg_passphrase.cred"
STATE: Final = "/var/lib/rigops/borg.json"
FIRST, SECOND, WRONG = "first-of-the-lab", "second-of-the-lab", "wrong-of-the-lab"
RENAMED: Final = f"{NAME}-20261101T060000Z"
UNITS: Final = ("rigops-borg", "rigops-borg-drill")
CURE: Final = ("rm -f /etc/rigops/borg_passphrase", "rigops apply --only borg")
# A disk of its own, with room for what borg reserves, whatever the machine has.
DISK: Final = (
    "mkdir -p /run/disk /mnt/backup && mount -t tmpfs -o size=2g,mode=755 disk /run/disk && "
    "mount --bind /run/disk /mnt/backup"
)
CONNECT: Final = "mount --bind /run/disk /mnt/backup"
PATIENCE_S: Final = 120


@dataclass(frozen=True)
class Rig(Tended):
    server: Listening = field(default_factory=Listening)

    def declared(self, **more: object) -> dict[str, Any]:
        borg = {"repository": REPOSITORY, "paths": [HOME], "keep": "7d", "exclude": ["sh:**/x"]}
        return {"borg": {**borg, "passphrase_command": f"cat {self.laptop.folder}/word", **more}}

    def remember(self, passphrase: str) -> None:
        (self.laptop.folder / "word").write_text(f"{passphrase}\n")

    def backup(self, *words: str, code: int = 0) -> Said:
        said = self.laptop.rigops("backup", NAME, *words, *INVENTORY)
        assert said.code == code, said.out + said.err
        return said

    def answer(self, *words: str, code: int = 0) -> Mapping[str, Any]:
        (host,) = self.backup(*words, "--json", code=code).json()["hosts"]
        assert host["status"] == ("fail" if code else host["status"])
        return dict(host)

    def error(self, *words: str) -> Mapping[str, str]:
        """Of a backup that has failed."""
        host = self.answer(*words, code=1)
        if host["error"]:
            return {"message": host["error"]["message"], "fix": host["error"]["cure"]}
        found: Mapping[str, str] = host["backup"]["errors"][0]
        return found

    def borg(self, *words: str) -> str:
        """By hand, as a person would."""
        done = self.host.run(
            "read -r BORG_PASSPHRASE; export BORG_PASSPHRASE BORG_CONFIG_DIR=/var/lib/rigops/borg"
            f" BORG_CACHE_DIR=/var/cache/rigops/borg; /usr/bin/borg {' '.join(words)}",
            given=(self.laptop.folder / "word").read_text(),
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def archives(self) -> list[str]:
        return self.borg("list", "--short", REPOSITORY).split()

    def starts(self, unit: str) -> bool:
        return self.host.run(f"systemctl start {unit}.service", timeout=120).returncode == 0

    def posted(self, count: int) -> list[tuple[str, str]]:
        """Path, and title or else text, of so many posts of something that runs beside."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self.server.posts) < count:
            assert time.monotonic() < deadline, self.server.posts
            time.sleep(0.1)
        return [
            (one.path, one.title if "Title" in one.headers else one.body.decode())
            for one in self.server.posts
        ]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with listening() as server, hosts.running([f"epyc-8x4090={NAME}"]) as (host,):
        rig = Rig(Laptop(tmp_path_factory.mktemp("laptop")), host, server)
        rig.remember(FIRST)
        rig.does(f"{DISK}; mkdir -p {HOME} && echo one >{HOME}/thesis")
        rig.apply(**rig.declared())
        rig.backup()
        yield rig


def test_archives_that_are_gone_stop_a_backup_until_a_person_accepts_it(rig: Rig) -> None:
    (first,) = rig.archives()
    rig.backup()
    rig.borg("delete", f"{REPOSITORY}::{first}")

    for _ in range(2):
        stopped = rig.answer(code=1)["backup"]
        assert f"1 archives are gone that retention keeps ({first})" in str(stopped["errors"])
        assert "rigops backup HOST --accept-lost" in stopped["errors"][0]["fix"]
        assert (len(stopped["created"]), stopped["pruned"]) == (1, [])
    said = rig.backup(code=1)
    assert "nothing is pruned or compacted" in " ".join(said.out.split())
    assert not rig.starts("rigops-borg")

    accepted = rig.answer("--accept-lost")
    assert (accepted["status"], accepted["error"]) == ("ok", None)
    assert "errors" not in accepted["backup"]
    assert rig.answer()["status"] == "ok"
    assert rig.starts("rigops-borg")


def test_a_repository_at_a_new_place_is_used_once_a_person_says_that_it_has_moved(
    rig: Rig,
) -> None:
    before = rig.archives()
    rig.does(f"mv {REPOSITORY} /mnt/backup/new")

    rig.declare(**rig.declared(repository="/mnt/backup/new"))
    said = rig.laptop.rigops("apply", *QUIETLY)
    assert said.code == 1
    assert "rigops backup HOST --moved" in " ".join((said.out + said.err).split())
    error = rig.error()
    assert error["message"] == "/mnt/backup/new: the repository was at another place before"
    assert "rigops backup HOST --moved" in error["fix"]
    text = rig.backup(code=1).out
    assert "at another place before" in " ".join(text.split())

    assert rig.answer("--moved")["status"] == "ok"
    assert rig.answer()["status"] == "ok"
    rig.apply(**rig.declared(repository="/mnt/backup/new"))
    rig.does(f"mv /mnt/backup/new {REPOSITORY}")
    rig.declare(**rig.declared())
    assert rig.laptop.rigops("apply", *QUIETLY).code == 1
    rig.answer("--moved")
    assert rig.apply(**rig.declared())["outcome"] in {"changed", "converged"}
    assert rig.answer()["status"] == "ok"
    assert before[0] in rig.archives()


def test_consents_that_nothing_waits_for_change_nothing(rig: Rig) -> None:
    assert rig.answer("--moved", "--accept-lost")["status"] == "ok"


def test_the_timer_takes_an_absent_disk_for_normal_and_a_person_is_told(rig: Rig) -> None:
    rig.does("umount /mnt/backup")

    assert [rig.starts(unit) for unit in UNITS] == [True, True]
    assert "is absent (last seen: 2" in rig.does("journalctl -q -u rigops-borg -o cat | tail -n 3")
    error = rig.error()
    assert "is absent (last seen: 2" in error["message"]
    assert error["fix"] == "mount its disk, or see the server"
    assert rig.finding("borg.repository", **rig.declared())["status"] == "warn"
    assert rig.finding("borg.age", **rig.declared())["status"] == "ok"

    rig.does(CONNECT)
    assert [rig.starts(unit) for unit in UNITS] == [True, True]
    assert rig.finding("borg.repository", **rig.declared())["status"] == "ok"


def test_a_passphrase_that_somebody_changed_is_named_everywhere_with_its_cure(rig: Rig) -> None:
    done = rig.host.run(
        "read -r BORG_PASSPHRASE; read -r BORG_NEW_PASSPHRASE; export BORG_PASSPHRASE"
        " BORG_NEW_PASSPHRASE BORG_CONFIG_DIR=/var/lib/rigops/borg"
        f" BORG_CACHE_DIR=/var/cache/rigops/borg; borg key change-passphrase {REPOSITORY}",
        given=f"{FIRST}\n{SECOND}\n",
    )
    assert done.returncode == 0, done.stderr

    error = rig.error()
    assert error["message"] == f"{REPOSITORY}: the passphrase does not open the repository"
    finding = rig.finding("borg.repository", **rig.declared())
    assert (finding["status"], error["message"] in finding["summary"]) == ("fail", True)
    noticed = " ".join(rig.plan(**rig.declared())["notices"])
    rig.apply(**rig.declared())
    assert not rig.starts("rigops-borg")
    journal = rig.does("journalctl -q -u rigops-borg -o cat | tail -n 10")
    drilled = rig.answer("--drill", code=1)["drill"]
    listed = rig.laptop.rigops("snapshots", NAME, "--json", *INVENTORY)
    for text in (error["fix"], str(finding), noticed, journal, drilled["fix"], listed.out):
        assert [part for part in CURE if part in text] == [*CURE], text

    rig.remember(SECOND)
    rig.does("rm -f /etc/rigops/borg_passphrase*")
    said = rig.laptop.rigops("apply", "--only", "borg", *QUIETLY)
    assert said.code == 0, said.out + said.err
    assert rig.finding("borg.repository", **rig.declared())["status"] == "ok"
    assert rig.answer()["status"] == "ok"


def test_apply_stores_no_passphrase_that_does_not_open_the_repository(rig: Rig) -> None:
    rig.remember(WRONG)
    rig.does(f"rm {CREDENTIAL}")
    rig.declare(**rig.declared())

    for _ in range(2):
        said = rig.laptop.rigops("apply", *QUIETLY)
        text = " ".join((said.out + said.err).split())
        assert said.code == 1, text
        assert f"{REPOSITORY}: the passphrase does not open the repository" in text
        assert [part for part in CURE if part in text] == [*CURE], text
        assert WRONG not in text
        assert rig.host.run("ls /etc/rigops/borg_passphrase*").stdout == ""
    error = rig.error()
    assert error["message"] == "this host has no passphrase of the repository"
    assert error["fix"] == "run `rigops apply --only borg`"
    planned = rig.plan(**rig.declared())
    assert CREDENTIAL in {one["subject"] for one in planned["changes"]}

    rig.does("umount /mnt/backup")  # then nobody can know
    assert rig.apply(**rig.declared())["outcome"] == "changed"
    rig.does(f"{CONNECT}; rm {CREDENTIAL}")
    rig.remember(SECOND)
    assert rig.apply(**rig.declared())["outcome"] == "changed"
    assert rig.answer()["status"] == "ok"
    assert rig.apply(**rig.declared())["outcome"] == "converged"


def test_without_notify_nothing_reports_and_with_it_both_units_do_when_they_fail(rig: Rig) -> None:
    shown = f"systemctl show -p OnFailure --value {' '.join(f'{one}.service' for one in UNITS)}"
    assert rig.does("systemctl list-unit-files --no-legend 'rigops-failed@*' || :") == ""
    notify = {"url": rig.server.url("/topic"), "ping": rig.server.url("/ping")}

    rig.apply(**rig.declared(), notify=notify)
    assert rig.does(shown).split() == [f"rigops-failed@{one}.service" for one in UNITS]
    rig.server.posts.clear()
    assert [rig.starts(unit) for unit in UNITS] == [True, True]
    rig.does("umount /mnt/backup")
    assert [rig.starts(unit) for unit in UNITS] == [True, True]
    rig.does(CONNECT)
    assert rig.server.posts == []

    rig.does(f"mv {REPOSITORY} /mnt/backup/x")
    for unit in UNITS:
        rig.server.posts.clear()
        assert not rig.starts(unit)
        (told,) = rig.posted(1)
        assert told[0] == "/topic"
        assert told[1].startswith(f"{NAME}: {unit}.service failed")
        assert "is gone" in rig.server.posts[0].body.decode()
    rig.does(f"mv /mnt/backup/x {REPOSITORY}")


def test_the_dead_man_url_hears_of_a_backup_that_is_new_and_of_one_that_is_old(rig: Rig) -> None:
    rig.does("systemctl reset-failed")
    assert [rig.starts(unit) for unit in UNITS] == [True, True]
    for days, end in ((0, "/ping"), (9, "/ping/fail")):
        rig.server.posts.clear()
        old = f"$(date -u -d '-{days} days' +%FT%TZ)"
        rig.does(f'sed -i "s/\\"newest_at\\": .*/\\"newest_at\\": \\"{old}\\",/" {STATE}')
        assert rig.starts("rigops-self-check")

        pings = [one for one in rig.posted(2) if one[0].startswith("/ping")]
        assert [path for path, _ in pings] == ["/ping/start", end], pings
        assert ("fail  borg.age" in pings[-1][1]) == bool(days), pings[-1][1]
        assert "borg.age" in pings[-1][1]
    rig.answer()
    rig.apply(0, "--prune", **rig.declared())


def test_what_an_older_borg_renamed_is_healed_once_a_person_says_so(rig: Rig) -> None:
    old = rig.error("--heal")
    assert (old["message"], old["fix"]) == (
        "borg 1.2.4 signs no archives",
        "there is nothing to heal",
    )
    rig.borg("create", f"{REPOSITORY}::old", HOME)
    rig.borg("rename", f"{REPOSITORY}::old", RENAMED)
    on = BorgHost(rig.host)
    install_14(on)
    use_14(on)

    drilled = rig.backup("--drill", code=1).out
    assert "`rigops backup HOST --heal`" in " ".join(drilled.split())
    rig.backup("--yes", code=2)  # of nothing
    shown = rig.answer("--heal")
    assert (shown["status"], shown["heal"]) == ("warn", {"to_heal": [RENAMED], "healed": []})
    text = rig.backup("--heal").out
    assert f"{NAME}: {RENAMED}: to be healed" in text
    assert f"`rigops backup {NAME} --heal --yes` signs them" in " ".join(text.split())
    assert rig.answer("--heal")["heal"]["to_heal"] == [RENAMED]  # still: nobody said yes

    healed = rig.answer("--heal", "--yes")
    assert (healed["status"], healed["heal"]) == ("ok", {"to_heal": [], "healed": [RENAMED]})
    assert f"{NAME}: nothing is to be healed" in rig.backup("--heal", "--yes").out
    restored = rig.laptop.rigops(
        "restore", NAME, f"{HOME}/thesis", "--at", RENAMED, "--to", "/root/found", *INVENTORY
    )
    assert restored.code == 0, restored.out + restored.err
    assert rig.does("cat /root/found/thesis") == "one"
    assert rig.answer()["status"] == "ok"
    assert rig.answer("--drill")["status"] == "ok"
    rig.does(f"rm {WRAPPER}")
