"""The kernels, assembled by NVIDIA's own ptxas for every generation of cards."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from rigops.hostside.p2p.ptx import LOAD, PING_PONG, PTX, STORE
from tests.real_cuda import nvidia
from tests.shards import REAL_CUDA
from tests.unit.preflight.test_kernels import (
    BLIND_MUTANTS,
    LOAD_MUTANTS,
    STORE_MUTANTS,
    TALK_MUTANTS,
    Bench,
    mutant,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.lab.cuda_rig import Rig

pytestmark = pytest.mark.shard(REAL_CUDA)

# Maxwell, Pascal, Volta, Turing, Ampere, Ada, Hopper, Blackwell
ARCHITECTURES = (50, 52, 60, 61, 70, 75, 80, 86, 89, 90, 100, 120)
MOST_REGISTERS = 64  # of the 256 that each thread of a block of 256 could have
INVALID_PTX = 218
NO_SPILLS = "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"
KERNELS = re.findall(r"\.entry (\w+)", PTX)


def assemble(
    ptx: str, folder: Path, architecture: int = ARCHITECTURES[0]
) -> subprocess.CompletedProcess[str]:
    source = folder / "kernels.ptx"
    source.write_text(ptx)
    command = [str(nvidia.ptxas()), "--verbose", "--warning-as-error", "--warn-on-spills"]
    card = f"--gpu-name=sm_{architecture}"
    return subprocess.run(
        [*command, card, f"--output-file={folder / 'kernels.cubin'}", str(source)],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_it_assembles_without_a_warning_and_without_spills(
    architecture: int, tmp_path: Path
) -> None:
    done = assemble(PTX, tmp_path, architecture)

    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith(("ptxas info", "    "))] == []
    compiled = re.findall(rf"entry function '(\w+)' for 'sm_{architecture}'", done.stdout)
    assert sorted(compiled) == sorted(KERNELS)
    assert [line.strip() for line in lines].count(NO_SPILLS) == len(KERNELS)
    registers = [int(count) for count in re.findall(r"Used (\d+) registers", done.stdout)]
    assert len(registers) == len(KERNELS)
    assert max(registers) <= MOST_REGISTERS
    assert (tmp_path / "kernels.cubin").read_bytes().startswith(b"\x7fELF")


BROKEN = {
    "an instruction that there is not": ("membar.sys;", "membar.world;"),
    "a register that is not declared": ("mov.u32 %round, 0", "mov.u32 %lost, 0"),
    "a result that does not fit": ("wide.u32 %address, %k, 4, %to;", "wide.u32 %k, %k, 4, %to;"),
    "a label that is nowhere": ("bra next_sent;", "bra nowhere;"),
    "a parameter that is not declared": ("[serves]", "[serve]"),
    "an instruction of newer cards": ("membar.sys;", "fence.acq_rel.sys;"),
    "no end": ("    ret;\n}\n", ""),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_text_is_refused_and_by_the_simulated_driver_too(
    how: str, rig: Rig, tmp_path: Path
) -> None:
    old, new = BROKEN[how]
    assert old in PTX
    broken = PTX.replace(old, new)

    done = assemble(broken, tmp_path)

    assert done.returncode != 0
    assert "Ptx assembly aborted due to errors" in done.stdout
    assert Bench(rig).run("compile_kernels", ptx=broken)[0] == INVALID_PTX


MUTANTS = {
    **{f"{STORE}: {name}": mutant(STORE, *how) for name, how in STORE_MUTANTS.items()},
    **{f"{LOAD}: {name}": mutant(LOAD, *how) for name, how in LOAD_MUTANTS.items()},
    **{f"{LOAD}: {name}": mutant(LOAD, *how) for name, how in BLIND_MUTANTS.items()},
    **{f"{PING_PONG}: {name}": mutant(PING_PONG, *how) for name, how in TALK_MUTANTS.items()},
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_kernels_that_the_simulated_driver_catches_are_ones_that_assemble(
    name: str, tmp_path: Path
) -> None:
    """What catches a mutant is what it does, and no mistake of grammar."""
    done = assemble(MUTANTS[name], tmp_path)

    assert done.returncode == 0, done.stdout
