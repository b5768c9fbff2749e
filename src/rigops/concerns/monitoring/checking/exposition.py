"""Prometheus' text format of what a self-check found. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rigops.concerns.monitoring.checking.findings import Found

_PREFIX: Final = "rigops_"
_HELP: Final[Mapping[str, str]] = {
    "rigops_gpu_settings": "Settings of the GPUs that are declared.",
    "rigops_limit_drift": "Settings of the GPUs that are not as declared.",
    "rigops_guard_step": "Step that the thermal guard has taken, 0 is none.",
    "rigops_reboot_owed": "1 while something waits for a reboot.",
    "rigops_proof_age_seconds": "Age of the last passed proof of P2P.",
    "rigops_proof_failed": "1 while the last proof of P2P is one that failed.",
    "rigops_self_check_timestamp_seconds": "When the last daily self-check ended.",
    "rigops_self_check_problems": "Problems that the last daily self-check found.",
}


def exposition(findings: Iterable[Found], metrics: Mapping[str, float]) -> str:
    """Only what others lack: no utilization."""
    lines: list[str] = [
        "# HELP rigops_finding What rigops finds of this host, by its id in rigops doctor.",
        "# TYPE rigops_finding gauge",
    ]
    for one in findings:
        labels = {"id": one.id, "subject": one.subject, "status": one.status}
        shown = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
        lines.append(f"rigops_finding{{{shown}}} 1")
    named: dict[str, float] = {
        name if name.startswith(_PREFIX) else _PREFIX + name: value
        for name, value in metrics.items()
    }
    for name, value in sorted(named.items()):
        if name == "rigops_finding":
            continue
        lines.append(f"# HELP {name} {_HELP.get(name, 'Reported by a self-check of rigops.')}")
        lines.append(f"# TYPE {name} gauge")
        lines.append(f"{name} {value:.15g}")
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
