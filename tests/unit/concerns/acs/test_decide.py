"""What the host-side program says of the ports, and what is made of it."""

from __future__ import annotations

import pytest

from rigops.concerns.acs import operations
from rigops.concerns.acs.state import AcsPorts, Port, control, judge_ports
from rigops.concerns.state import REFUSED

SAID = """\
gpus 3
port 0000:00:03.1 001d
port 0000:40:01.3 0011 001d
port 0000:40:03.1 none
apart 10000:e0:01.0 0051 005d
"""


def blocker(text: str) -> str:
    states = judge_ports("off", operations.parse(text), "")
    return next((one.why for one in states if one.status == REFUSED), "")


def test_ports_are_read_with_the_words_from_before() -> None:
    found = operations.parse(SAID)

    assert found == AcsPorts(
        gpus=3,
        ports=(
            Port(address="0000:00:03.1", word=0x1D),
            Port(address="0000:40:01.3", word=0x11, earlier=0x1D),
            Port(address="0000:40:03.1", word=None),
            Port(address="10000:e0:01.0", word=0x51, earlier=0x5D, is_between=False),
        ),
    )
    (clearing,) = (one for one in judge_ports("off", found, "") if one.is_to_change)
    assert (clearing.name, clearing.wanted) == ("port 0000:00:03.1", control(0x11))
    restored = [one.wanted for one in judge_ports("keep", found, "")]
    assert restored == [control(0x1D), control(0x5D)]


@pytest.mark.parametrize(
    ("word", "redirects", "cleared"),
    [(0x1D, True, 0x11), (0x20, True, 0), (0x08, True, 0), (0x53, False, 0x53), (0, False, 0)],
)
def test_only_the_bits_that_redirect_count(word: int, redirects: bool, cleared: int) -> None:  # noqa: FBT001 - a row of the table
    port = Port(address="0000:00:03.1", word=word)

    assert (port.redirects, port.cleared) == (redirects, cleared)


def test_bits_are_named_as_lspci_does() -> None:
    assert control(0x1D) == "ACSCtl 001d (SrcValid, ReqRedir, CmpltRedir, UpstreamFwd)"
    assert control(0) == "ACSCtl 0000 (nothing set)"


@pytest.mark.parametrize("text", ["", "gpus many\n", "port 0000:00:03.1 001d\n", "sh: no\n"])
def test_an_answer_that_makes_no_sense_stands_in_the_way(text: str) -> None:
    assert "could not be read" in blocker(text)


def test_a_line_that_is_not_understood_stands_in_the_way() -> None:
    assert operations.parse(f"{SAID}port 0000:00:03.1 zzzz\n").unparsed == (
        "port 0000:00:03.1 zzzz",
    )
    assert "could not be read" in blocker(f"{SAID}dd: no\n")


def test_nothing_stands_in_the_way_of_ports_that_can_be_written() -> None:
    assert blocker(SAID) == ""


def test_a_locked_down_kernel_is_no_hindrance_where_nothing_redirects() -> None:
    assert blocker("gpus 2\nport 0000:00:03.1 0011\nlockdown\n") == ""


def test_one_port_of_a_locked_down_kernel_is_cleared_by_an_argument_that_rigops_may_own() -> None:
    reason = blocker("gpus 2\nport 0000:00:03.1 001d\nlockdown\n")

    assert '"kernel_args": ["pci=disable_acs_redir=0000:00:03.1"]' in reason


def test_several_need_semicolons_which_only_a_person_may_write() -> None:
    said = "gpus 2\nport 0000:00:03.1 001d\nport 0000:40:01.3 001d\nlockdown\n"
    reason = blocker(said)

    assert "pci=disable_acs_redir=0000:00:03.1;0000:40:01.3" in reason
    assert "by hand, in quotes" in reason


def test_a_port_that_is_between_no_cards_any_more_is_left_as_it_is() -> None:
    said = operations.parse("gpus 2\nport 0000:00:03.1 0011\napart 0000:40:01.3 001d 001d\n")

    assert not any(one.is_to_change for one in judge_ports("off", said, ""))
