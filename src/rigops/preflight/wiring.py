"""How the cards of a host are connected, as `nvidia-smi topo -m` draws it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rigops.nccl_transport import NEAR_TO_FAR

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_GPU = re.compile(r"GPU\d+")


def connections(topology: str, addresses: Sequence[str]) -> Mapping[tuple[str, str], str] | None:
    """Which way each ordered pair goes, or None where that cannot be told.

    nvidia-smi and CUDA both count cards in the order of the bus, so equal numbers have to mean
    equal cards; another number of cards means that one of them does not see them all.
    """
    lines = [_ESCAPE.sub("", line).split() for line in topology.splitlines()]
    header = next((line for line in lines if line and line[0] == "GPU0"), [])
    columns = [word for word in header if _GPU.fullmatch(word)]
    rows = {
        line[0]: line[1:] for line in lines if line and _GPU.fullmatch(line[0]) and line != header
    }
    if len(columns) != len(addresses) or list(rows) != columns:
        return None
    found = {}
    for i, row in enumerate(columns):
        for j in range(len(columns)):
            cell = rows[row][j] if j < len(rows[row]) else ""
            way = "NV" if re.fullmatch(r"NV\d+", cell) else cell
            if i == j:
                continue
            if way not in NEAR_TO_FAR:
                return None
            found[addresses[i], addresses[j]] = way
    return found
