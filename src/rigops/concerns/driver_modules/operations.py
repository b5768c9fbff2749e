"""The owner's own kernel modules: sent, built, and chosen at boot by a kernel argument.

The stock modules stay installed as they are. Nothing is chosen before the modprobe file is there,
which comes last, and before kernel_args has its argument tried by one boot.
"""

from __future__ import annotations

import shlex
from collections.abc import Generator, Iterator, Mapping
from datetime import datetime, timezone
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from pyinfra.api.command import QuoteString, StringCommand
from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.concerns.driver_modules import NAME, decide, record
from rigops.concerns.driver_modules.declared_tree import own_tree
from rigops.concerns.driver_modules.late_mounts import LateMounts
from rigops.concerns.driver_modules.tree import Tree
from rigops.concerns.host_catalog import catalog_of
from rigops.concerns.nvidia_driver import record as driver_record
from rigops.concerns.nvidia_driver.facts import machine
from rigops.concerns.nvidia_driver.modprobe import kernel_module
from rigops.concerns.nvidia_driver.modules import INITRAMFS
from rigops.concerns.nvidia_driver.resolver.host_facts import card_of
from rigops.concerns.nvidia_driver.resolver.request import Blocker, Resolution
from rigops.facts.sections import CommandLine, OwnModules, Pci, RigopsState, Uname
from rigops.hostside.packing import installed_at
from rigops.ownership.file_work import FileWork
from rigops.ownership.file_work_command import FileWorkCommand
from rigops.ownership.owned_files import owned_file, owned_program, undo_undeclared
from rigops.ownership.ownership import Ownership
from rigops.packages.operations import packages
from rigops.plan.change import Change
from rigops.plan.commands import ReportedCommand, blockers, streaming_script
from rigops.plan.context import (
    announce,
    headline,
    housekeeping,
    notice,
    provided,
    trial_options,
    wanted_paths,
    warning,
)
from rigops.probe.package_names import headers_of
from rigops.probe.sections.own_modules import ARGUMENT, FOLDER, MODPROBE_FILE
from rigops.rendering import render
from rigops.vault.store import amount

if TYPE_CHECKING:
    from rigops.concerns.nvidia_driver.resolver.machine import Machine
    from rigops.inventory.spec import RigSpec
    from rigops.plan.commands import StreamingCommand
    from rigops.probe.sections.own_modules import BuiltSet

CHOOSER: Final = "nvidia_modules"
BUILDER: Final = "own_modules"
TOOLS: Final = ("dkms", "g++", "make")

_PIECE: Final = 8 * 1024 * 1024
_LONGEST_S: Final = 4 * 3600  # for each kernel and the shared part, on a slow machine
_NO_DRIVER: Final = "not before the driver: its own blocker is above"
_RECEIVE: Final = f"""\
set -eu
umask 077
mkdir -p {FOLDER}
chmod 755 {FOLDER}
[ "$1" != first ] || rm -f {FOLDER}/.sent
cat >>{FOLDER}/.sent
"""
_ENTER: Final = f"""\
set -eu
found=$(sha256sum <{FOLDER}/.sent)
[ "${{found%% *}}" = "$2" ] || {{
    echo "the tree did not arrive whole: run this again" >&2
    exit 1
}}
sync {FOLDER}/.sent
mv -f {FOLDER}/.sent "{FOLDER}/$1.tar.gz"
touch "{FOLDER}/$1.tar.gz"
sync {FOLDER}
"""
# Where the power was cut while it was made, an early boot would know nothing of the choice.
_RENEW: Final = f"""\
old=
for image in /boot/initr*; do
    [ ! -e "$image" ] || [ "$image" -nt {MODPROBE_FILE} ] || old=yes
done
if [ -n "$old" ]; then
{INITRAMFS}
fi
"""


def driver_modules(spec: RigSpec) -> None:
    """Have modules of this tree for the kernels that boot; undeclared, only the stock ones."""
    if spec.driver_modules is None:
        undone(declared=False)
        if spec.p2p == "required":
            known = catalog_of(host)
            cards = [card_of(known, one) for one in host.get_fact(Pci).nvidia_gpus]
            for text in decide.needed_for_p2p(cards):
                notice(host, NAME, text)
        return
    tree = own_tree(host, spec)
    if _fails_now():
        if isinstance(tree, Tree):
            options = trial_options(host)
            reason = options.failed if options else ""
            told = decide.options(spec)
            not_tried_again(name="Record", digest=tree.digest, options=told, reason=reason)
        return
    if not isinstance(tree, Tree):
        blockers(name="The tree", concern=NAME, reasons=(_text(tree),))
        return
    seen = machine(host, catalog_of(host))
    stock = _stock_module()
    unusable = _usable(spec, tree, seen)
    if unusable or stock is None:
        reason = _text(unusable) if unusable else _NO_DRIVER
        blockers(name="The modules", concern=NAME, reasons=(reason,))
        return
    _have(spec, tree, seen, stock)
    undone(declared=True)


def undone(*, declared: bool) -> None:
    undo_undeclared(
        name="Undo undeclared settings",
        concern=NAME,
        declared=declared,
        effects={
            MODPROBE_FILE: INITRAMFS,
            installed_at(BUILDER): f"rm -rf {FOLDER} {record.PATH}",
        },
    )


def wanted_argument(spec: RigSpec) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The kernel argument that chooses them, and the same where one boot has to try this tree.

    None while modprobe does not ask for them, and none for a tree that failed.
    """
    if spec.driver_modules is None:
        return (), ()
    state, tree = host.get_fact(RigopsState), own_tree(host, spec)
    is_coming = MODPROBE_FILE in wanted_paths(host, NAME)
    if not is_coming and MODPROBE_FILE not in Ownership.from_state(state).files:
        return (), ()
    if tree is None or isinstance(tree, Blocker):  # as it is until that can be read again
        return (ARGUMENT,), ()
    failed = record.failed(state.records.get(record.PATH))
    if _fails_now() or decide.has_failed(tree, decide.options(spec), failed):
        return (), ()
    return (ARGUMENT,), () if host.get_fact(OwnModules).digest == tree.digest else (ARGUMENT,)


def reboot_reasons(spec: RigSpec) -> Iterator[str]:
    wanted, again = wanted_argument(spec)
    if not wanted or not again or ARGUMENT not in host.get_fact(CommandLine).arguments:
        return  # before the argument, kernel_args has the reason
    there = host.get_fact(OwnModules)
    if there.chosen == "own":
        yield f"the kernel runs with modules of another tree ({there.digest[: decide.SHORT]})"
    elif there.chosen:
        yield f"the kernel runs with the stock modules: {decide.because(there.reason)}"


def _text(found: Blocker | None) -> str:
    return f"{found.reason}. fix: {found.fix}" if found else ""


def _fails_now() -> bool:
    options = trial_options(host)
    return options is not None and bool(options.failed) and ARGUMENT in options.tried


def _usable(spec: RigSpec, tree: Tree, seen: Machine) -> Blocker | None:
    failed = record.failed(host.get_fact(RigopsState).records.get(record.PATH))
    return (
        decide.unfit(tree, seen, catalog_of(host))
        or decide.late(host.get_fact(LateMounts))
        or decide.has_failed(tree, decide.options(spec), failed)
    )


def _stock_module() -> str | None:
    """What modprobe knows the stock nvidia.ko as; None: there is no driver, nor is one coming."""
    coming = provided(host, Resolution)
    pinned = driver_record.pinned(host.get_fact(RigopsState).records.get(driver_record.PATH))
    packages = coming.packages if coming else pinned.packages if pinned else None
    return kernel_module(packages) if packages is not None else None


def _have(spec: RigSpec, tree: Tree, seen: Machine, stock: str) -> None:
    there = host.get_fact(OwnModules)
    kernels = decide.kernels_to_have(seen.own_kernels, host.get_fact(Uname).release or "")
    lacking = decide.to_build(tree, kernels, there)
    owned_program(name=CHOOSER, concern=NAME, program=CHOOSER)
    owned_program(name=BUILDER, concern=NAME, program=BUILDER)
    if lacking:
        before = next(iter(there.trees), "")
        headline(host, NAME, f"kernel modules of your own {decide.named(tree)}")
        for text in decide.notes(tree, lacking, is_new=before != tree.digest):
            notice(host, NAME, text)
        if text := decide.lacking_option(tree, seen.cards, spec):
            warning(host, NAME, text)
        headers = (
            headers_of(one.release)
            for one in seen.kernels
            if one.release in lacking and not one.has_headers
        )
        packages(
            name="Tools to build with",
            concern=NAME,
            install=dict.fromkeys((*TOOLS, *headers)),
        )
    tree_sent(name="The tree", tree=tree, there=there.trees)
    modules_built(name="Modules", tree=tree, kernels=lacking, built=there.built)
    owned_file(
        name=MODPROBE_FILE,
        concern=NAME,
        path=MODPROBE_FILE,
        content=render(
            "rigops-nvidia-modules.conf.j2", program=installed_at(CHOOSER), module=stock
        ),
        effect=INITRAMFS,
    )
    options = trial_options(host)
    if options is not None and options.now:
        initramfs_renewed(name="Initramfs")


@operation()
def initramfs_renewed() -> Generator[StringCommand, None, None]:
    """Have early boots read the modprobe file. Call it before the boot that tries the modules."""
    housekeeping(host, NAME, "the initramfs")
    yield StringCommand("sh", "-c", QuoteString(_RENEW))


@operation()
def tree_sent(*, tree: Tree, there: tuple[str, ...]) -> Generator[StringCommand, None, None]:
    """Have this tree on the host, in a folder that only root writes to.

    + tree: as it was read on this machine
    + there: digests of those that were sent
    """
    if there == (tree.digest,):
        host.noop("the tree is there")
        return
    path = f"{FOLDER}/{tree.digest}.tar.gz"
    size = len(tree.archive)
    announce(host, Change(NAME, "file", path, None, f"{tree.version}, {amount(size)} to send\n"))
    for start in range(0, size, _PIECE):
        yield ReportedCommand(
            "sh",
            "-c",
            QuoteString(_RECEIVE),
            "rigops",
            "more" if start else "first",
            progress=f"sending the modules: {amount(start)} of {amount(size)}",
            stdin=tree.archive[start : start + _PIECE],
        )
    whole = sha256(tree.archive).hexdigest()
    yield StringCommand("sh", "-c", QuoteString(_ENTER), "rigops", tree.digest, whole)


@operation()
def modules_built(
    *, tree: Tree, kernels: tuple[str, ...], built: Mapping[str, BuiltSet]
) -> Generator[StreamingCommand, None, None]:
    """Have modules of this tree for these kernels, built on the host beside the stock ones.

    + tree: as it was read on this machine
    + kernels: those that lack them
    + built: what there is for each kernel
    """
    if not kernels:
        host.noop(f"every kernel has the modules {decide.named(tree)}")
        return
    for kernel in kernels:
        before = built.get(kernel)
        text = f"{before.version}, tree {before.digest}\n" if before else None
        after = f"{tree.version}, tree {tree.digest}\n"
        announce(host, Change(NAME, "module", decide.subject(kernel), text, after))
    words = shlex.join((installed_at(BUILDER), "build", *kernels))
    yield streaming_script(words, timeout_s=_LONGEST_S)


@operation()
def not_tried_again(
    *, digest: str, options: str, reason: str
) -> Generator[FileWorkCommand, None, None]:
    """Record that a boot or a preflight with this tree failed.

    + digest: of the tree
    + options: that module_options declared for it
    + reason: in a phrase
    """
    at = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    failed = record.FailedModules(digest, reason, at, options)
    owned = Ownership.from_state(host.get_fact(RigopsState))
    housekeeping(host, NAME, record.PATH)
    work = FileWork(before=owned, notes={record.PATH: failed.to_json().encode()})
    yield FileWorkCommand(work, touches=frozenset())
