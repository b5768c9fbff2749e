"""Guards in deploys, planned and applied by the engine: what they say, and what they ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rigops import assets
from rigops.concerns.kernel_args.bootloader import grub
from rigops.concerns.kernel_args.kernel_line import TUNED as TUNED_FILE
from rigops.converge.connector import RigopsConnector
from rigops.converge.errors import DeployError
from rigops.facts.files import FileFound
from rigops.plan.context import Consent
from rigops.probe.sections.rigops_state import Present
from rigops.probe.sections.rigops_state import RigopsState as StateFacts
from rigops.transport.local import LocalConnection
from tests.unit.converge.fakes import FakeHost
from tests.unit.converge.known_host import GUARD_PATHS, boot_facts, engine_of, guarded
from tests.unit.converge.test_kernel_args import boot, ours

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.plan.change import Plan
    from rigops.transport import Connection
    from rigops.transport.connection import Execution

KERNEL_ARGS = assets.find("deploys") / "kernel_args.py"
VFIO = "0000:0b:00.0 vendor=0x10de device=0x2204 class=0x030000 driver=vfio-pci\n"
BUSY = "== ls -l /proc/[0-9]*/fd\npid=4711 comm=python3\n"
CONFIGURED = boot("root=UUID=1 ro quiet iommu=pt", drop_in=grub.drop_in(["iommu=pt"]))
PENDING = boot("root=UUID=1 ro quiet")


class AnsweringHost(LocalConnection):
    """This machine answers what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def _execute(self, execution: Execution, deadline_s: float) -> int:
        self.asked += 1
        return super()._execute(execution, deadline_s)


class Rig:
    """`looked`: what guards ask has been seen already, with the answers given."""

    def __init__(
        self,
        declared: list[str] | None,
        *,
        bootloader: Any = PENDING,
        state: StateFacts | None = None,
        looked: bool = True,
        reached: Connection | None = None,
        **answers: str,
    ) -> None:
        self.host = FakeHost()
        data = {"kernel_args": declared, "kernel_trial": "off"}
        known = boot_facts(bootloader, state, line=answers.get("command_line", "ro quiet"))
        tuned = answers.get("tuned")
        self.engine = engine_of(
            reached or self.host,
            data,
            known | (guarded(**answers) if looked else {}),
            GUARD_PATHS if looked else (),
            {TUNED_FILE: FileFound(Present("0" * 64, 0o644), tuned)} if tuned else None,
        )

    def plan(self, deploy: Path = KERNEL_ARGS) -> Plan:
        return self.engine.plan("rig", [deploy])

    def apply(self, deploy: Path = KERNEL_ARGS) -> None:
        self.engine.apply("rig", [deploy])


def notices(planned: Plan) -> list[str]:
    return [text for _, text in planned.notices]


def test_a_converged_host_is_asked_nothing_for_its_guards() -> None:
    rig = Rig(["iommu=pt"], bootloader=CONFIGURED, state=ours("iommu=pt"), looked=False)

    planned = rig.plan()

    assert not planned.pending
    assert not planned.notices
    assert rig.host.sent == []


def test_a_host_where_nothing_is_declared_is_asked_nothing_either() -> None:
    rig = Rig(None, looked=False)

    rig.plan()
    assert rig.host.sent == []


def test_all_that_guards_want_to_know_of_a_change_is_asked_in_one_exec() -> None:
    host = AnsweringHost()

    assert Rig(["iommu=pt"], looked=False, reached=host).plan().pending
    assert host.asked == 1


def test_a_change_is_carried_out_without_asking_its_guards_again() -> None:
    rig = Rig(["iommu=pt"], looked=False)

    rig.apply()

    assert len(rig.host.sent) == 1
    assert "grub-mkconfig" in rig.host.sent[0].stdin


def test_the_plan_names_virtual_machines_tuned_and_the_missing_snapshot() -> None:
    rig = Rig(["iommu=pt"], pci=VFIO, root="btrfs", tuned='TUNED_BOOT_CMDLINE="iommu=off"\n')

    planned = rig.plan()

    of_isolation, of_tuned, of_machines, of_root = notices(planned)
    assert "isolation" in of_isolation
    assert "iommu=pt and iommu=off" in of_tuned
    assert "GPU 0000:0b:00.0 bound to vfio-pci" in of_machines
    assert "takes no snapshot" in of_root
    assert not planned.blocked
    assert rig.host.sent == []


@pytest.mark.parametrize(
    ("declared", "command_line"), [(["pci=realloc"], "ro quiet"), (["iommu=pt"], "ro iommu=pt")]
)
def test_virtual_machines_are_not_spoken_of_where_no_iommu_argument_comes(
    declared: list[str], command_line: str
) -> None:
    rig = Rig(declared, pci=VFIO, command_line=command_line)

    assert rig.plan().pending
    assert notices(rig.plan()) == []


def test_an_ordinary_host_gets_no_notice() -> None:
    assert notices(Rig(["pci=realloc"]).plan()) == []


def test_what_is_true_of_the_host_is_said_once_for_all_concerns(tmp_path: Path) -> None:
    deploy = tmp_path / "two.py"
    deploy.write_text(
        "from rigops.concerns.preconditions.guards import no_snapshot, notices\n"
        "from rigops.concerns.kernel_args.operations import kernel_args\n"
        "from rigops.ownership.owned_files import owned_file\n"
        "kernel_args(wanted=('iommu=pt',), trial='off')\n"
        "notices(concern='kernel_args', texts=lambda: [no_snapshot()])\n"
        "owned_file(concern='other', path='/etc/other', content='x')\n"
        "notices(concern='other', texts=lambda: [no_snapshot()])\n"
    )
    rig = Rig(["iommu=pt"], root="btrfs")
    RigopsConnector.for_host(rig.engine._host("rig")).channel.cache.seed_files(["/etc/other"], {})

    assert len(notices(rig.plan(deploy))) == 1


def _guarded(folder: Path, guard: str) -> Path:
    """A deploy of a concern that does not exist yet, guarded before its change."""
    deploy = folder / "gpu_tuning.py"
    deploy.write_text(
        "from rigops.concerns.preconditions.guards import gpus_are_free\n"
        "from rigops.concerns.kernel_args.operations import kernel_args\n"
        f"{guard}\n"
        "kernel_args(wanted=('iommu=pt',), trial='off')\n"
    )
    return deploy


def test_jobs_on_the_cards_are_in_the_way_of_a_disruptive_change(tmp_path: Path) -> None:
    deploy = _guarded(tmp_path, "gpus_are_free(concern='nvidia_driver')")
    rig = Rig(None, processes=BUSY)

    ((concern, reason),) = rig.plan(deploy).blocked
    rig.host.exit_code, rig.host.stderr = 1, b"python3 (4711)"
    with pytest.raises(DeployError, match=r"python3 \(4711\)"):
        rig.apply(deploy)

    assert concern == "nvidia_driver"
    assert "python3 (4711)" in reason
    assert "--allow-busy" in reason
    assert not any("grub-mkconfig" in sent.stdin for sent in rig.host.sent)


def test_jobs_on_the_cards_are_only_told_where_somebody_agreed(tmp_path: Path) -> None:
    deploy = _guarded(tmp_path, "gpus_are_free(concern='nvidia_driver')")
    rig = Rig(None, processes=BUSY)

    planned = rig.engine.plan("rig", [deploy], consent=Consent(interrupt=True))

    assert not planned.blocked
    assert notices(planned) == ["GPU jobs are interrupted: python3 (4711)"]
    assert rig.plan(deploy).blocked


def test_free_cards_are_no_obstacle_and_unseen_ones_are(tmp_path: Path) -> None:
    deploy = _guarded(tmp_path, "gpus_are_free(concern='nvidia_driver')")

    assert not Rig(None).plan(deploy).blocked
    assert Rig(None, processes="what").plan(deploy).blocked
