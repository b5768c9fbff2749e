"""Backups of a booted host's btrfs to a real borg repository on its other disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.lab.borg_host import (
    LIVE,
    PASSPHRASE,
    PROGRAM,
    REPOSITORY,
    SECRET,
    WRAPPER,
    BorgHost,
)
from tests.lab.sshd import until
from tests.lab.test_restore import below
from tests.shards import LAB_BORG

if TYPE_CHECKING:
    from tests.lab.conftest import Lab

pytestmark = pytest.mark.shard(LAB_BORG)

RIG: Final = "epyc-8x4090"
BIG: Final = 60_000_000


@pytest.fixture(scope="module")
def on(module_lab: Lab) -> BorgHost:
    found = BorgHost(module_lab.one(RIG))
    found.install()
    return found


@pytest.mark.story
def test_what_is_deleted_comes_back_as_it_was(on: BorgHost) -> None:
    on.start_anew()
    assert on.run("backup").errors[0]["message"].endswith("there is no repository yet")
    first = on.run("init")
    assert (first.code, first.result["initialized"]) == (0, True), first.text
    assert on.run("init").result["initialized"] is False
    backup = on.run("backup")
    assert backup.code == 0, backup.text + backup.stderr
    was = on.look(LIVE)
    on.does(f"rm -r {LIVE}/thesis")

    done = on.restore(f"{LIVE}/thesis", "--in-place")

    assert below(on.look(LIVE), "thesis") == below(was, "thesis")
    assert done["snapshot"] == backup.names("created")[0]
    assert (done["engine"], done["aside"], done["kind"]) == ("borg", None, "directory")
    listed = on.run("list").result
    assert [one["name"] for one in listed["subvolumes"][0]["snapshots"]] == on.archives()
    assert listed["targets"][0]["state"] == "present"
    assert on.does("ls -A /data/.rigops/borg") == ""


def test_a_live_one_that_differs_is_moved_aside(on: BorgHost) -> None:
    on.begin()
    on.does(f"echo newer >{LIVE}/thesis/text")

    beside = on.restore(f"{LIVE}/thesis/text")
    placed = on.restore(f"{LIVE}/thesis/text", "--in-place")
    there = on.restore(f"{LIVE}/thesis/text", "--to", "/root/found")

    for done in (beside, placed, there):
        assert on.does(f"head -n 1 '{done['restored_to']}'") == "first"
    assert on.does(f"cat '{placed['aside']}'") == "newer"
    assert there["restored_to"] == "/root/found/text"
    again = on.run("restore", "--path", f"{LIVE}/thesis/text", "--to", "/root/found")
    assert "not overwritten" in again.text
    on.does("rm -r /root/found")


def test_a_whole_path_comes_back_onto_a_new_disk(on: BorgHost) -> None:
    on.begin()
    was = on.look(LIVE)
    on.does("umount /data; mkfs.btrfs -q -f /dev/sda; mount /dev/sda /data")
    on.does(f"btrfs -q subvolume create {LIVE}; echo live >{LIVE}/notes")

    done = on.restore(LIVE, "--in-place")

    assert on.does(f"cat '{done['aside']}/notes'; rm -r '{done['aside']}'") == "live"
    assert below(on.look(LIVE)) == below(was)
    assert on.does(f"stat -c %i {LIVE}") == "256"


def test_parents_that_are_missing_come_back_too(on: BorgHost) -> None:
    on.begin()
    was = on.look(LIVE)
    on.does(f"rm -r {LIVE}/thesis")

    on.restore(f"{LIVE}/thesis/figures/same", "--in-place")

    found = on.look(f"{LIVE}/thesis/figures")
    assert found[""][:3] == was["thesis/figures"][:3]
    assert found["same"][9] == was["thesis/figures/same"][9]


def test_a_backup_that_is_made_a_second_after_its_run_began_is_the_newest(on: BorgHost) -> None:
    on.begin()
    on.does(f"printf '#!/bin/sh\nsleep 1.1\nexec /usr/bin/borg \"$@\"\n' >{WRAPPER}")
    on.does(f"chmod 755 {WRAPPER}")

    ran = on.run("backup")

    assert ran.code == 0, ran.text + ran.stderr
    made = ran.names("created")[0].rpartition("-")[2]
    assert on.state()["newest_at"].translate(str.maketrans("", "", "-:")) == made


def test_the_second_backup_of_an_unchanged_tree_reads_no_files(on: BorgHost) -> None:
    on.start_anew()
    on.does(f"head -c {BIG} /dev/urandom >{LIVE}/big; sleep 0.1")
    on.does(f"touch {LIVE}/newest")  # borg reads again what is as new as the newest
    on.run("init")
    on.does(
        f"cat >{WRAPPER} <<'END'\n#!/bin/bash\n/usr/bin/borg \"$@\"; code=$?\n"
        f"case \"$*\" in *' create '*) grep rchar /proc/$$/io >>/run/read ;; esac\nexit $code\n"
        f"END\nchmod 755 {WRAPPER}; rm -f /run/read"
    )

    codes = [on.run("backup").code, on.run("backup").code]

    on.does(f"rm {WRAPPER}")
    assert codes == [0, 0]
    first, second = (int(line.split()[1]) for line in on.does("cat /run/read").splitlines())
    assert first - second > BIG * 0.95


# What it does is in /run/changes, which each step has to reach. PID 1 sees the live path.
CHANGES: Final = f"""cat >{WRAPPER} <<'END'
#!/bin/sh
case " $* " in *' create '*) sh -eux -c '
  nsenter -t 1 -m -r -- sh -euxc "echo after >{LIVE}/changes; cat {LIVE}/changes"
' >>/run/changes 2>&1 || {{ cat /run/changes >&2; exit 70; }} ;; esac
exec /usr/bin/borg "$@"
END
chmod 755 {WRAPPER}; rm -f /run/changes"""


def test_what_changes_meanwhile_is_in_the_archive_as_it_was(on: BorgHost) -> None:
    on.begin()
    on.does(f"echo before >{LIVE}/changes")
    on.does(CHANGES)

    ran = on.run("backup")

    on.does(f"rm {WRAPPER}")
    assert ran.code == 0, ran.text + ran.stderr
    assert on.does("cat /run/changes").splitlines()[-1:] == ["after"]
    assert on.does(f"cat {LIVE}/changes") == "after"
    done = on.restore(f"{LIVE}/changes", "--to", "/root/found")
    assert on.does(f"cat {done['restored_to']}; rm -r /root/found") == "before"


def test_a_borg_that_cannot_be_started_is_named_and_no_other_one_is_taken(on: BorgHost) -> None:
    on.begin()
    before = on.archives()
    on.does(
        f"cp /bin/sh {WRAPPER} && {{ sleep 600 >>{WRAPPER} 2>/dev/null </dev/null & }};"
        " echo $! >/run/writer;"
        f" until [ /proc/$(cat /run/writer)/fd/1 -ef {WRAPPER} ]; do :; done"
    )

    ran = on.run("backup")

    on.does(f"kill $(cat /run/writer) && rm {WRAPPER} /run/writer")
    assert ran.code == 1
    assert f"{WRAPPER}: Text file busy" in ran.text
    assert on.archives() == before
    assert on.run("backup").code == 0


OTHER_COMMANDS: Final = (("drill",), ("export-key",), ("check",), ("backup", "--dry-run"))
SCANS: Final = f"""cat >{WRAPPER} <<'END'
#!/bin/bash
echo "$1 $4" >>/run/scanned
for one in /proc/[0-9]*; do
  for file in cmdline environ; do
    tr '\\0' '\\n' <$one/$file 2>/dev/null | grep -qF -f {SECRET} && echo $one/$file >>/run/leaks
  done
done
exec /usr/bin/borg "$@"
END
chmod 755 {WRAPPER}; rm -f /run/scanned /run/leaks"""


def test_the_passphrase_is_nowhere_but_in_its_own_file(on: BorgHost) -> None:
    on.start_anew(identity=True)
    on.does(SCANS)
    printed = ""
    for words in (
        ("init",),
        ("backup",),
        ("run",),
        ("list",),
        ("restore", "--path", f"{LIVE}/thesis", "--to", "/root/found"),
        *OTHER_COMMANDS,
    ):
        done = on.host.run(on.command(*words), timeout=300)
        assert done.returncode == 0, (words, done.stdout)
        printed += done.stdout + done.stderr
    on.does(f"rm {WRAPPER} -f")

    assert len(on.does("cat /run/scanned").splitlines()) >= 12
    assert on.host.run("cat /run/leaks").stdout == ""
    assert PASSPHRASE not in printed
    assert PASSPHRASE not in on.does("journalctl --no-pager -o export")
    found = on.does(
        f"grep -rslF -f {SECRET} --devices=skip / --exclude-dir=proc --exclude-dir=sys || :"
    )
    assert found == SECRET
    assert on.does(f"stat -c %a {SECRET}") == "400"
    on.does("rm -r /root/found")
    assert on.does(f"ls {REPOSITORY}/config") != ""


def test_what_makes_the_machine_this_machine_is_in_the_archive(on: BorgHost) -> None:
    on.begin(identity=True)

    packages = on.restore("/var/lib/rigops/identity/packages", "--to", "/root/found")
    settings = on.restore("/etc/rigops/borg.json", "--to", "/root/found")

    assert "borgbackup" in on.does(f"cat {packages['restored_to']}")
    assert "repository" in on.does(f"cat {settings['restored_to']}")
    assert len(on.archives()) == 1
    for secret in (SECRET, "/etc/ssh/ssh_host_ed25519_key"):
        assert "is in no archive" in on.run("restore", "--path", secret).text
    on.does("rm -r /root/found")


# Of the units: what a backup and a drill need is left, and not much else.
HARDENED: Final = (
    "NoNewPrivileges=yes", "ProtectSystem=full", "ReadWritePaths=/etc/rigops",
    "ProtectKernelTunables=yes", "ProtectKernelLogs=yes", "ProtectControlGroups=yes",
    "ProtectHostname=yes", "RestrictRealtime=yes", "LockPersonality=yes",
    "RestrictAddressFamilies=AF_UNIX AF_NETLINK AF_INET AF_INET6", "SystemCallArchitectures=native",
    "CapabilityBoundingSet=~CAP_SYS_BOOT CAP_SYS_TIME CAP_SYS_RAWIO CAP_SYS_PTRACE CAP_SYS_MODULE",
)  # fmt: skip
CREDENTIAL: Final = "/etc/rigops/borg_passphrase.cred"


def test_it_works_in_a_hardened_unit_with_an_encrypted_passphrase(on: BorgHost) -> None:
    on.start_anew(identity=True)
    on.does(f"systemd-creds encrypt --with-key=host --name=passphrase {SECRET} {CREDENTIAL}")
    on.does(f"mv {SECRET} /root/aside")
    properties = " ".join(f"-p '{one}'" for one in HARDENED)
    credential = f"-p LoadCredentialEncrypted=passphrase:{CREDENTIAL}"
    start = f"systemd-run -q --pipe --wait --collect {credential}"

    on.does(f"{start} {PROGRAM} init")
    for words in ("run", "drill"):
        on.does(f"{start} {properties} {PROGRAM} {words}")

    on.does(f"mv /root/aside {SECRET}; rm {CREDENTIAL}")
    assert on.state()["last_drill"]["result"] == "ok"
    assert len(on.archives()) == 2
    assert on.run("restore", "--path", "/etc/hostname", "--to", "/root/found").code == 0
    on.does("rm -r /root/found")


SLOW: Final = """#!/usr/bin/python3
import os, sys, time
if "create" in sys.argv:
    open("/run/creating", "w").close()
    time.sleep(60)
os.execv("/usr/bin/borg", sys.argv)
"""


@pytest.mark.parametrize("words", [("backup",), ("drill",)])
@pytest.mark.parametrize("number", ["INT", "TERM", "HUP"])
def test_a_signal_ends_all_of_it_and_leaves_nothing_half_made(
    on: BorgHost, words: tuple[str, ...], number: str
) -> None:
    on.begin(keep="")
    before = on.archives()
    on.does(f"cat >{WRAPPER}; chmod 755 {WRAPPER}; rm -f /run/creating", SLOW)
    start = f"systemd-run -q --unit=borg-test -p LoadCredential=passphrase:{SECRET}"
    on.does(f"{start} -p KillMode=none {PROGRAM} {' '.join(words)}")
    until(lambda: on.host.run("test -e /run/creating").returncode == 0, "the archive")

    on.does(f"systemctl kill -s {number} --kill-whom=main borg-test")
    until(
        lambda: "active" not in on.host.run("systemctl is-active borg-test").stdout.split(), "end"
    )
    code = on.does("systemctl show -p ExecMainStatus --value borg-test")
    on.does(f"systemctl reset-failed borg-test; rm {WRAPPER}")

    assert int(code) == 128 + {"INT": 2, "TERM": 15, "HUP": 1}[number]
    assert on.does("ls -A /data/.rigops/borg; ls -d /var/lib/rigops/borg/drill || :") == ""
    assert on.archives() == before
    assert on.run("backup").code == 0
