"""Relations of packages as dpkg writes them, and what the offers answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.concerns.nvidia_driver.resolver.offers import Relation, relations
from tests.unit.concerns.nvidia_driver.resolver.archives import offer, together


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("", ()),
        ("libc6", ((Relation("libc6"),),)),
        ("libc6 (>= 2.34)", ((Relation("libc6", ">=", "2.34"),),)),
        ("libc6(>=2.34)", ((Relation("libc6", ">=", "2.34"),),)),
        ("a (= 1:2-3~x+b1)", ((Relation("a", "=", "1:2-3~x+b1"),),)),
        ("a | b (<< 2), c", ((Relation("a"), Relation("b", "<<", "2")), (Relation("c"),))),
        ("python3:any (>= 3.8)", ((Relation("python3", ">=", "3.8"),),)),
        ("a [amd64] <!nocheck>", ((Relation("a"),),)),
        ("a,\n b", ((Relation("a"),), (Relation("b"),))),
        ("a, (what), B!, c", ((Relation("a"),), (Relation("c"),))),
    ],
)
def test_a_field_is_read(text: str, read: object) -> None:
    assert relations(text) == read


@given(st.text(st.sampled_from("ab1.-+:|,()[]<>=! \n\t~$ä"), max_size=40))
def test_no_field_is_too_strange(text: str) -> None:
    for group in relations(text):
        assert group
        assert all(one.name for one in group)


def test_the_newest_build_of_a_version_answers_for_it() -> None:
    offers = together(
        offer("libcuda1", "535.261.03-1"),
        offer("libcuda1", "535.261.03-2"),
        offer("libcuda1", "550.163.01-2"),
    )

    found = offers.at("libcuda1", "535.261.03")

    assert found
    assert found.version == "535.261.03-2"
    assert offers.at("libcuda1", "580.178.04") is None
