"""Whether a unit of systemd runs, now and after the next boot. Pure; hosts run it: Python 3.8."""

from __future__ import annotations


def unit_runs(active: str, enabled: str) -> bool:
    return enabled == "enabled" and active in {"active", "activating", "reloading"}


def unit_in_words(active: str, enabled: str) -> str:
    if enabled == "masked":
        return "is masked"
    if active != "active":
        return f"is {active or 'unknown'}"
    return f"is {enabled or 'unknown'}, so no boot starts it"
