"""Inside booted rigs: what real cards, drivers and archives do, seen by ordinary programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.sshd import until
from tests.shards import LAB_ITSELF

if TYPE_CHECKING:
    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_ITSELF)

# What anybody could write with nothing but the driver: a peer copy, read back by its owner.
COPIES = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *args):
    code = getattr(cuda, name)(*args)
    if code:
        sys.exit(f"{name} says {code}")
size, pattern = 1 << 20, bytes(range(256)) * 4096
call("cuInit", 0)
contexts, memory = [], []
for ordinal in (0, 1):
    context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), ordinal)
    call("cuCtxSetCurrent", context)
    call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
    contexts.append(context)
    memory.append(pointer)
granted = ctypes.c_int()
call("cuDeviceCanAccessPeer", ctypes.byref(granted), 0, 1)
if not granted.value:
    sys.exit("not granted")
call("cuCtxSetCurrent", contexts[0])
call("cuMemcpyHtoD_v2", memory[0], pattern, ctypes.c_size_t(size))
call("cuCtxEnablePeerAccess", contexts[1], 0)
call("cuMemcpyDtoD_v2", memory[1], memory[0], ctypes.c_size_t(size))
call("cuCtxSynchronize")
def read(context):
    back = ctypes.create_string_buffer(size)
    call("cuCtxSetCurrent", context)
    call("cuMemcpyDtoH_v2", back, memory[1], ctypes.c_size_t(size))
    return back.raw
print("writer sees", "its own" if read(contexts[0]) == pattern else "something else")
print("owner sees", "the same" if read(contexts[1]) == pattern else "something else")
"""


@pytest.fixture(scope="module")
def healthy(module_lab: Lab) -> Host:
    return module_lab.one("t180-4xv100")


def test_a_power_limit_outside_the_range_is_refused_with_the_range(healthy: Host) -> None:
    said = healthy.run("nvidia-smi -i 0 -pl 9999")

    assert said.returncode != 0
    assert "between 150.00 W and 300.00 W" in said.stdout


def test_a_power_limit_is_read_back_and_gone_after_a_reboot(healthy: Host) -> None:
    limit = "nvidia-smi -i 0 --query-gpu=power.limit --format=csv,noheader"

    assert healthy.run("nvidia-smi -i 0 -pl 200").returncode == 0
    assert healthy.run(limit).stdout.strip() == "200.00 W"
    _reboot(healthy)
    assert healthy.run(limit).stdout.strip() == "300.00 W"


def test_four_v100_stepping_to_full_power_lose_one_unless_their_clocks_are_capped(
    healthy: Host,
) -> None:
    count = "nvidia-smi -L | grep -c UUID"

    assert healthy.run("nvidia-smi -ac 877,1005").returncode == 0
    healthy.set("load=step")
    assert healthy.run(count).stdout.strip() == "4"
    healthy.set("load=idle")
    assert healthy.run("nvidia-smi -rac").returncode == 0
    healthy.set("load=step")
    assert "Xid" in healthy.run("journalctl -k -b -g 'Xid.*: 79,' --no-pager").stdout
    assert "GPU is lost" in (said := healthy.run("nvidia-smi")).stdout + said.stderr


def test_the_package_of_the_535_driver_really_brings_580_on_ubuntu(lab: Lab) -> None:
    host = lab.one("ubuntu-trap")

    installed = host.run(
        "DEBIAN_FRONTEND=noninteractive apt-get install -y -qq nvidia-driver-535", timeout=180
    )

    assert installed.returncode == 0, installed.stderr
    listed = host.run("dpkg-query -W -f '${Package} ${Version}\\n' 'nvidia-driver-*'").stdout
    assert "nvidia-driver-535 535.309.01" in listed
    assert "nvidia-driver-580 580." in listed


@pytest.mark.parametrize(
    ("p2p", "seen"),
    [
        ("granted", "writer sees its own\nowner sees the same\n"),
        ("wrong", "owner sees something else\n"),
        ("mirror", "writer sees its own\nowner sees something else\n"),
        ("refused", "not granted"),
    ],
)
def test_a_program_that_knows_nothing_of_us_sees_what_the_cards_do(
    p2p: str, seen: str, passing: Host
) -> None:
    passing.set(f"p2p={p2p}")

    said = passing.run("python3 -", given=COPIES)

    assert seen in said.stdout + said.stderr


def test_a_program_that_knows_nothing_of_us_hangs_where_the_cards_do(passing: Host) -> None:
    passing.set("p2p=hang")

    said = passing.run("timeout 20 python3 -", given=COPIES)

    assert said.returncode == 124
    assert said.stdout == ""


@pytest.fixture(scope="module")
def passing(module_lab: Lab) -> Host:
    return module_lab.one("threadripper-3x3090", "driver=535.261.03", "iommu=passthrough")


def _reboot(host: Host) -> None:
    boot_id = "cat /proc/sys/kernel/random/boot_id"
    before = host.run(boot_id).stdout
    host.run("systemctl reboot")
    until(lambda: host.run(f"timeout 5 {boot_id}").stdout not in {"", before}, "another boot")
