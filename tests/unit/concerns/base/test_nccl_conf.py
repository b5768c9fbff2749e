from __future__ import annotations

import pytest

from rigops.concerns.base.decide import NcclLines, nccl_lines

DECLARED = (("NCCL_P2P_LEVEL", "SYS"), ("NCCL_DEBUG", "WARN"))


@pytest.mark.parametrize(
    ("foreign", "ours", "conflicts"),
    [
        ("", ("NCCL_P2P_LEVEL=SYS", "NCCL_DEBUG=WARN"), ()),
        ("NCCL_DEBUG=WARN\n", ("NCCL_P2P_LEVEL=SYS",), ()),
        ("  NCCL_DEBUG = WARN # loud", ("NCCL_P2P_LEVEL=SYS",), ()),
        ("NCCL_DEBUG=INFO\n", ("NCCL_P2P_LEVEL=SYS",), ("NCCL_DEBUG=INFO",)),
        ("NCCL_DEBUG=WARN\nNCCL_DEBUG=INFO\n", ("NCCL_P2P_LEVEL=SYS",), ()),
        ("#NCCL_DEBUG=INFO\n", ("NCCL_P2P_LEVEL=SYS", "NCCL_DEBUG=WARN"), ()),
        ("NCCL_DEBUG_FILE=x\nMY_NCCL_DEBUG=INFO\n", ("NCCL_P2P_LEVEL=SYS", "NCCL_DEBUG=WARN"), ()),
        ("NCCL_DEBUG=\r\n", ("NCCL_P2P_LEVEL=SYS",), ("NCCL_DEBUG=",)),
    ],
)
def test_the_first_line_of_a_name_decides_whether_ours_is_wanted(
    foreign: str, ours: tuple[str, ...], conflicts: tuple[str, ...]
) -> None:
    assert nccl_lines(DECLARED, foreign) == NcclLines(ours, conflicts)
