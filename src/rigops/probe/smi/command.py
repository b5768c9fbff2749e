"""How the sections ask nvidia-smi."""

from __future__ import annotations


def ask(arguments: str) -> str:
    """Nothing and 0 where there is no nvidia-smi; else its own words and its own exit code."""
    return f"command -v nvidia-smi >/dev/null || exit 0\nnvidia-smi {arguments} 2>&1"
