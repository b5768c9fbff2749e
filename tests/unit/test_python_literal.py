from __future__ import annotations

import ast

from hypothesis import given
from hypothesis import strategies as st

from rigops.python_literal import literal

VALUES = st.recursive(
    st.text() | st.integers() | st.booleans(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(VALUES)
def test_python_reads_back_what_was_written(value: object) -> None:
    assert ast.literal_eval(literal(value)) == value


def test_a_person_would_write_it_so() -> None:
    assert literal({"3090": 3}) == '{"3090": 3}'
    assert literal(["iommu=pt", 'say "hi"']) == '["iommu=pt", "say \\"hi\\""]'
