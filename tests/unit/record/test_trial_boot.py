from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rigops.record.trial_boot import events

LOG = """\
reached 6d3c8f4e-0000-4000-8000-000000000001 12
given-up 900
== systemctl is-system-running
degraded
== systemctl --no-pager --failed
  UNIT                     LOAD   ACTIVE SUB    DESCRIPTION
● networking.service       loaded failed failed Raise network interfaces
* srv-data.mount           loaded failed failed /srv/data

2 loaded units listed.
== systemctl is-active ssh.service sshd.service ssh.socket
inactive
inactive
inactive
== ip -br address
lo               UNKNOWN        127.0.0.1/8 ::1/128
enp5s0           UP             192.168.1.20/24 fe80::1/64
"""


def test_a_boot_that_nobody_could_reach_says_why() -> None:
    assert tuple(events(LOG)) == (
        "its services were started, 12 s after it began",
        "it was not confirmed, and ended itself 900 s after it began",
        "failed there: networking.service, srv-data.mount",
        "its addresses were enp5s0 192.168.1.20/24",
        "no ssh server ran",
    )


def test_a_boot_that_never_came_so_far_says_nothing() -> None:
    assert tuple(events("")) == ()


def test_a_server_that_ran_is_not_missed_and_a_network_that_did_not_is() -> None:
    log = LOG.replace("inactive\ninactive\ni", "inactive\nactive\ni").partition("enp5s0")[0]

    assert list(events(log))[-1] == "it had no address"


def test_a_confirmed_boot_says_so() -> None:
    assert list(events("reached x 12\nconfirmed 40\n"))[1] == "it was confirmed 40 s after it began"


def test_lines_of_the_journal_are_no_events() -> None:
    journal = "== journalctl -b -p err -n 20 --no-pager -o cat\n"
    forged = "confirmed 40\n== systemctl --no-pager --failed\n* forged.service loaded failed\n"

    assert tuple(events(f"{LOG}{journal}{forged}")) == tuple(events(LOG))


@given(st.text())
def test_any_text_is_read_without_raising(text: str) -> None:
    list(events(text))
    list(events(f"{LOG}{text}"))
