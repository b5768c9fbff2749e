"""Whether programs can reach the driver: its device nodes, and the users that may open them."""

from __future__ import annotations

from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix, Status, fix_by_hand
from rigops.doctor.views import driver_state
from rigops.probe.sections.dev_nodes import SECTION as DEV_NODES
from rigops.probe.sections.dev_nodes import DevNode, DevNodes
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION

_CONTROL = "/dev/nvidiactl"
_UVM = "/dev/nvidia-uvm"
_MAKE = "`nvidia-modprobe -u -c 0` makes them (as root; package nvidia-modprobe)"


@Check("drv.uvm_nodes", needs=(NVIDIA_VERSION, DEV_NODES), fixes=("hands",))
def nodes(examined: Examined) -> Finding:
    """The driver's device nodes are there and can be opened.

    Looks at /dev/nvidia0 and so on, /dev/nvidiactl and /dev/nvidia-uvm while a driver is loaded. A
    missing node is a failure, but for those that nvidia-modprobe makes when a program asks; so is
    an nvidia-uvm with the number of an earlier boot (/proc/devices). Nodes that only root may open
    are a warning, those of a group are information.
    """
    snapshot = examined.snapshot
    version, found = snapshot[NVIDIA_VERSION].value, snapshot[DEV_NODES].value
    if version is not None and snapshot[NVIDIA_VERSION].is_complete and not version.is_loaded:
        return _finding("skipped", f"{driver_state.NOT_LOADED}, so it has no device nodes")
    if found is None or version is None or not version.version:
        return _finding("unknown", "the driver's device nodes were not collected")
    return _judged(examined, found)


def _judged(examined: Examined, found: DevNodes) -> Finding:
    uvm, major = found.node(_UVM), found.majors.get("nvidia-uvm")
    is_stale = uvm is not None and major is not None and uvm.major != major
    missing = _missing(examined, found)
    is_complete = examined.snapshot[DEV_NODES].is_exhaustive
    if is_stale and uvm:
        return _broken(f"{_UVM} is not the driver's any more (it is {major})", (uvm,))
    if missing and is_complete:
        return _broken(f"{', '.join(missing)} is missing", found.cards[:2])
    if missing or not is_complete:
        return _finding("unknown", "not all of the driver's device nodes were read")
    closed = [
        one for one in (*found.cards, found.node(_CONTROL), uvm) if one and not one.is_for_all
    ]
    if closed:
        return _closed(closed)
    if uvm is None or major is None:
        return _finding("info", f"{_UVM} is made when the first program asks for it")
    return _finding("ok", "the driver's device nodes are there, and open to all", (uvm,))


def _missing(examined: Examined, found: DevNodes) -> list[str]:
    """Nodes without which nothing works, and those that nothing would make on demand."""
    held = [driver_state.bound_to(card) for card in examined.cards]
    driven = sum(1 for one in held if one and one[0] == driver_state.DRIVER)
    absent = [] if found.node(_CONTROL) else [_CONTROL]
    if not found.makes_nodes_itself:
        if len(found.cards) < driven:
            absent.append(f"the node of {driven - len(found.cards)} card(s) (/dev/nvidiaN)")
        if not found.node(_UVM):
            absent.append(_UVM)
    return absent


def _broken(summary: str, shown: tuple[DevNode, ...]) -> Finding:
    return _finding(
        "fail",
        summary,
        shown,
        why="CUDA opens these nodes. Without them cuInit fails with 999 or 100, even where "
        "nvidia-smi works.",
        fix=fix_by_hand(
            f"{_MAKE}; `systemctl enable --now --no-reload nvidia-persistenced` makes those of the "
            "cards at every boot. In a container, pass the nodes in again"
        ),
    )


def _closed(shown: list[DevNode]) -> Finding:
    by_group = all(one.is_for_its_group for one in shown)
    groups = ", ".join(sorted({str(one.gid) for one in shown}))
    who = f"members of group {groups}" if by_group else "root"
    return _finding(
        "info" if by_group else "warn",
        f"only {who} may open {shown[0].path}",
        tuple(shown[:3]),
        why="Debian gives the cards to its group video. Users outside it see no CUDA device.",
        fix=None
        if by_group
        else fix_by_hand(
            "set NVreg_DeviceFileMode=0666 among the driver's module options (or 0660 with "
            "NVreg_DeviceFileGID for one group), and reload the module"
        ),
    )


def _finding(
    status: Status,
    summary: str,
    shown: tuple[DevNode, ...] = (),
    *,
    why: str = "",
    fix: Fix | None = None,
) -> Finding:
    evidence = tuple(Evidence(DEV_NODES.name, one.line) for one in shown)
    return Finding(status, summary, evidence, why=why, fix=fix)
