"""The driver's deploy, planned and applied by the engine on a host whose facts are known."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from rigops import assets
from rigops.concerns.nvidia_driver import record
from rigops.concerns.nvidia_driver.facts import (
    DriverHost,
    DriverModules,
    SecureBoot,
)
from rigops.concerns.nvidia_driver.pin import PREFERENCES
from rigops.concerns.nvidia_driver.resolver.request import identity
from rigops.concerns.registry import read
from rigops.converge.connector import HostChannel
from rigops.converge.engine import Engine
from rigops.facts.sections import (
    CommandLine,
    DriverLoaded,
    GpuPackages,
    Modprobe,
    OsRelease,
    Pci,
    RigopsState,
    Uname,
)
from rigops.ownership.ownership import OwnedFile, Ownership
from rigops.plan.context import Consent
from rigops.probe.sections.rigops_state import Present
from rigops.probe.sections.rigops_state import RigopsState as StateFacts
from rigops.transport import Connection, Privilege
from rigops.transport.local import LocalConnection
from tests.unit.converge.fakes import FakeHost

if TYPE_CHECKING:
    from collections.abc import Collection

    from rigops.plan.change import Plan

DEPLOY: Final = assets.find("deploys") / "nvidia_driver.py"
VERSION: Final = "535.171.04"
BUILD: Final = f"{VERSION}-0ubuntu2"
DECLARED: Final = {"driver": "535"}
PINNED: Final = record.PinnedDriver(
    version=VERSION,
    flavor="proprietary",
    declared=identity(read(DECLARED)),
    packages={"nvidia-dkms-535": BUILD},
    asked=("nvidia-dkms-535",),
)
PERSISTENCE: Final[tuple[dict[str, object], ...]] = (
    {},
    {"gpu_persistence": True},
    {"gpu_persistence": False},
)
TEXTS: Final[dict[Any, str]] = {
    CommandLine: "ro quiet",
    DriverHost: "== kernels\n6.8.0-31-generic headers\n",
    DriverLoaded: "",
    DriverModules: "",
    GpuPackages: (
        f"== dpkg-query -W\nnvidia-dkms-535\t{BUILD}\tamd64\tii \tnvidia-graphics-drivers-535\n"
    ),
    Modprobe: "",
    OsRelease: "ID=ubuntu\nVERSION_ID=24.04\nVERSION_CODENAME=noble\n",
    Pci: "",
    SecureBoot: "",
    Uname: "6.8.0-31-generic\nx86_64\n",
}


class Rig:
    """`reached`: what is asked beside the known facts is answered there."""

    def __init__(
        self, state: StateFacts, reached: Connection | None = None, **declared: object
    ) -> None:
        self.host = FakeHost()
        self.engine = Engine({"rig": declared})
        facts = [(fact, fact.section.parse(text)) for fact, text in TEXTS.items()]
        channel = HostChannel(reached or self.host, Privilege("root"))
        self.engine.attach("rig", channel, [(RigopsState, state), *facts])

    def plan(self, removals: Collection[str] | None = ()) -> Plan:
        return self.engine.plan("rig", [DEPLOY], consent=Consent(removals=removals))


def pinned(*, owns: bool = True) -> StateFacts:
    found = Present(sha256(b"a pin").hexdigest(), 0o644)
    owned = OwnedFile(
        path=PREFERENCES, concern="nvidia_driver", digest=found.digest, mode=found.mode
    )
    return StateFacts(
        owned=Ownership({PREFERENCES: owned} if owns else {}).to_json(),
        present={PREFERENCES: found} if owns else {},
        records={record.PATH: record.document(PINNED)},
    )


def test_without_consent_to_the_removal_the_record_of_the_driver_stays_too() -> None:
    rig = Rig(pinned())

    planned = rig.plan()
    rig.engine.apply("rig", [DEPLOY])

    assert (planned.changes, planned.pending) == ((), False)
    assert planned.undeclared == {"nvidia_driver": (PREFERENCES,)}
    assert rig.host.sent == []


def test_with_consent_the_pin_goes_and_the_record_after_it() -> None:
    rig = Rig(pinned())

    rig.engine.apply("rig", [DEPLOY], consent=Consent(removals=("nvidia_driver",)))

    sent = "".join(one.stdin for one in rig.host.sent)
    assert sent.index(PREFERENCES) < sent.index(record.PATH)


def test_a_removal_that_was_cut_off_before_the_record_is_finished_with_consent_only() -> None:
    rig = Rig(pinned(owns=False))

    assert not rig.plan().pending
    assert rig.plan().undeclared == {"nvidia_driver": (record.PATH,)}
    assert rig.plan(removals=None).pending


def test_the_daemon_is_started_with_the_driver_unless_persistence_is_declared_off() -> None:
    undeclared, on, off = (
        Rig(pinned(), LocalConnection(), **DECLARED, **more).plan().changes for more in PERSISTENCE
    )

    assert any("persistenced" in one.subject for one in undeclared)
    assert undeclared == on
    assert off == tuple(one for one in on if "persistenced" not in one.subject)
