from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rigops.record.kernel_arguments import leaving_document, read_leaving

BOOT = "6d3c8f4e-0000-4000-8000-000000000001"
OTHER = "6d3c8f4e-0000-4000-8000-000000000002"


def test_the_debt_of_this_boot_is_remembered_and_that_of_an_earlier_one_is_paid() -> None:
    record = leaving_document(("iommu=pt",), BOOT)

    assert read_leaving(record, BOOT) == ("iommu=pt",)
    assert read_leaving(record, OTHER) == ()
    assert read_leaving(None, BOOT) == ()
    assert read_leaving(record, None) == ()


@given(st.text(max_size=80))
def test_rubbish_tells_of_no_debt(text: str) -> None:
    assert read_leaving(text, BOOT) == ()
