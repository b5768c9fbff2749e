"""Containers with cards, started the ways that people start them.

One call starts one, on a host with `containers=on`:

    vllm = start(host, "vllm", engine="podman", runtime="crun", way="cdi", cards=(0, 1))
    assert vllm.may_open("nvidia1")
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from tests.lab.engines import IMAGE, SCOPES, SLICES, does, prepare, run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.lab.engines import Engine, Runtime
    from tests.lab.hosts import Host

# By the hook of the legacy runtime, which systemd does not know of; or with the nodes named to the
# engine, by hand or in a CDI specification.
Way = Literal["hook", "device", "cdi"]

CDI_SPEC: Final = "/var/run/cdi/nvidia.yaml"
WITH_EVERY_CARD: Final = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
# Its control group and its view of /dev, and none of its engine, which would start units.
_OPEN = """
group=$(sed -n s/^0:://p /proc/{0}/cgroup)
echo $$ >/sys/fs/cgroup$group/cgroup.procs
exec nsenter --target {0} --mount -- sh -c '(exec 3<>/dev/{1}) 2>&1'
"""
# No driver is behind the nodes: who gets past the control group is told that.
_ALLOWED, _DENIED = "No such device or address", "Operation not permitted"


@dataclass(frozen=True)
class Container:
    host: Host
    engine: Engine
    name: str
    id: str

    @property
    def unit(self) -> str:
        return SCOPES[self.engine].format(self.id)

    @property
    def slice(self) -> str:
        return SLICES[self.engine]

    @property
    def pid(self) -> int:
        command = f"{self.engine} inspect --format '{{{{.State.Pid}}}}' {self.id}"
        return int(does(self.host, command))

    def may_open(self, node: str = "nvidia0") -> bool:
        """Whether its control group lets it; the node has to be in its /dev."""
        text = self.host.run(_OPEN.format(self.pid, node)).stdout.strip()
        assert text.endswith((_ALLOWED, _DENIED)), f"{self.name}: {node}: {text}"
        return text.endswith(_ALLOWED)

    def nodes(self) -> tuple[str, ...]:
        """The cards' in its /dev."""
        return tuple(does(self.host, f"cd /proc/{self.pid}/root/dev && ls -d nvidia*").split())

    def restart(self) -> None:
        does(self.host, f"{self.engine} restart --time 0 {self.id}")

    def remove(self) -> None:
        does(self.host, f"{self.engine} rm --force {self.id}")


def start(
    host: Host,
    name: str,
    *,
    engine: Engine = "docker",
    runtime: Runtime = "runc",
    way: Way = "hook",
    cards: Sequence[int] = (0,),
) -> Container:
    """One that sleeps until it is removed."""
    prepare(host, engine)
    if way == "cdi":
        _write_cdi_spec(host)
    words = [*run(engine, runtime), "--detach", "--name", name, *_with_cards(engine, way, cards)]
    output = does(host, shlex.join([*words, IMAGE, "sleep", "1000000"]))
    return Container(host, engine, name, output.split("\n")[-1])


def reload(host: Host, slice_: str = "system.slice") -> None:
    """Until systemd 257 has applied it too: with the next unit of the slice."""
    does(host, f"systemctl daemon-reload && {start_unit(slice_)}")


def start_unit(slice_: str) -> str:
    return f"systemd-run --quiet --wait --collect --slice={slice_} true"


def _with_cards(engine: Engine, way: Way, cards: Sequence[int]) -> list[str]:
    numbers = ",".join(str(card) for card in cards)
    if way == "cdi":
        return [word for card in cards for word in ("--device", f"nvidia.com/gpu={card}")]
    if way == "device":
        names = (*(f"nvidia{card}" for card in cards), *WITH_EVERY_CARD)
        return [word for name in names for word in ("--device", f"/dev/{name}")]
    if engine == "docker":
        return ["--gpus", f'"device={numbers}"']
    return ["--env", f"NVIDIA_VISIBLE_DEVICES={numbers}"]


def _write_cdi_spec(host: Host) -> None:
    """Unless a test has written one of its own."""
    cards = range(len(host.rig().gpus))
    spec = {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [{"name": str(card), **_edits([f"nvidia{card}"])} for card in cards],
        **_edits(WITH_EVERY_CARD),
    }
    folder = CDI_SPEC.rpartition("/")[0]
    does(
        host,
        f"test -e {CDI_SPEC} || {{ mkdir -p {folder} && echo {shlex.quote(json.dumps(spec))}"
        f" >{CDI_SPEC}; }}",
    )


def _edits(names: Sequence[str]) -> dict[str, object]:
    return {"containerEdits": {"deviceNodes": [{"path": f"/dev/{name}"} for name in names]}}
