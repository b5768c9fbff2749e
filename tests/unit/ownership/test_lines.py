"""A block of ours in somebody else's file: all other bytes stay as they are."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.ownership.owned_lines import block, companion, part

OURS = st.lists(
    st.from_regex(r"NCCL_[A-Z]{1,8}=[ -~]{1,9}", fullmatch=True), min_size=1, max_size=4
)
TEXTS = st.text(st.sampled_from("aN=# \n\r\t\x0b\x85\u2028é"), max_size=60) | st.text()
BLOCK = block(["NCCL_DEBUG=WARN"], made_file=False)


@given(foreign=TEXTS, first=OURS, second=OURS, made=st.booleans())
def test_whatever_happens_to_the_block_foreign_text_stays_as_it_is(
    *, foreign: str, first: list[str], second: list[str], made: bool
) -> None:
    fresh = part(foreign)
    assert fresh is not None
    written = fresh.put(block(first, made_file=made))
    found = part(written)
    assert found is not None
    assert (found.block, found.foreign) == (block(first, made_file=made), foreign)
    again = part(found.put(block(second, made_file=made)))
    assert again is not None
    assert (again.block, again.foreign) == (block(second, made_file=made), foreign)
    assert again.rigops_made_it is made
    assert again.put("") == foreign


@given(before=st.lists(st.text(st.characters(exclude_characters="\n"))), after=TEXTS)
def test_a_block_that_its_owner_has_moved_is_found_where_it_is(
    before: list[str], after: str
) -> None:
    above = "".join(f"{line}\n" for line in before)
    found = part(above + BLOCK + after)

    assert found is not None
    assert (found.before, found.block, found.after) == (above, BLOCK, after)
    assert found.digest == sha256(BLOCK.encode()).hexdigest()


def test_an_editor_that_takes_the_last_line_break_does_not_make_the_block_foreign() -> None:
    found = part("mine\n" + BLOCK.rstrip("\n"))

    assert found is not None
    assert found.digest == sha256(BLOCK.encode()).hexdigest()
    assert found.foreign == "mine\n"


def test_an_altered_block_has_another_digest() -> None:
    found = part(BLOCK.replace("WARN", "INFO"))

    assert found is not None
    assert found.digest != sha256(BLOCK.encode()).hexdigest()


BEGIN, _, END = BLOCK.splitlines(keepends=True)


@pytest.mark.parametrize("text", [BEGIN, END, END + BEGIN, BLOCK + BLOCK, BEGIN + BLOCK])
def test_marks_without_their_counterpart_are_damaged(text: str) -> None:
    assert part(text) is None


def test_no_mark_looks_like_a_setting() -> None:
    marks = block(["x"], made_file=False) + block(["x"], made_file=True)

    assert "=" not in marks
    assert all(line.startswith("#") or line == "x" for line in marks.splitlines())


def test_nothing_to_own_is_no_block() -> None:
    assert block([], made_file=True) == ""


def test_a_companion_is_named_after_its_file() -> None:
    assert companion("/etc/nccl.conf") == "/var/lib/rigops/lines/etc-nccl.conf"
