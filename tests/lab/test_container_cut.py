"""What a reload of systemd takes from a running container, and what keeps or brings it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.lab.containers import WITH_EVERY_CARD, reload, start, start_unit
from tests.lab.engines import ENGINES, does
from tests.shards import LAB_CONTAINERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.conftest import Lab
    from tests.lab.engines import Engine
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_CONTAINERS)

RIG: Final = "threadripper-3x3090"
SUITES: Final = ("bookworm", "trixie")
BOTH: Final = ("nvidia0", "nvidia1")
GRANTED: Final = (*BOTH, *WITH_EVERY_CARD)

each_engine = pytest.mark.parametrize("engine", ENGINES)


@pytest.fixture(scope="module", params=SUITES)
def booted(request: pytest.FixtureRequest, module_lab: Lab) -> Host:
    return module_lab.one(RIG, "containers=on", f"suite={request.param}")


@pytest.fixture
def host(booted: Host) -> Iterator[Host]:
    yield booted
    for engine in ENGINES:
        does(booted, f"{engine} ps --all --quiet | xargs --no-run-if-empty {engine} rm --force")


@each_engine
def test_a_reload_takes_the_cards_of_the_hook_and_telling_systemd_brings_them_back(
    host: Host, engine: Engine
) -> None:
    vllm = start(host, "vllm", engine=engine, cards=(0, 1))
    assert vllm.may_open("nvidia0")
    assert vllm.may_open("nvidia1")

    does(host, "systemctl daemon-reload")
    assert vllm.may_open() is is_trixie(host)  # systemd 257 waits for the next unit of the slice
    does(host, start_unit(vllm.slice))
    assert not vllm.may_open("nvidia0")
    assert not vllm.may_open("nvidia1")

    vllm.tell_systemd(*GRANTED)
    assert vllm.may_open("nvidia0")
    reload(host, vllm.slice)
    assert vllm.may_open("nvidia0")
    assert vllm.may_open("nvidia1")


@each_engine
def test_what_systemd_was_told_before_is_kept_until_the_container_restarts(
    host: Host, engine: Engine
) -> None:
    vllm = start(host, "vllm", engine=engine)
    vllm.tell_systemd("nvidia0")

    reload(host, vllm.slice)
    assert vllm.may_open()
    assert not vllm.may_open("nvidiactl")  # of which systemd was not told
    does(host, f"systemctl daemon-reexec && {start_unit(vllm.slice)}")
    assert vllm.may_open()

    vllm.restart()
    assert vllm.may_open("nvidiactl")
    reload(host, vllm.slice)
    assert not vllm.may_open()


def test_telling_systemd_of_one_unit_cuts_the_neighbours_of_a_pending_reload(host: Host) -> None:
    vllm, comfy = (start(host, name) for name in ("vllm", "comfy"))
    does(host, "systemctl daemon-reload")
    assert comfy.may_open() is is_trixie(host)

    vllm.tell_systemd(*GRANTED)

    assert vllm.may_open()
    assert not comfy.may_open()
    comfy.tell_systemd(*GRANTED)
    assert comfy.may_open()


def test_an_upgrade_that_reloads_takes_the_cards_but_not_those_that_systemd_was_told_of(
    host: Host,
) -> None:
    told, untold = (start(host, name) for name in ("told", "untold"))
    told.tell_systemd(*GRANTED)

    does(host, "DEBIAN_FRONTEND=noninteractive dpkg --install /srv/debs/util-linux_*.deb 2>&1")
    does(host, start_unit(told.slice))

    assert told.may_open()
    assert not untold.may_open()


@each_engine
def test_crun_is_no_prey_of_reloads_and_its_newer_one_denies_the_cards_of_the_hook_from_the_start(
    host: Host, engine: Engine
) -> None:
    """From 1.18 on it gives systemd its list, which is applied beside its own program."""
    vllm = start(host, "vllm", engine=engine, runtime="crun", cards=(0, 1))
    policy = does(host, f"systemctl show --value --property DevicePolicy {vllm.unit}")
    assert policy == ("strict" if is_trixie(host) else "auto")
    assert vllm.may_open() is not is_trixie(host)

    reload(host, vllm.slice)
    assert vllm.may_open() is not is_trixie(host)

    vllm.tell_systemd("nvidia0")
    assert vllm.may_open()
    # Where there was no list, the new one takes all the others: only a unit that has one is told.
    assert not vllm.may_open("nvidia1")


def test_cards_of_which_the_engine_knows_are_kept(host: Host) -> None:
    """But by runc 1.1.3 to 1.1.6 only those with a link below /dev/char."""
    by_hand = start(host, "by-hand", way="device")
    named = start(host, "named", engine="podman", way="cdi")
    newer = start(host, "newer", engine="podman", runtime="crun", way="cdi")
    links = "ln -s ../nvidia0 /dev/char/195:0" if not is_trixie(host) else ":"
    does(host, f"mkdir -p /dev/char && {links}")
    linked = start(host, "linked", way="device")
    does(host, "rm -f /dev/char/195:0")

    reload(host, by_hand.slice)
    does(host, start_unit(named.slice))

    assert by_hand.may_open() is is_trixie(host)
    assert named.may_open() is is_trixie(host)
    assert newer.may_open()
    assert linked.may_open()


def is_trixie(host: Host) -> bool:
    return host.rig().suite == "trixie"
