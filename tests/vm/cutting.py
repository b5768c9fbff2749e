"""Moments of an apply at which a machine's power is cut."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.lab.applying import QUIETLY
from tests.lab.laptop import RIGOPS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.lab.laptop import Running
    from tests.lab.vm.machines import Machine
    from tests.vm.trying import Tended

_PATIENCE_S = 240
_UNTIL = "for n in $(seq 2400); do if {}; then exit 0; fi; sleep 0.1; done; exit 1"


@contextmanager
def applying(rig: Tended, *options: str, program: Sequence[str] = RIGOPS) -> Iterator[Running]:
    """An apply that is going on; it ends here, as where the laptop has no power either."""
    running = rig.laptop.start("apply", *options, *QUIETLY, program=program)
    try:
        yield running
    finally:
        running.end()


def cut_when(machine: Machine, condition: str, patience: float = _PATIENCE_S) -> None:
    """As soon as this shell command succeeds in the machine."""
    machine.ssh(_UNTIL.format(condition), timeout=patience)
    machine.cut()


def cut_at(machine: Machine, running: Running, stage: str) -> None:
    """As soon as the apply says that it has come to this stage."""
    assert running.process.stderr is not None
    seen = []
    for line in running.process.stderr:
        seen.append(line)
        if line == f"{machine.name}: {stage}\n":
            machine.cut()
            return
    said = running.wait().out
    raise AssertionError(f"it did not come to {stage}: {''.join(seen)}{said}")


def switch_on(machine: Machine) -> None:
    """It has to boot without anybody's help."""
    assert not machine.is_on
    machine.start()
    machine.wait_for_ssh()
