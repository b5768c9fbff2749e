"""Which capture a reprovision takes, when somebody has captured the new system as well."""

from __future__ import annotations

from typing import Final

import pytest

from rigops.capture.document import Capture, PublicKey, System
from rigops.reprovision.before import choose, explain, trusted_keys

OLD_KEY, NEW_KEY = "SHA256:old", "SHA256:new"


def capture(at: str, machine_id: str | None, *keys: str) -> Capture:
    return Capture(
        host="rig",
        status="safe",
        at=at,
        place=f"/captures/{at}",
        system=System(machine_id=machine_id),
        host_keys=tuple(PublicKey(type="ssh-ed25519", fingerprint=one) for one in keys),
    )


LONG_AGO: Final = capture("2025", "0", "SHA256:first")
BEFORE: Final = capture("2026-01", "1", OLD_KEY)
AFTER: Final = capture("2026-02", "2", NEW_KEY)


@pytest.mark.parametrize(
    ("captures", "shown_key", "machine_id", "chosen"),
    [
        ((BEFORE, LONG_AGO), NEW_KEY, "2", BEFORE),
        ((AFTER, BEFORE, LONG_AGO), NEW_KEY, "2", BEFORE),
        ((AFTER, BEFORE), OLD_KEY, "2", BEFORE),  # which was brought back
        ((capture("2026-03", "2", OLD_KEY), AFTER, BEFORE), OLD_KEY, "2", BEFORE),
        ((AFTER, BEFORE), NEW_KEY, "", BEFORE),  # before any login
        ((AFTER, BEFORE), NEW_KEY, "3", AFTER),  # it was installed once more
        ((BEFORE,), OLD_KEY, "1", BEFORE),  # it was not reinstalled
        (  # of an image with one machine id
            (capture("2026-02", "1", NEW_KEY), BEFORE), NEW_KEY, "1", BEFORE,
        ),
        (  # where an id was not collected
            (capture("2026-02", None, NEW_KEY), capture("2026-01", None, OLD_KEY)),
            NEW_KEY, "2", capture("2026-01", None, OLD_KEY),
        ),
    ],
)  # fmt: skip
def test_it_is_the_newest_of_the_system_before_the_reinstall(
    captures: tuple[Capture, ...], shown_key: str, machine_id: str, chosen: Capture
) -> None:
    assert choose(captures, shown_key=shown_key, machine_id=machine_id) == chosen


def test_it_is_said_which_one_it_is_and_which_newer_ones_it_is_not() -> None:
    assert explain(BEFORE, (BEFORE,), "2") == (
        "compared with the capture of 2026-01, /captures/2026-01"
    )
    assert explain(BEFORE, (AFTER, BEFORE), "2").endswith(
        "taken after the reinstall, and left alone: 2026-02"
    )
    assert explain(BEFORE, (BEFORE,), "1").endswith("it is of the very system that runs now")


def test_keys_are_trusted_of_the_newest_and_of_the_system_before_it() -> None:
    newer = capture("2026-03", "2", NEW_KEY)

    assert trusted_keys((newer, AFTER, BEFORE, LONG_AGO)) == [NEW_KEY, OLD_KEY]
    assert trusted_keys((BEFORE,)) == [OLD_KEY]
