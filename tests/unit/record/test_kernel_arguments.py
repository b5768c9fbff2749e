"""The record of kernel arguments that no file of rigops' own can tell of."""

from __future__ import annotations

import pytest

from rigops.record.kernel_arguments import Arguments, arguments_document, read_arguments


def test_what_was_written_is_read_again() -> None:
    record = Arguments(
        trying=("iommu=pt",),
        written=("quiet",),
        armed_in="6d3c8f4e-0000-4000-8000-000000000001",
        is_unsettled=True,
        cards=("0000:0a:00.0",),
    )

    assert read_arguments(arguments_document(record)) == record


@pytest.mark.parametrize("text", [None, "", "{", '{"schema": "rigops.leaving/1"}', "[]"])
def test_no_record_and_one_that_cannot_be_read_tell_of_nothing(text: str | None) -> None:
    assert not read_arguments(text)


def test_a_record_without_arguments_counts_as_none() -> None:
    assert not Arguments(armed_in="6d3c8f4e")
