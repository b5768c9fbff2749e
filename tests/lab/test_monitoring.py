"""The monitoring concern on a booted host: what is told, when, and what node_exporter gets."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab import hosts, witness
from tests.lab.applying import INVENTORY, only
from tests.lab.laptop import Laptop
from tests.lab.listening import Listening, listening
from tests.lab.tended import Tended
from tests.shards import LAB_CONCERNS
from tests.unit.hostside.exposition import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.lab.hosts import Host
    from tests.lab.listening import Post

pytestmark = pytest.mark.shard(LAB_CONCERNS)

NAME: Final = "monitoring"
SECRETS: Final = ("topic-geheim-7f3a", "ping-geheim-9b1c")
FOLDER: Final = "/srv/textfiles"
PROGRAM: Final = "/usr/local/libexec/rigops/self_check"
CHECK: Final = "rigops-self-check"
METRICS: Final = "rigops-metrics"
TUNING: Final = "rigops-gpu-tuning.service"
TABLE: Final = "/etc/rigops/gpu_tuning"
LEFT: Final = (
    "find /etc/systemd /usr/local/libexec /var/lib/rigops /run/rigops /srv -path '*self*check*' "
    "-o -path '*metrics*' -o -path '*rigops-*ailed*' -o -path '*notify*' -o -name '*.prom'"
)
PATIENCE_S: Final = 120


@dataclass(frozen=True)
class Rig(Tended):
    server: Listening = field(default_factory=Listening)

    @property
    def declared(self) -> dict[str, Any]:
        topic, ping = (self.server.url(f"/{one}") for one in SECRETS)
        return {
            "notify": {"url": topic, "ping": ping},
            "metrics": FOLDER,
            "gpus": 3,
            "gpu_power_limit": 285,
        }

    def plan(self, code: int = 0, *options: str, **declared: object) -> Mapping[str, Any]:
        self.declare(**declared)
        said = self.laptop.rigops("plan", "--json", *options, *INVENTORY)
        assert said.code == code, said.out + said.err
        return only(said)

    def report(self) -> list[tuple[str, str]]:
        """The last part of the path, and the title or else the text, of all that was posted."""
        self.server.posts.clear()
        self.does(f"systemctl start {CHECK}")
        return [said(one) for one in self.server.posts]

    def told(self) -> list[str]:
        """Without the dead-man URL."""
        return [text for path, text in self.report() if path == SECRETS[0]]

    def posted(self) -> Post:
        """What is posted by something that runs beside."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.server.posts:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        (post,) = self.server.posts
        return post

    def lose(self, card: str = "") -> None:
        """Only a reboot brings it back."""
        self.host.set(f"lost={card}")
        if not card:
            self.reboot()

    def doctor(self) -> Mapping[str, Any]:
        return self.finding("rigops.selfcheck", **self.declared)

    def cards(self) -> list[str]:
        return self.does("nvidia-smi --query-gpu=uuid --format=csv,noheader").splitlines()


def said(post: Post) -> tuple[str, str]:
    text = post.title if "Title" in post.headers else post.body.decode()
    return post.path.removeprefix("/"), text.removeprefix(f"{NAME}: ")


@pytest.fixture(scope="module")
def server() -> Iterator[Listening]:
    with listening() as told:
        yield told


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with hosts.running([f"threadripper-3x3090={NAME}"]) as (host,):
        yield host


@pytest.fixture(scope="module")
def rig(host: Host, server: Listening, tmp_path_factory: pytest.TempPathFactory) -> Rig:
    rig = Rig(Laptop(tmp_path_factory.mktemp("laptop")), host, server)
    rig.does(f"mkdir -p {FOLDER}")
    witness.watch_host(host)
    return rig


def test_the_plan_shows_what_will_be_there_and_touches_nothing(rig: Rig) -> None:
    host = rig.plan(**rig.declared)

    subjects = {one["subject"] for one in host["changes"] if one["concern"] == "monitoring"}
    assert {
        PROGRAM, f"/etc/systemd/system/{CHECK}.timer", f"/etc/systemd/system/{METRICS}.timer",
        "/etc/systemd/system/rigops-failed@.service", "/etc/rigops/notify",
    } < subjects  # fmt: skip
    assert rig.host.run(LEFT).stdout == ""


@pytest.mark.story
def test_it_is_brought_about_and_a_second_apply_changes_nothing(rig: Rig) -> None:
    assert rig.apply(**rig.declared)["outcome"] == "changed"

    for timer in (f"{CHECK}.timer", f"{METRICS}.timer"):
        assert rig.does(f"systemctl is-active {timer} && systemctl is-enabled {timer}")
    host = rig.apply(**rig.declared)
    assert (host["outcome"], host["changes"]) == ("converged", [])
    assert rig.server.posts == []
    assert rig.doctor()["status"] == "info"


@pytest.mark.story
def test_a_host_that_is_well_tells_the_dead_man_and_nobody_else(rig: Rig) -> None:
    (start, _), (end, text) = rig.report()

    assert (start, end) == (f"{SECRETS[1]}/start", SECRETS[1])
    rows = {line.split()[1]: line.split()[0] for line in text.splitlines()}
    wanted = ("gpu.count", "pwr.limit", "rigops.files", "drv.reboot_pending")
    assert {name: rows[name] for name in wanted} == dict.fromkeys(wanted, "ok")
    assert rig.doctor()["status"] == "ok"


def test_a_file_that_somebody_changes_is_told_once_and_once_that_it_is_well_again(
    rig: Rig,
) -> None:
    rig.does(f"cp -p {TABLE} /root/table && echo '# mine' >>{TABLE}")

    assert rig.told() == [f"warn: rigops.files, {TABLE}: its content was changed"]
    assert rig.told() == []
    found = rig.doctor()
    assert (found["status"], "found 1 problem: rigops.files" in found["summary"]) == ("info", True)
    rig.does(f"cp -p /root/table {TABLE}")
    assert rig.told() == [f"well again: rigops.files, {TABLE}"]
    assert rig.told() == []


def test_a_limit_that_somebody_sets_is_told_and_a_warning_is_no_failure(rig: Rig) -> None:
    rig.does("nvidia-smi -i 0000:42:00.0 -pl 350")

    start, told, end = rig.report()
    assert told == (
        SECRETS[0],
        "warn: pwr.limit, gpu 0000:42:00.0: power limit is 350 W, declared 285 W",
    )
    assert (start[0], end[0]) == (f"{SECRETS[1]}/start", SECRETS[1])
    assert rig.apply(**rig.declared)["outcome"] == "changed"
    assert rig.told() == ["well again: pwr.limit, gpu 0000:42:00.0"]


def test_a_card_that_is_gone_is_told_and_fails_the_dead_man(rig: Rig) -> None:
    rig.lose("0000:0a:00.0")

    posts = rig.report()
    rig.lose()
    assert posts[-1][0] == f"{SECRETS[1]}/fail"
    assert "2 of 3 declared cards answer: Unable to determine the device handle" in posts[-1][1]
    (path, subject) = posts[1]
    assert (path, subject) == (SECRETS[0], "2 new problems")
    assert rig.told() == ["2 problems are gone"]


def test_a_unit_that_fails_is_told_with_the_end_of_its_journal(rig: Rig) -> None:
    (lost, *_) = rig.cards()
    rig.lose("0000:0a:00.0")
    rig.server.posts.clear()
    assert rig.host.run(f"systemctl restart {TUNING}").returncode != 0

    post = rig.posted()
    rig.lose()
    assert said(post) == (SECRETS[0], f"{TUNING} failed: exit-code")
    assert post.headers["Priority"] == "high"
    assert f"{lost}: Unable to determine the device handle" in post.body.decode()


def test_a_failure_that_nobody_can_be_told_of_ends_there(rig: Rig) -> None:
    rig.does(
        "printf '[Unit]\\nOnFailure=rigops-failed@%%N.service\\n[Service]\\nType=oneshot\\n"
        "ExecStart=false\\n' >/run/systemd/system/rigops-lab.service && systemctl daemon-reload"
    )
    rig.server.posts.clear()
    rig.server.answers = [500] * 3
    rig.host.run("systemctl start rigops-lab.service")
    handler = "rigops-failed@rigops-lab.service"
    rig.does(f"timeout 60 sh -c 'until systemctl -q is-failed {handler}; do sleep 0.5; done'")

    assert len(rig.server.posts) == 3
    units = rig.does("systemctl list-units --failed --plain --no-legend 'rigops-failed@*'")
    assert [line.split()[0] for line in units.splitlines()] == [handler]
    rig.does(f"rm /run/systemd/system/rigops-lab.service; systemctl reset-failed {handler}")
    rig.does("systemctl daemon-reload")


def test_with_a_driver_that_hangs_it_ends_says_unknown_and_starts_no_more_of_it(rig: Rig) -> None:
    rig.host.set("smi=unkillable")
    posts = rig.report()
    result = rig.does(f"systemctl show -P Result -P ActiveState {CHECK}").split()
    stuck = rig.does("pgrep -c nvidia-smi || :")
    rig.report()
    again = rig.does("pgrep -c nvidia-smi || :")
    rig.host.set("smi=ok")

    assert result == ["success", "inactive"]
    assert posts[-1][0] == f"{SECRETS[1]}/fail"
    rows = [line.split(maxsplit=3) for line in posts[-1][1].splitlines()]
    assert ["unknown", "gpu.count", "host", "nvidia-smi: no answer in 30 s"] in rows
    assert ["unknown", "drv.hang", "host", "nvidia-smi does not answer"] in rows
    assert not [row for row in rows if row[1] in {"pwr.limit", "gpu.lost"} and row[0] == "ok"]
    assert stuck == again
    assert rig.told() == ["3 problems are gone"]  # the third: that it was not asked again


def test_the_textfile_is_valid_and_tells_drift_and_nothing_secret(rig: Rig) -> None:
    rig.does("nvidia-smi -i 0000:42:00.0 -pl 350")
    rig.does(f"systemctl start {METRICS}")
    text = rig.host.run(f"cat {FOLDER}/rigops.prom").stdout
    rig.does("nvidia-smi -i 0000:42:00.0 -pl 285")

    samples = parse(text)
    drifted = {"id": "pwr.limit", "subject": "gpu 0000:42:00.0", "status": "warn"}
    assert samples["rigops_finding"][tuple(drifted.items())] == 1
    assert samples["rigops_limit_drift"] == {(): 1}
    assert samples["rigops_reboot_owed"] == {(): 0}
    assert samples["rigops_self_check_timestamp_seconds"][()] > 1e9
    assert rig.does(f"ls -A {FOLDER}; stat -c %a {FOLDER}/rigops.prom") == "rigops.prom\n644"
    assert "geheim" not in text


def test_a_reader_never_sees_half_of_the_textfile(rig: Rig) -> None:
    reads = (
        f"end=$(($(date +%s) + 4)); while [ $(date +%s) -lt $end ]; do cat {FOLDER}/rigops.prom | "
        "tail -n 1 | grep -q '^rigops_self_check_timestamp_seconds [0-9]*$' || echo half; done"
    )
    writes = f"for n in 1 2 3 4 5 6; do {PROGRAM} metrics; done"
    assert rig.does(f"{writes} & {reads}; wait") == ""


def test_nothing_of_it_is_waited_for_at_boot_and_it_waits_for_the_boot(rig: Rig) -> None:
    rig.reboot()

    for unit in (CHECK, METRICS):
        assert rig.does(f"systemctl show -P Before {unit}") == "shutdown.target"
        assert "multi-user.target" in rig.does(f"systemctl show -P After {unit}").split()
        assert rig.does(f"systemctl is-active {unit}.timer") == "active"
    assert "Persistent=true" in rig.does(f"systemctl cat {CHECK}.timer")
    assert rig.apply(**rig.declared)["outcome"] == "converged"


def test_the_urls_are_in_no_command_line_journal_answer_or_readable_file(rig: Rig) -> None:
    witness.watch_host(rig.host)
    answers = [
        rig.laptop.rigops(*words, *INVENTORY)
        for words in (("plan", "--json"), ("apply", "--json", "--yes", "--preflight", "never"),
                      ("doctor", "--json", "-v"), ("plan", "-v"))
    ]  # fmt: skip
    rig.does("nvidia-smi -i 0000:42:00.0 -pl 350")
    assert len(rig.report()) == 3
    rig.does(f"systemctl start {METRICS}; {PROGRAM}; nvidia-smi -i 0000:42:00.0 -pl 285")
    words = witness.on_host(rig.host)
    places = "/etc /usr/local /var/lib/rigops /run /srv /tmp /var/tmp"
    readable = rig.host.run(
        f"grep -rlsE --exclude=witness '{'|'.join(SECRETS)}' {places}"
    ).stdout.split()

    started = {word.rpartition("/")[2] for one in words for word in one[:3]}
    assert {"self_check", "notify", "logger"} <= started
    assert [one for one in words if "geheim" in " ".join(one)] == []
    assert [one for one in answers if "geheim" in one.out + one.err] == []
    assert "geheim" not in rig.does("journalctl --no-pager -o verbose --all")
    assert readable == ["/etc/rigops/notify"]
    assert rig.does("stat -c '%a %U' /etc/rigops/notify") == "600 root"
    rig.report()


def test_a_textfile_elsewhere_takes_the_place_of_the_first(rig: Rig) -> None:
    rig.does("mkdir -p /srv/other")
    changed = rig.apply(**{**rig.declared, "metrics": "/srv/other"})["changes"]
    assert f"{FOLDER}/rigops.prom" in {one["subject"] for one in changed}
    rig.does(f"systemctl start {METRICS}")

    assert rig.does("ls -A /srv/other") == "rigops.prom"
    assert rig.does(f"ls -A {FOLDER}") == ""


def test_the_directory_of_debians_node_exporter_is_found_and_without_one_it_is_blocked(
    rig: Rig,
) -> None:
    auto = {**rig.declared, "metrics": "auto"}
    (reason,) = rig.plan(1, **auto)["blocked"]
    assert 'metrics = "auto": no node_exporter runs here. fix: ' in reason["reason"]

    rig.does(
        "mkdir -p /var/lib/prometheus/node-exporter && printf '[Service]\\nEnvironmentFile="
        "-/etc/default/prometheus-node-exporter\\nExecStart=/bin/sleep 9999 $ARGS\\n' "
        ">/etc/systemd/system/prometheus-node-exporter.service && systemctl daemon-reload"
    )
    rig.apply(**auto)
    rig.does(f"systemctl start {METRICS}")
    assert rig.does("ls /var/lib/prometheus/node-exporter") == "rigops.prom"

    flag = f'ARGS="--collector.textfile.directory={FOLDER}"'
    rig.does(f"echo '{flag}' >/etc/default/prometheus-node-exporter")
    rig.apply(**auto)
    rig.does(f"systemctl start {METRICS}")
    assert rig.does(f"ls {FOLDER}") == "rigops.prom"
    assert rig.does("ls /var/lib/prometheus/node-exporter") == ""


def test_metrics_alone_undeclared_go_and_the_rest_stays(rig: Rig) -> None:
    rig.apply(**{name: value for name, value in rig.declared.items() if name != "metrics"})

    assert rig.does("find /srv /var/lib/prometheus -name '*.prom'") == ""
    assert rig.does("find /etc/systemd /var/lib/rigops -name '*metrics*'") == ""
    assert rig.does(f"systemctl is-active {CHECK}.timer") == "active"


def test_undeclared_nothing_of_it_is_left(rig: Rig) -> None:
    rig.apply(**rig.declared)
    rig.does(f"systemctl start {CHECK} {METRICS}")
    host = rig.apply(1)
    assert "monitoring" in {one["concern"] for one in host["withheld"]}
    assert rig.does(f"ls {FOLDER}") == "rigops.prom"

    rig.apply(0, "--prune")

    assert (
        rig.host.run(f"{LEFT}; ls -d /etc/rigops; find /var/lib/systemd -name *rigops*").stdout
        == ""
    )
    assert rig.does("systemctl list-units --plain --no-legend 'rigops-*'") == ""
    assert rig.apply()["outcome"] == "converged"


def test_the_same_deploy_runs_under_plain_pyinfra(rig: Rig) -> None:
    rig.declare(**rig.declared)
    rig.pyinfra_twice("monitoring.py")

    assert rig.does(f"systemctl is-active {CHECK}.timer") == "active"
    assert rig.plan(0, "--only", "monitoring", **rig.declared)["changes"] == []


def test_what_base_owned_in_version_0_1_is_taken_over_and_nothing_is_lost(rig: Rig) -> None:
    record = "/var/lib/rigops/owned.json"
    rig.apply(0, "--prune", notify=rig.declared["notify"])
    old = json.loads(rig.does(f"cat {record}"))
    paths = ["/etc/rigops/notify", "/usr/local/libexec/rigops/notify"]
    old["files"] = [{**one, "concern": "base"} for one in old["files"] if one["path"] in paths]
    assert len(old["files"]) == 2
    rig.does(f"find /etc/systemd -name 'rigops-*' -delete; rm {PROGRAM} /etc/rigops/self_check")
    done = rig.host.run(f"cat >{record}", given=f"{json.dumps(old, indent=2)}\n")
    assert done.returncode == 0
    notify = {"notify": rig.declared["notify"]}

    assert rig.plan(0, "--only", "base", **notify)["changes"] == []
    planned = rig.plan(**notify)
    assert planned["undeclared"] == []
    assert [one for one in planned["changes"] if one["after"] is None] == []
    assert {one["concern"] for one in planned["changes"]} == {"monitoring"}
    assert not set(paths) & {one["subject"] for one in planned["changes"]}
    rig.apply(0, "--only", "base", **notify)
    assert rig.does(f"ls {' '.join(paths)}").split() == paths
    assert rig.apply(**notify)["outcome"] == "changed"

    host = rig.apply(1)
    assert [one["concern"] for one in host["withheld"]] == ["monitoring"]
    assert rig.does(f"ls {' '.join(paths)}").split() == paths


def test_a_release_leaves_nothing(rig: Rig) -> None:
    rig.apply(**rig.declared)
    rig.does(f"systemctl start {CHECK} {METRICS}")
    done = rig.laptop.rigops("release", NAME, "--yes", "--json", *INVENTORY)

    assert done.code == 0, done.out + done.err
    assert rig.host.run(f"{LEFT}; ls -d /etc/rigops /var/lib/rigops /run/rigops").stdout == ""
