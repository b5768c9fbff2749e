"""Backups of another tool on a booted host: the real borgmatic and the real restic of Debian."""

from __future__ import annotations

import json
import re
import shlex
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

from rigops.concerns.borg.decide import watch_check
from tests.lab import debian_packages, hosts, witness
from tests.lab.applying import INVENTORY
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.shards import LAB_BORG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.laptop import Said

pytestmark = pytest.mark.shard(LAB_BORG)

NAME: Final = "unmanaged-backups"
MARK: Final = 'ge"h$e`im\\ 71c4'  # what a shell or systemd would read otherwise
ESCAPED: Final = MARK.replace("\\", "\\\\").replace('"', '\\"')  # as it is in a unit
HOME: Final = "/data/home"
STATE: Final = "/var/lib/rigops/unmanaged_backup.json"
WATCHED: Final = "/etc/rigops/borg_watched"
REPOSITORY: Final = "/srv/backup"
BORGMATIC_SETTINGS: Final = """\
location:
    source_directories: [/data]
    repositories: [/srv/backup/borg]
storage:
    encryption_passcommand: cat /root/passphrase
retention:
    keep_daily: 7
    keep_secondly: 9
consistency:
    checks: [disabled]
"""
RESTIC_SERVICE: Final = f"""\
[Service]
Type=oneshot
Environment=RESTIC_REPOSITORY={REPOSITORY}/restic
Environment="RESTIC_PASSWORD={ESCAPED}"
ExecStart=nice -n 5 restic backup --quiet /data
ExecStart=restic forget --quiet --keep-last 9
"""
RESTIC_TIMER: Final = "[Timer]\nOnCalendar=daily\n[Install]\nWantedBy=timers.target\n"
TREE: Final = f"""
import os, pathlib, struct
home = pathlib.Path("{HOME}")
(home / "sub/empty").mkdir(parents=True)
(home / "thesis").write_text("one")
os.link(home / "thesis", home / "sub/again")
(home / "sub/big").write_bytes(os.urandom(300000))
(home / "soft").symlink_to("nowhere")
(home / "a b$c%d*[e]").write_text("odd")
os.mkfifo(home / "pipe")
os.chown(home / "sub/big", 1000, 1000)
os.chmod(home / "sub/big", 0o640)
os.setxattr(home / "thesis", "user.note", b"mine")
acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in (
    (1, 6, 0xFFFFFFFF), (2, 4, 1000), (4, 4, 0xFFFFFFFF), (16, 4, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF)))
os.setxattr(home / "sub/big", "system.posix_acl_access", acl)
for path in home.rglob("*"):
    os.utime(path, ns=(10**18, 10**18 + 123456789), follow_symlinks=False)
"""
LOOK: Final = """
import hashlib, os, pathlib, stat, sys
top = pathlib.Path(sys.argv[1])
for path in sorted([top, *top.rglob("*")]):
    found = path.lstat()
    names = os.listxattr(path, follow_symlinks=False)
    print(
        path.relative_to(top), oct(found.st_mode), found.st_uid, found.st_gid, found.st_mtime_ns,
        found.st_nlink if not stat.S_ISDIR(found.st_mode) else "",
        [(name, os.getxattr(path, name, follow_symlinks=False)) for name in sorted(names)],
        os.readlink(path) if path.is_symlink() else "",
        hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(found.st_mode) else "",
    )
"""
# Another content with the size and the time that it had: what no tool can see.
CHANGE: Final = f"""
import os
path = "{HOME}/sub/big"
found = os.stat(path)
with open(path, "r+b") as file:
    first = file.read(1)
    file.seek(0)
    file.write(bytes([first[0] ^ 255]))
os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
"""
DAMAGE: Final = """
set -eu
file=$(find {folder} -type f -size +200k | head -n 1)
cp -a "$file" /root/whole
for at in 1000 50000 150000 250000; do
    printf 'XXXXXXXX' | dd of="$file" bs=1 seek=$at conv=notrunc status=none
done
echo "$file"
"""


@dataclass(frozen=True)
class Tool:
    name: str
    unit: str
    folder: str  # of the data in its repository
    newest: str


BORGMATIC: Final = Tool(
    "borgmatic",
    "borgmatic.timer",
    f"{REPOSITORY}/borg/data",
    'borgmatic rlist --last 1 --json | sed \'s/.*"time": "\\([^.]*\\).*/\\1Z/\'',
)
RESTIC: Final = Tool(
    "restic",
    "restic.service",
    f"{REPOSITORY}/restic/data",
    "restic -r /srv/backup/restic -p /root/passphrase --no-lock snapshots --latest 1 --json"
    ' | sed \'s/.*"time":"\\([^.]*\\).*/\\1Z/\'',
)
TOOLS: Final = (BORGMATIC, RESTIC)


class Rig(Tended):
    def declared(self, tool: Tool, **more: str) -> dict[str, Any]:
        return {"borg": {"managed": False, "unit": tool.unit, **more}}

    def watch(self, tool: Tool, **more: str) -> None:
        self.apply(**self.declared(tool, **more))

    def back_up(self, tool: Tool) -> None:
        self.does(f"systemctl start {tool.name}.service")

    def python(self, text: str, *words: str) -> str:
        done = self.host.run(shlex.join(("python3", "-", *words)), given=text)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self, command: str, *words: str) -> Said:
        return self.laptop.rigops(command, NAME, *words, *INVENTORY)

    def answer(self, command: str, *words: str, code: int = 0) -> dict[str, Any]:
        said = self.run(command, *words, "--json")
        assert said.code == code, said.out + said.err
        (host,) = said.json()["hosts"]
        return dict(host)

    def note(self, found: dict[str, Any]) -> None:
        assert self.host.run(f"cat >{STATE}", given=json.dumps(found)).returncode == 0

    def judged(self, check: str, tool: Tool, **more: str) -> tuple[str, str]:
        found = self.finding(check, **self.declared(tool, **more))
        return found["status"], found["summary"]

    def captured(self) -> dict[str, tuple[str, str, str]]:
        """Status, summary and fix of what a wipe needs of the backups."""
        said = self.run("capture", "--json")
        assert said.code == 1, said.out + said.err  # the rig has no proof
        (host,) = said.json()["hosts"]
        return {
            one["id"]: (one["status"], one["summary"], one["fix"])
            for one in host["requirements"]
            if one["id"].startswith("backup")
        }

    def self_check(self) -> list[str]:
        """The words of its line."""
        return self.does(shlex.join(watch_check())).split("\t")


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with hosts.running([f"epyc-8x4090={NAME}"]) as (host,):
        rig = Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)
        debian_packages.install(host, "borgmatic", "restic")
        rig.does(
            f"mkdir -p /data {REPOSITORY} /etc/borgmatic && mount /dev/sda /data && "
            # Debian's own unit, but for the minute that it waits after a boot.
            "mkdir /etc/systemd/system/borgmatic.service.d && printf '[Service]\\nExecStartPre=\\n'"
            " >/etc/systemd/system/borgmatic.service.d/quick.conf"
        )
        rig.python(TREE)
        for path, text in (
            ("/root/passphrase", MARK),
            ("/etc/borgmatic/config.yaml", BORGMATIC_SETTINGS),
            ("/etc/systemd/system/restic.service", RESTIC_SERVICE),
            ("/etc/systemd/system/restic.timer", RESTIC_TIMER),
        ):
            assert host.run(f"umask 077; cat >{path}", given=text).returncode == 0
        rig.does(
            "systemctl daemon-reload && systemctl start restic.timer && "
            "borgmatic rcreate --encryption repokey-blake2 && "
            f"restic -q init -r {REPOSITORY}/restic -p /root/passphrase"
        )
        witness.watch_host(host)
        yield rig


@pytest.fixture(params=TOOLS, ids=lambda tool: tool.name)
def tool(request: pytest.FixtureRequest) -> Tool:
    found: Tool = request.param
    return found


def test_apply_puts_one_file_there_and_nothing_else(rig: Rig) -> None:
    units = "systemctl list-unit-files | grep -v transient"
    everything = f"dpkg -l; {units}; find /etc /usr/local /srv /data -type f"
    before = rig.does(everything).splitlines()
    host = rig.apply(**rig.declared(BORGMATIC))

    assert [one["subject"] for one in host["changes"]] == [WATCHED]
    assert set(rig.does(everything).splitlines()) - set(before) == {WATCHED}
    assert rig.apply(**rig.declared(BORGMATIC))["outcome"] == "converged"
    assert rig.judged("borg.age", BORGMATIC) == (
        "unknown",
        "when it ran last is unknown: not since the boot",
    )


def test_the_age_is_that_of_the_last_run_of_the_unit(rig: Rig, tool: Tool) -> None:
    rig.watch(tool)
    rig.back_up(tool)

    status, summary = rig.judged("borg.age", tool)
    assert status == "ok"
    assert re.fullmatch(r"the last run was \d+ min ago", summary)
    assert rig.self_check()[1:4] == ["ok", "borg.age", tool.unit]


def test_or_of_what_the_tool_itself_says_is_the_newest(rig: Rig, tool: Tool) -> None:
    rig.watch(tool, newest=tool.newest)

    status, summary = rig.judged("borg.age", tool, newest=tool.newest)
    assert status == "ok"
    assert re.fullmatch(r"the newest backup is \d+ min old", summary)
    assert rig.self_check()[1:] == ["ok", "borg.age", tool.unit, "the newest backup is 0 days old"]


@pytest.mark.parametrize(("days", "status"), [(3, "warn"), (9, "fail")])
def test_an_old_backup_is_said_by_doctor_and_by_the_self_check(
    rig: Rig, days: int, status: str
) -> None:
    newest = f"date -d '{days} days ago 1 minute ago' +%s"
    rig.watch(RESTIC, newest=newest)

    assert rig.judged("borg.age", RESTIC, newest=newest) == (
        status,
        f"the newest backup is {days} days old",
    )
    assert rig.self_check()[1] == status


def test_a_run_that_failed_is_said_by_both(rig: Rig, tool: Tool) -> None:
    rig.watch(tool)
    rig.does(f"mv {REPOSITORY} {REPOSITORY}.away")
    failed = rig.host.run(f"systemctl start {tool.name}.service").returncode
    judged, checked = rig.judged("borg.age", tool), rig.self_check()
    rig.does(f"rm -rf {REPOSITORY}; mv {REPOSITORY}.away {REPOSITORY}")
    rig.back_up(tool)

    assert failed != 0
    assert judged == ("fail", "the last run failed: exit-code")
    assert checked[1] == "fail"
    assert checked[4].strip() == "the last run ended with exit-code"


def test_its_backups_are_listed(rig: Rig, tool: Tool) -> None:
    rig.watch(tool)
    said = rig.run("snapshots")
    document = rig.answer("snapshots")

    assert said.code == 0, said.out + said.err
    (row,) = document["subvolumes"]
    assert row["path"] == {"borgmatic": "borgmatic.timer", "restic": "/data"}[tool.name]
    assert f"{row['path']}  {len(row['snapshots'])} snapshots, newest" in said.out
    assert {one["engine"] for one in row["snapshots"]} == {tool.name}
    assert (document["engine"], document["unit"]) == (tool.name, tool.unit)


def test_a_tree_comes_back_beside_as_it_was(rig: Rig, tool: Tool) -> None:
    rig.watch(tool)
    before = rig.python(LOOK, HOME)
    planned = rig.answer("restore", HOME, "--dry-run")["restored"]
    assert rig.host.run(f"ls -d {planned['restored_to']}").returncode != 0
    done = rig.answer("restore", HOME)["restored"]

    assert (done["engine"], done["kind"]) == (tool.name, "directory")
    assert done["restored_to"] == planned["restored_to"]
    assert rig.python(LOOK, done["restored_to"]) == before
    assert rig.python(LOOK, HOME) == before
    rig.does(f"rm -r {done['restored_to']}")
    assert rig.does("ls -A /data") == "home"


def test_a_file_comes_back_from_the_backup_that_is_named(rig: Rig, tool: Tool) -> None:
    rig.watch(tool)
    odd = f"{HOME}/a b$c%d*[e]"
    (row,) = rig.answer("snapshots")["subvolumes"]
    first = min(row["snapshots"], key=lambda one: str(one["at"]))
    rig.does(f"cp -a {shlex.quote(odd)} /root/odd; echo later >{shlex.quote(odd)}")
    rig.back_up(tool)

    done = rig.answer("restore", odd, "--at", first["name"], "--to", f"/root/old/{tool.name}")
    newer = rig.answer("restore", odd, "--to", f"/root/new/{tool.name}")
    again = rig.run("restore", odd, "--to", f"/root/new/{tool.name}")
    missing = rig.run("restore", f"{HOME}/none", "--to", "/root/none")
    rig.does(f"cp -a /root/odd {shlex.quote(odd)}")

    assert (done["restored"]["snapshot"], done["restored"]["kind"]) == (first["name"], "file")
    assert rig.does(f"cat {shlex.quote(done['restored']['restored_to'])}") == "odd"
    assert rig.does(f"cat {shlex.quote(newer['restored']['restored_to'])}") == "later"
    assert again.code == 1
    assert "exists already and is not overwritten" in again.out
    assert missing.code == 1
    assert f"{HOME}/none is in no backup of that time" in missing.out
    assert rig.host.run("ls -d /root/none").returncode != 0


def test_nothing_is_replaced_and_no_backup_is_made(rig: Rig, tool: Tool) -> None:
    rig.watch(tool)
    in_place = rig.run("restore", HOME, "--in-place", "--yes")
    backup = rig.run("backup")

    assert (in_place.code, backup.code) == (1, 1)
    assert f"{HOME} is not replaced" in in_place.out
    assert f"the unit {tool.unit} does that" in backup.out
    assert f"fix: systemctl start {tool.name}.service" in backup.out


def test_a_drill_passes_leaves_nothing_and_doctor_knows_of_it(rig: Rig, tool: Tool) -> None:
    rig.watch(tool)
    rig.back_up(tool)
    look = f"find /var/lib/rigops {REPOSITORY} -type f ! -name declared.json | sort"
    rig.does(f"echo {{}} >{STATE}")  # of another one, which counts as none
    before = rig.does(look)
    untried = rig.judged("borg.drill", tool)
    said = rig.run("backup", "--drill")

    assert untried[0] == "unknown"
    assert said.code == 0, said.out + said.err
    assert "the drill passed: " in said.out
    assert rig.judged("borg.drill", tool)[0] == "ok"
    assert rig.does(look) == before


def test_capture_judges_the_age_the_drill_and_the_disk(rig: Rig, tool: Tool) -> None:
    rig.watch(tool)
    rig.back_up(tool)
    rig.does(f"rm -f {STATE}")
    untried = rig.captured()
    assert rig.run("backup", "--drill").code == 0
    tried = rig.captured()
    note = json.loads(rig.does(f"cat {STATE}"))
    failed = {**note["last_drill"], "result": "failed", "error": "2 files differ"}
    rig.note({**note, "last_drill": failed})
    found = rig.captured()
    rig.note(note)

    drill = f"rigops backup {NAME} --drill"
    summary = f"no backup of {tool.unit} was ever restored to try it"
    assert untried["backup.verified"] == ("fail", summary, drill)
    assert untried["backup.disk"][::2] == ("unknown", drill)
    for name, status in (("newest", "ok"), ("verified", "ok"), ("disk", "fail")):
        assert tried[f"backup.{name}"][0] == status, tried
    assert re.fullmatch(
        rf"the newest backup of {tool.unit} is \d+ min old", tried["backup.newest"][1]
    )
    repository = f"{REPOSITORY}/{'borg' if tool is BORGMATIC else 'restic'}"
    assert tried["backup.disk"][1] == (
        f"{repository} is on the file system of the root: a wipe takes it too"
    )
    assert found["backup.verified"][0] == "fail"
    assert "2 files differ" in found["backup.verified"][1]


def test_a_drill_finds_a_damaged_repository(rig: Rig, tool: Tool) -> None:
    rig.watch(tool)
    file = rig.does(DAMAGE.format(folder=tool.folder))
    said = rig.run("backup", "--drill")
    restored = rig.run("restore", HOME, "--to", "/root/damaged")
    judged = rig.judged("borg.drill", tool)
    rig.does(f"cp -a /root/whole {file}")

    assert said.code == 1
    assert f"the drill failed: {tool.name}: " in said.out
    assert judged[0] == "fail"
    assert restored.code == 1
    assert rig.host.run("ls -d /root/damaged").returncode != 0
    assert rig.host.run("ls -d /var/lib/rigops/unmanaged-drill").returncode != 0
    assert rig.run("backup", "--drill").code == 0


def test_a_drill_finds_a_file_that_is_not_what_was_backed_up(rig: Rig, tool: Tool) -> None:
    rig.watch(tool)
    rig.python(CHANGE)
    found = rig.answer("backup", "--drill", code=1)["drill"]
    rig.python(CHANGE)

    assert found["differing"] == [f"{HOME}/sub/big"]
    assert rig.answer("backup", "--drill")["drill"]["result"] == "ok"


def test_the_credentials_of_the_unit_are_loaded_where_it_has_them(rig: Rig) -> None:
    rig.watch(RESTIC)
    rig.does(
        "mkdir /etc/systemd/system/restic.service.d && "
        "printf 'RESTIC_REPOSITORY=/srv/backup/restic\\n' >/etc/restic.env && "
        "printf '[Service]\\nEnvironment=\\nEnvironmentFile=/etc/restic.env\\n"
        "EnvironmentFile=-/etc/none\\nLoadCredential=pw:/root/passphrase\\nExecStart=\\n"
        "ExecStart=restic backup --password-file ${CREDENTIALS_DIRECTORY}/pw /data\\n'"
        " >/etc/systemd/system/restic.service.d/more.conf && systemctl daemon-reload"
    )
    rig.back_up(RESTIC)

    assert rig.run("backup", "--drill").code == 0
    for more in (
        "Environment=RESTIC_PASSWORD_FILE=%d/pw",
        f"Environment=RESTIC_PASSWORD_FILE=%d/set\nSetCredential=set:{ESCAPED}",
    ):
        place = "/etc/systemd/system/restic.service.d/then.conf"
        text = f"[Service]\n{more}\nExecStart=\nExecStart=restic backup /data\n"
        assert rig.host.run(f"umask 077; cat >{place}", given=text).returncode == 0
        rig.does("systemctl daemon-reload")
        rig.back_up(RESTIC)
        assert rig.run("backup", "--drill").code == 0
    rig.does("rm -r /etc/systemd/system/restic.service.d; systemctl daemon-reload")


def test_a_repository_that_is_in_use_or_away_is_named(rig: Rig) -> None:
    rig.watch(BORGMATIC)
    rig.does(
        "export BORG_PASSCOMMAND='cat /root/passphrase'; "
        f"(borg with-lock {REPOSITORY}/borg sh -c 'touch /run/has; while [ -e /run/has ]; do "
        "sleep 0.1; done' >/dev/null 2>&1 </dev/null &); until [ -e /run/has ]; do sleep 0.1; done"
    )
    drill = json.loads(rig.does(f"cat {STATE}"))["last_drill"]
    locked = rig.run("backup", "--drill")
    rig.does("rm /run/has")
    rig.does(f"until [ ! -e {REPOSITORY}/borg/lock.exclusive ]; do sleep 0.1; done")
    rig.does(f"mv {REPOSITORY}/borg {REPOSITORY}/gone")
    gone = rig.run("snapshots")
    rig.does(f"mv {REPOSITORY}/gone {REPOSITORY}/borg")

    assert (locked.code, gone.code) == (1, 1)
    assert "lock" in locked.out
    assert "fix: wait until borgmatic.service has ended" in locked.out
    assert json.loads(rig.does(f"cat {STATE}"))["last_drill"] == drill
    assert f"Repository {REPOSITORY}/borg does not exist" in gone.out


def test_ctrl_c_ends_the_tool_on_the_host(rig: Rig) -> None:
    rig.watch(RESTIC)
    rig.does(
        "mkdir /opt/slow && printf '#!/bin/sh\ntouch /run/slow\nexec sleep 1000\n' "
        ">/opt/slow/restic && chmod 755 /opt/slow/restic && "
        "mkdir /run/systemd/system/restic.service.d && "
        "printf '[Service]\nExecStart=\nExecStart=/opt/slow/restic backup /data\n' "
        ">/run/systemd/system/restic.service.d/slow.conf && systemctl daemon-reload"
    )
    running = rig.laptop.start("snapshots", NAME, *INVENTORY)
    rig.does("until [ -e /run/slow ]; do sleep 0.1; done")
    running.process.send_signal(signal.SIGINT)
    said = running.wait()

    assert said.code == 130, said.out + said.err
    units = "systemctl list-units --all --plain --no-legend 'rigops-unmanaged-*'"
    rig.does(f'until [ -z "$({units})" ]; do sleep 0.1; done')
    assert rig.host.run("pgrep -x -f 'sleep 1000'").returncode == 1
    rig.does("rm -r /run/systemd/system/restic.service.d; systemctl daemon-reload")


def test_of_any_other_tool_it_is_said_that_only_the_age_is_known(rig: Rig) -> None:
    service = "[Service]\\nType=oneshot\\nExecStart=/usr/bin/kopia snapshot create /data\\n"
    rig.does(f"printf '{service}' >/run/systemd/system/kopia.service; systemctl daemon-reload")
    rig.apply(borg={"managed": False, "unit": "kopia.service", "newest": "date +%s"})
    listed = rig.run("snapshots")
    tried = [rig.run("restore", HOME), rig.run("backup", "--drill")]
    captured = rig.captured()

    assert captured["backup.newest"][0] == "ok"
    assert captured["backup.verified"] == (
        "unknown",
        "kopia.service starts kopia, whose backups rigops cannot try",
        "restore a sample with kopia itself, and wipe only if it is right",
    )
    assert captured["backup.disk"][0] == "unknown"
    assert listed.code == 0, listed.out + listed.err
    assert [one.code for one in tried] == [1, 1]
    for said in (listed, *tried):
        assert "only the age is known" in " ".join(said.out.split())
        assert "kopia snapshot list" in " ".join(said.out.split())


def test_no_argument_no_log_and_no_answer_has_the_secret(rig: Rig) -> None:
    words = [word for words in witness.on_host(rig.host) for word in words]
    assert any("rigops-unmanaged-" in word for word in words)
    assert [word for word in words if MARK in word] == []
    log = "journalctl -q --no-pager -o export"
    assert rig.does(f"{log} | grep -a -c rigops-unmanaged-") != "0"
    assert rig.host.run(f"{log} | grep -a -q -F -f -", given=MARK).returncode == 1
    found = rig.host.run(
        "umask 077; cat >/run/mark; grep -rlF -D skip -f /run/mark /var /etc /usr/local /root /run"
        " 2>/dev/null; rm /run/mark",
        given=MARK,
    ).stdout.split()
    assert set(found) <= {"/root/passphrase", "/run/mark"}
    for path in rig.laptop.folder.rglob("*"):
        assert not path.is_file() or MARK.encode() not in path.read_bytes(), path


def test_undeclared_the_file_and_the_note_go_and_the_tools_stay(rig: Rig) -> None:
    tools = "dpkg -l borgmatic restic | grep ^ii; systemctl is-active borgmatic.timer restic.timer"
    before = rig.does(tools)
    rig.watch(BORGMATIC)
    rig.does(f"ls {WATCHED} {STATE}")
    rig.apply(0, "--prune")

    assert rig.host.run(f"ls -d {WATCHED} {STATE} /etc/rigops").stdout == ""
    assert rig.does(tools) == before
    assert rig.does(f"ls {REPOSITORY}") == "borg\nrestic"
