"""Words that a shell would run, wherever somebody's words get near a shell of root's.

A row more is a line in one of the tables. Whatever runs a payload leaves a file that is called so.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from rigops.probe.bundles.reading import read_all
from rigops.probe.sections import nccl
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.shards import ATTACK

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.conftest import Lab

pytestmark = pytest.mark.shard(ATTACK)

MARK = "ran-as-root"
PAYLOADS = (
    f"$(>{MARK})",
    f"`>{MARK}`",
    f";>{MARK};",
    f"|>{MARK}&",
    f"'>{MARK}'",
    f'">{MARK};"',
    f"\\$(>{MARK})",
    f"a[$(>{MARK})]",
    f"* -exec touch {MARK} ;",
    f"x\n>{MARK}\n",
    f"x\nEND_OF_PROGRAM\n>{MARK}\n",
    f"-o ProxyCommand=touch${{IFS}}{MARK}",
)

# What a local user can name, with a payload in the name.
NAMES = (
    "/home/mallory/.config/environment.d/{}.conf",
    "/home/mallory/.config/systemd/user/{}.service",
    "/home/mallory/.cache/vllm/gpu_p2p_access_cache_for_{}.json",
    "/home/mallory/{}/lib/python3/site-packages/nvidia_nccl_cu12-2.9.9.dist-info",
    "/home/mallory/.config/borgmatic/{}.yaml",
    "/home/mallory/.config/borg/keys/{}",
    "/home/mallory/.config/borg/security/{}/manifest-timestamp",
    "/home/mallory/.borgmatic/checks/{}/1",
    "/dev/shm/nccl-{}",
)
# A program of this name runs; the kernel keeps 15 bytes of it.
PROCESSES = ("nv_queue$(>x)", "nv_queue`>x`", "nv_queue;>x;", "nv_queue a[`>x`")

# What an inventory declares and no key takes.
REFUSED: tuple[tuple[str, object], ...] = (
    *(("kernel_args", [f"a={payload}"]) for payload in PAYLOADS),
    *(("module_options", {payload: {"a": 1}}) for payload in PAYLOADS),
    *(("module_options", {"nvidia": {payload: 1}}) for payload in PAYLOADS),
    *(("limits", {name: payload}) for name in ("shm", "memlock", "nofile") for payload in PAYLOADS),
    *(("nccl", {payload: "1"}) for payload in PAYLOADS),
    *(("driver", payload) for payload in PAYLOADS),
    *(("driver_flavor", payload) for payload in PAYLOADS),
    *(("acs_redirect", payload) for payload in PAYLOADS),
    ("nccl", {"NCCL_A": f"x\nNCCL_B=1 >{MARK}"}),
    ("notify", f"true\nurl\nhttp://{MARK}"),
)
# And what a key takes: it comes to the host as it is.
TAKEN = tuple(payload for payload in PAYLOADS if "\n" not in payload)


class Rig(Tended):
    def ran(self) -> str:
        return self.host.run(
            rf"find / /run /tmp /dev/shm -xdev -newer /srv/planted \( -name '{MARK}*' -o -name x \)"
        ).stdout


@pytest.fixture(scope="module")
def rig(module_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Rig:
    host = module_lab.one("desktop-3060-1060")
    lines = ["set -e", "useradd --create-home --shell /bin/sh mallory", "umask 022"]
    for path in [name.format(payload) for name in NAMES for payload in PAYLOADS]:
        folder = path if path.endswith(".dist-info") else path.rpartition("/")[0]
        lines.append(f"mkdir -p {shlex.quote(folder)}")
        if folder != path:
            lines.append(f"echo NCCL_DEBUG=INFO >{shlex.quote(path)}")
    lines.append("mkdir /home/mallory/bin; cd /home/mallory/bin")
    for name in PROCESSES:
        program = shlex.quote(f"./{name}")
        lines.append(f"cp /bin/sleep {program}; {program} 900 </dev/null >/dev/null 2>&1 &")
    lines += ["chown -R mallory /home/mallory", "touch /srv/planted"]
    done = host.run("\n".join(lines))
    assert done.returncode == 0, done.stderr
    return Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_names_that_a_local_user_chooses_are_never_run(rig: Rig, shell: str) -> None:
    rig.host.run(f"ln -sf {shell} /usr/bin/sh")
    rig.declare()

    said = rig.laptop.doctor("-i", "inventory.py", "--save", f"{shell}.tar.gz", "--raw")

    (bundle,) = read_all(rig.laptop.folder / f"{shell}.tar.gz")
    rig.host.run("ln -sf dash /usr/bin/sh")
    assert said.code in {0, 1}, said.err
    assert not [name for name, one in bundle.sections.items() if one.timed_out]
    named = {one.file for one in nccl.parse(bundle.sections["nccl"].text).settings}
    assert NAMES[0].format(PAYLOADS[0]) in named
    assert PROCESSES[0][:15] in bundle.sections["processes"].text
    assert rig.ran() == ""


def test_values_that_a_shell_would_run_are_refused_before_any_host_is_reached(
    rig: Rig, tmp_path: Path
) -> None:
    laptop = Laptop(tmp_path)
    laptop.declare({f"row-{number}": {key: value} for number, (key, value) in enumerate(REFUSED)})

    said = laptop.rigops("plan", "--json", "-i", "inventory.py")

    assert said.code == 2
    refused = {error["host"] for error in said.json()["errors"]}
    assert [row for number, row in enumerate(REFUSED) if f"row-{number}" not in refused] == []
    assert not list(tmp_path.rglob(f"{MARK}*"))
    assert rig.ran() == ""


def test_values_that_are_taken_come_to_the_host_as_they_are(rig: Rig) -> None:
    values = {f"NCCL_A{number}": value for number, value in enumerate(TAKEN)}
    command = f"echo {'; echo '.join(map(shlex.quote, TAKEN))}"

    first = rig.apply(nccl=values, notify=command)
    again = rig.apply(nccl=values, notify=command)

    assert (first["outcome"], again["outcome"]) == ("changed", "converged")
    written = rig.host.run("cat /etc/nccl.conf").stdout.splitlines()
    assert [line for line in written if not line.startswith("#")] == [
        f"{name}={value}" for name, value in values.items()
    ]
    assert rig.host.run("cat /etc/rigops/notify").stdout == f"command\n{command}\n"
    assert rig.ran() == ""


def test_no_name_of_a_host_is_an_option_or_a_command(tmp_path: Path) -> None:
    targets = (f"-oProxyCommand=touch {MARK}", *TAKEN)
    laptop = Laptop(tmp_path)
    laptop.declare({f"row-{number}": {"ssh_hostname": one} for number, one in enumerate(targets)})

    named = [laptop.doctor("--", target) for target in targets[:2]]
    declared = laptop.doctor("-i", "inventory.py")

    assert {one.code for one in (*named, declared)} <= {2, 3}
    assert not list(tmp_path.rglob(f"{MARK}*"))
