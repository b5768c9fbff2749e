from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.probe import reading
from rigops.probe.text import blocks

MARK = "0c7f4b1e-0000-4000-8000-000000000001"
OUTPUT = f"""\
Welcome to this machine!
rigops-probe/1 {MARK} root=1 at=2026-01-31T18:00:00Z host=rig
{MARK} begin uname root=1 limit=6
Linux rig

{MARK} rc=0 from=10.10 to=10.25

{MARK} end uname
{MARK} begin pci root=0 limit=6
{MARK} rc=0 from=1 to=1
half an answer
{MARK} end pci
{MARK} begin slow root=0 limit=6

{MARK} rc=143 from=10.10 to=16.11

{MARK} end slow
{MARK} done
""".encode()


def test_what_a_probe_said() -> None:
    found = reading.read(OUTPUT)

    assert found is not None
    assert (found.host, found.collected_at, found.root) == ("rig", "2026-01-31T18:00:00Z", True)
    uname = found.sections["uname"]
    assert (uname.text, uname.rc, uname.ms, uname.root) == ("Linux rig\n", 0, 150, True)
    assert uname.is_complete
    assert found.sections["pci"].timed_out
    assert found.sections["slow"].timed_out


def test_windows_newlines_and_a_name_of_ours() -> None:
    found = reading.read(OUTPUT.replace(b"\n", b"\r\n"), host="mine")

    assert found is not None
    assert found.host == "mine"
    assert set(found.sections) == {"uname", "pci", "slow"}


def test_what_is_no_probe() -> None:
    assert reading.read(b"This account is currently not available.\n") is None


@given(st.integers(0, len(OUTPUT)))
def test_a_cut_end_never_makes_a_section_whole(length: int) -> None:
    found = reading.read(OUTPUT[:length])

    if found and "uname" in found.sections and found.sections["uname"].is_complete:
        assert found.sections["uname"].text == "Linux rig\n"


@given(st.binary(), st.integers(0, len(OUTPUT)))
def test_rubbish_never_raises(rubbish: bytes, at: int) -> None:
    reading.read(rubbish)
    reading.read(OUTPUT[:at] + rubbish + OUTPUT[at:])


@pytest.mark.parametrize("body", [b"", b"\x00\xff\n", b"no newline"])
def test_any_body_comes_back(body: bytes) -> None:
    head, tail = OUTPUT.split(b"Linux rig\n")

    found = reading.read(head + body + tail)

    assert found is not None
    assert found.sections["uname"].text == body.decode("utf-8", "replace")


CONTENTS = st.lists(
    st.sampled_from(["", "== /etc/nccl.conf", "\\== x", "\\\\== ", f"x {MARK} == y", "word", " "]),
    max_size=5,
).map("\n".join)


@given(st.lists(CONTENTS, min_size=1, max_size=4))
def test_no_content_forges_the_head_of_a_block_or_swallows_the_next(contents: list[str]) -> None:
    printed = "".join(
        f"\n{MARK} == /file/{number}\n{content}" for number, content in enumerate(contents)
    )
    output = OUTPUT.replace(b"rigops-probe/1", b"rigops-probe/2")

    found = reading.read(output.replace(b"Linux rig\n", f"{printed}\n".encode()))

    assert found is not None
    assert blocks(found.sections["uname"].text) == {
        f"/file/{number}": content.removesuffix("\n") if number + 1 < len(contents) else content
        for number, content in enumerate(contents)
    }


def test_heads_of_version_1_are_read_as_they_were_printed() -> None:
    found = reading.read(OUTPUT.replace(b"Linux rig\n", b"== uname -a\nLinux rig\n"))

    assert found is not None
    assert blocks(found.sections["uname"].text) == {"uname -a": "Linux rig"}
