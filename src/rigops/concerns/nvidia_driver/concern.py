"""driver and its keys: the pinned NVIDIA driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rigops.concerns.concern import Concern, HostRecord, HostRequest, Kept, ProvenHost, of_schema
from rigops.concerns.nvidia_driver import NAME, record
from rigops.hostside.packing import installed_at
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec.driver import driver, driver_source
from rigops.inventory.spec.machine import module_options
from rigops.inventory.spec.scalars import Key, boolean, word_key
from rigops.vault import pinned_set

if TYPE_CHECKING:
    from rigops.facts.sections import SectionFact


def _facts(spec: RigSpec) -> Sequence[type[SectionFact[Any]]]:
    from rigops.concerns.nvidia_driver.facts import (
        DriverHost,
        DriverModules,
        SecureBoot,
    )
    from rigops.facts.sections import GpuPackages, Modprobe, Pci

    if spec.driver is None:
        return ()
    return (DriverHost, DriverModules, GpuPackages, Modprobe, Pci, SecureBoot)


def _deploy(spec: RigSpec) -> None:
    from rigops.concerns.nvidia_driver.operations import nvidia_driver
    from rigops.concerns.preconditions import guards

    nvidia_driver(spec)
    because = "another driver" if spec.driver is not None else ""
    guards.notices(
        name="Notices",
        concern=NAME,
        texts=lambda: (guards.virtual_machines(because=because), guards.no_snapshot()),
    )


def _provide(request: HostRequest) -> object:
    from rigops.concerns.nvidia_driver.after_proof import vault_access

    return vault_access(request)


def _keep(host: ProvenHost) -> Kept:
    from rigops.concerns.nvidia_driver.after_proof import keep

    return keep(host)


NVIDIA_DRIVER: Final = Concern(
    name=NAME,
    brings_driver=True,
    keys=(
        Key(
            "driver",
            '"535", "535.261.03" or ">=535,<536"',
            driver,
            ("nvidia_driver", "driver_version", "driver_branch"),
        ),
        Key("driver_allow_bad", "True or False", boolean),
        Key(
            "driver_source",
            '"auto", "distribution", "vendor", "snapshot:DATE", "dir:PATH" or a dict of deb822 '
            "fields",
            driver_source,
        ),
        word_key("driver_flavor", "auto", "proprietary", "open", also_written=("driver_flavour",)),
        word_key("driver_set", "compute", "desktop"),
        Key("module_options", '{"nvidia": {"OPTION": VALUE}}', module_options),
        Key("kernel_hold", "True or False", boolean),
    ),
    deploy=_deploy,
    facts=_facts,
    records=(
        HostRecord(
            record.PATH,
            "the next apply resolves the driver again and writes it",
            of_schema(record.SCHEMA),
            "rigops apply",
        ),
        HostRecord(
            pinned_set.RECORD,
            "the next apply copies the packages to the vault again and writes it",
            of_schema(pinned_set.SCHEMA),
            "rigops apply",
        ),
    ),
    provide=_provide,
    keep=_keep,
    self_check=lambda spec: (
        (installed_at("kernel_hook"), "check") if spec.driver is not None else ()
    ),
)
