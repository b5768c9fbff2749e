"""Fixtures for tests on whole machines."""

from __future__ import annotations

import os
from itertools import count
from typing import TYPE_CHECKING

import pytest

from tests.lab.laptop import Laptop
from tests.lab.vm import guest, machines
from tests.lab.vm.requirements import lacks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab.vm.machines import Machine, System

_numbers = count(1)


class Machines:
    """Boots machines for one test, or for one module's, and throws them away with it."""

    def __init__(self) -> None:
        self._up: list[Machine] = []

    def up(
        self,
        *,
        layout: str = "ext4",
        rtc: str = "",
        memory: int = 1024,
        second: int = 0,
        cards: tuple[str, ...] = guest.TWO,
        system: System | None = None,
    ) -> Machine:
        """One that answers, with a name that no other run has."""
        name = f"vm-{os.getpid()}-{next(_numbers)}"
        machine = machines.up(
            name,
            layout=layout,
            rtc=rtc,
            memory=memory,
            second=second,
            cards=cards,
            system=system,
        )
        self._up.append(machine)
        return machine

    def end(self) -> None:
        for machine in self._up:
            machine.down()


def _machines() -> Iterator[Machines]:
    if reason := lacks():
        pytest.skip(f"vm tier: {reason}")
    made = Machines()
    yield made
    made.end()


@pytest.fixture
def vm() -> Iterator[Machines]:
    yield from _machines()


@pytest.fixture(scope="module")
def module_vm() -> Iterator[Machines]:
    yield from _machines()


@pytest.fixture
def laptop(tmp_path: Path) -> Laptop:
    """`laptop.declare({machine.name: {**machine.data, …}})` names a machine to it."""
    return Laptop(tmp_path)
