"""What a host's data declare is read once a host, however many concerns and passes there are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from pyinfra.context import host

from rigops.concerns import registry
from rigops.concerns.concern import Concern, HostRequest, InventorySpecs
from rigops.converge.connector import HostChannel
from rigops.converge.engine import Engine
from rigops.converge.fleet_run import FleetRun
from rigops.converge.host_run import HostRun
from rigops.facts.sections import RigopsState
from rigops.inventory.spec.read import examine
from rigops.plan.context import provided
from rigops.probe.sections.rigops_state import RigopsState as StateFacts
from rigops.transport import LOCAL, Privilege
from tests.unit.converge.fakes import FakeHost, run_options

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rigops.converge.request import RunOptions
    from rigops.inventory.spec import RigSpec

DATA: dict[str, dict[str, object]] = {name: {"gpus": at} for at, name in enumerate("ab", start=1)}


class Reads:
    """How often each declaration of `DATA` was read, and what deploys got."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count: Counter[str] = Counter()
        self.specs: list[RigSpec] = []
        self.everybody: list[Mapping[str, RigSpec]] = []
        concerns = [Concern(name=f"toy{at}", keys=(), deploy=self._deploy) for at in range(10)]
        self.paths = [folder / f"{one.name}.py" for one in concerns]
        for path in self.paths:
            path.write_text(
                f"from rigops.concerns.deploying import deploy\n\ndeploy('{path.stem}')\n"
            )

        def counted(data: Mapping[str, object], keys: Any) -> Any:
            self.count.update(name for name, known in DATA.items() if known == data)
            return examine(data, keys)

        monkeypatch.setattr(registry, "CONCERNS", [*registry.CONCERNS, *concerns])
        monkeypatch.setattr(registry, "examine", counted)

    def plan_and_apply(self, engine: Engine) -> None:
        for name in DATA:
            channel = HostChannel(FakeHost(), Privilege("root"))
            engine.attach(name, channel, [(RigopsState, StateFacts())])
            engine.plan(name, self.paths)
            engine.apply(name, self.paths)

    def _deploy(self, spec: RigSpec) -> None:
        self.specs.append(spec)
        every = provided(host, InventorySpecs)
        assert every is not None
        self.everybody.append(every.by_host())


@pytest.fixture
def reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(tmp_path, monkeypatch)


def test_deploys_under_plain_pyinfra_read_it_once(reads: Reads) -> None:
    reads.plan_and_apply(Engine(DATA))

    assert reads.count == {"a": 1, "b": 1}
    assert {spec.gpus and spec.gpus.count for spec in reads.specs} == {1, 2}
    assert len(reads.specs) == len(DATA) * len(reads.paths) * 2


def test_deploys_of_rigops_get_what_the_inventory_was_read_to(reads: Reads) -> None:
    specs = {name: registry.read(data) for name, data in DATA.items()}
    reads.count.clear()
    hosts = [HostRequest(name, LOCAL, DATA[name], spec) for name, spec in specs.items()]
    engines: list[Engine] = []

    def make(request: HostRequest, options: RunOptions, engine: Engine) -> HostRun:
        engines.append(engine)
        return HostRun(request, options, engine)

    FleetRun(hosts, run_options(), make)
    reads.plan_and_apply(engines[0])

    assert reads.count == {}
    assert all(every == specs for every in reads.everybody)
