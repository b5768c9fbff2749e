"""kernel_args: arguments of the kernel, tried by one boot before they become permanent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from rigops.concerns.concern import Concern, HostRecord, of_schema
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec.machine import kernel_argument
from rigops.inventory.spec.scalars import Key, list_of, word_key
from rigops.probe.sections.rigops_state import ARGUMENTS, LEAVING
from rigops.record.kernel_arguments import LEAVING_SCHEMA, UNREADABLE_FIX, parse_arguments

if TYPE_CHECKING:
    from rigops.facts.sections import SectionFact

NAME: Final = "kernel_args"


def _facts(_: RigSpec) -> Sequence[type[SectionFact[Any]]]:
    from rigops.facts.sections import Bootloader

    return (Bootloader,)


def _deploy(spec: RigSpec) -> None:
    from rigops.concerns.kernel_args.guards import arguments_can_count, consequences
    from rigops.concerns.kernel_args.operations import kernel_args
    from rigops.concerns.preconditions import guards

    wanted, again = _wanted(spec)
    arguments_can_count(name="Arguments that count", concern=NAME, wanted=wanted)
    kernel_args(
        name="Kernel arguments",
        wanted=wanted,
        again=again,
        declared=spec.kernel_args is not None or spec.driver_modules is not None,
        trial=spec.kernel_trial or "required",
    )
    guards.notices(
        name="Notices",
        concern=NAME,
        texts=lambda: (
            *consequences(wanted, p2p=spec.p2p),
            guards.virtual_machines(arguments=wanted),
            guards.no_snapshot(),
        ),
    )


def _wanted(spec: RigSpec) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """With the one of driver_modules, and what is to be tried although it is there already."""
    if spec.kernel_args is None and spec.driver_modules is None:
        return (), ()
    from rigops.concerns.driver_modules.operations import wanted_argument
    from rigops.concerns.kernel_args.guards import not_undone

    own, again = wanted_argument(spec)
    return tuple(dict.fromkeys((*(spec.kernel_args or ()), *not_undone(spec), *own))), again


def _reboot_reasons(spec: RigSpec) -> Iterator[str]:
    from rigops.concerns.kernel_args.guards import reboot_reasons

    wanted, _ = _wanted(spec)
    is_declared = spec.kernel_args is not None or bool(wanted)
    return reboot_reasons(NAME, wanted if is_declared else None)


KERNEL_ARGS: Final = Concern(
    name=NAME,
    keys=(
        Key(
            "kernel_args",
            'a list such as ["iommu=pt"]',
            list_of(kernel_argument, noun="kernel arguments"),
            ("kernel_arguments", "kernel_parameters", "kernel_cmdline"),
        ),
        word_key("kernel_trial", "required", "off"),
    ),
    deploy=_deploy,
    facts=_facts,
    records=(
        HostRecord(
            ARGUMENTS,
            "kernel arguments are neither added nor removed",
            parse_arguments,
            UNREADABLE_FIX,
            is_refused=True,
        ),
        HostRecord(
            LEAVING,
            "the arguments that leave with the next reboot are not known",
            of_schema(LEAVING_SCHEMA),
            "reboot the host",
        ),
    ),
    reboot_reasons=_reboot_reasons,
)
