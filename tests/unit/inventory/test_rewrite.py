"""Declarations written into an inventory: form and comments stay, and no other host changes."""

from __future__ import annotations

import os
from itertools import chain, combinations, product
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from rigops.concerns import registry
from rigops.errors import RigopsError
from rigops.inventory import load
from rigops.inventory.merge import collect, lacking
from rigops.inventory.rewrite import Rewrite, rewrite, write

if TYPE_CHECKING:
    from collections.abc import Mapping

KEYS = registry.keys()
WANTED = {"driver": "535", "kernel_args": ["iommu=pt"]}
# Before and after.
PLACES = """
rigs = ["a", "rig"]
=>
rigs = ["a", ("rig", {"driver": "535", "kernel_args": ["iommu=pt"]})]
---
rigs = [("rig", {})]
=>
rigs = [("rig", {"driver": "535", "kernel_args": ["iommu=pt"]})]
---
rigs = [("rig", {"driver": "545", "x_mine": 1})]
=>
rigs = [("rig", {"driver": "535", "x_mine": 1, "kernel_args": ["iommu=pt"]})]
---
rigs = [("rig", {"kernel_args": ["quiet"], "gpus": 3, "driver": "545"})]
=>
rigs = [("rig", {"kernel_args": ["quiet", "iommu=pt"], "gpus": 3, "driver": "535"})]
---
rigs = ([("rig", {"driver": "535",})], {"kernel_args": ("quiet",)})
=>
rigs = ([("rig", {"driver": "535", "kernel_args": ["quiet", "iommu=pt"],})], {"kernel_args": ("quiet",)})
---
_ARGS = ["quiet"]
rigs = [("rig", {"driver": "535", "kernel_args": _ARGS}), ("b", {"kernel_args": _ARGS})]
=>
_ARGS = ["quiet"]
rigs = [("rig", {"driver": "535", "kernel_args": [*_ARGS, "iommu=pt"]}), ("b", {"kernel_args": _ARGS})]
---
RIG = {
    "kernel_args": [
        "quiet",  # why
    ]
}
rigs = [("rig", RIG)]
=>
RIG = {
    "kernel_args": [
        "quiet",  # why
        "iommu=pt",
    ],
    "driver": "535",
}
rigs = [("rig", RIG)]
---
COMMON = {"driver": "545"}
rigs = [("rig", COMMON), ("b", COMMON)]
=>
COMMON = {"driver": "545"}
rigs = [("rig", {**COMMON, "driver": "535", "kernel_args": ["iommu=pt"]}), ("b", COMMON)]
---
COMMON = {"driver": "545"}
rigs = [("rig", {**COMMON, "gpus": 3}), ("b", COMMON)]
=>
COMMON = {"driver": "545"}
rigs = [("rig", {**COMMON, "gpus": 3, "driver": "535", "kernel_args": ["iommu=pt"]}), ("b", COMMON)]
---
COMMON = {"gpus": 3}
rigs = [("rig", COMMON | {"gpus": 2}), ("b", COMMON)]
=>
COMMON = {"gpus": 3}
rigs = [("rig", COMMON | {"gpus": 2, "driver": "535", "kernel_args": ["iommu=pt"]}), ("b", COMMON)]
---
a = [("rig", {"gpus": 3})]
b = [("rig", {"driver": "545"})]
=>
a = [("rig", {"gpus": 3})]
b = [("rig", {"driver": "535", "kernel_args": ["iommu=pt"]})]
"""  # noqa: E501 - as an inventory has them


def rewritten(
    folder: Path, text: str, host: str = "rig", wanted: Mapping[str, object] = WANTED
) -> Rewrite:
    path = folder / "inventory.py"
    path.write_text(dedent(text))
    inventory = load(path, KEYS, folder)
    return rewrite(inventory, {host: lacking(inventory.require(host).data, wanted)}, KEYS)


def test_a_suggestion_of_init_loses_its_sign_and_another_key_goes_to_the_end(
    tmp_path: Path,
) -> None:
    found = rewritten(
        tmp_path,
        """\
        rigs = [
            (
                "rig",
                {
                    # the cards on the bus
                    "gpus": 3,  # mine
                    # driver 545.29.06 hangs
                    # "driver": "535",
                    # "acs_redirect": "off",
                },
            ),
        ]
        """,
    )

    assert found.text.decode() == dedent(
        """\
        rigs = [
            (
                "rig",
                {
                    # the cards on the bus
                    "gpus": 3,  # mine
                    # driver 545.29.06 hangs
                    "driver": "535",
                    # "acs_redirect": "off",
                    "kernel_args": ["iommu=pt"],
                },
            ),
        ]
        """
    )


def test_the_text_changes_where_this_host_is_written(tmp_path: Path) -> None:
    for case in PLACES.strip("\n").split("\n---\n"):
        before, after = case.split("\n=>\n")

        found = rewritten(tmp_path, before)

        assert found.by_hand == (), before
        assert found.text.decode() == after


def test_in_every_form_of_a_dict_all_comments_stay(tmp_path: Path) -> None:
    had = ('"driver": "545"', '"kernel_args": ["quiet"]', '"x_own": {"a": 1}', "**COMMON")
    joins = (", ", ",\n        ", ",  # mark\n        ", ",\n\n        # mark\n        ", " ,")
    ends = (
        "{%s}",
        "{ %s, }",
        "{\n        %s,\n    }",
        "{  # mark\n        %s  # mark\n    # mark\n}",
    )
    for items in chain.from_iterable(combinations(had, count) for count in range(len(had) + 1)):
        for join, end in (
            product(joins, ends) if items else [("", "{%s}"), ("", "{\n    # mark%s\n}")]
        ):
            text = f'COMMON = {{"gpus": 3}}\nrigs = [("rig", {end % join.join(items)})]\n'

            found = rewritten(tmp_path, text)

            assert found.by_hand == (), text
            assert found.text.count(b"# mark") == text.count("# mark"), text
            assert len(found.text.splitlines()) <= len(text.splitlines()) + 2


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('names = {"rig"}\n\nrigs = [(name, {}) for name in names]', 1),
        ("\nrigs = [(f\"r{'ig'}\", {})]", 2),
        ('rigs = [\n    ("rig", {"driver": "545", **{"driver": "545"}})]', 2),
        ('rigs = [("rig", {"driver": ""})]\nfor _, data in rigs: data["driver"] = "545"', 1),
    ],
)
def test_where_a_place_is_not_certain_the_host_stays_and_its_line_is_named(
    text: str, line: int, tmp_path: Path
) -> None:
    found = rewritten(tmp_path, text)

    assert found.text == found.before
    assert [(one.host, one.line) for one in found.by_hand] == [("rig", line)]
    assert found.by_hand[0].keys["driver"] == "535"


def test_one_limit_for_all_cards_is_not_replaced_by_that_of_one(tmp_path: Path) -> None:
    found = rewritten(
        tmp_path,
        'rigs = [("rig", {"gpu_power_limit": 285})]',
        wanted={"gpu_power_limit": {"0000:0a:00.0": 100}},
    )

    assert found.text == found.before
    assert len(found.by_hand) == 1


def test_a_value_that_no_inventory_may_have_is_never_written(tmp_path: Path) -> None:
    found = rewritten(tmp_path, 'rigs = ["rig"]', wanted={"kernel_args": ["$(reboot)"]})

    assert found.text == found.before


def test_declarations_add_up_and_the_first_of_two_contrary_ones_counts() -> None:
    declared: list[Mapping[str, object]] = [
        {"driver": "535"},
        {"kernel_args": ["a"], "nccl": {"A": "1"}},
        {"driver": "580", "driver_flavor": "open"},
        {"kernel_args": ["b", "a"], "nccl": {"B": "2"}},
    ]

    assert collect(declared) == {
        "driver": "535",
        "kernel_args": ["a", "b"],
        "nccl": {"A": "1", "B": "2"},
    }


def test_the_file_keeps_its_mode_and_declares_what_was_shown(tmp_path: Path) -> None:
    found = rewritten(tmp_path, 'rigs = ["rig"]')
    found.path.chmod(0o640)

    write(found, KEYS)

    assert found.path.stat().st_mode & 0o777 == 0o640
    assert load(found.path, KEYS).require("rig").data == WANTED
    assert [one.name for one in tmp_path.iterdir()] == ["inventory.py"]


def test_the_old_file_comes_back_where_the_new_one_is_read_otherwise(tmp_path: Path) -> None:
    text = 'import pathlib\n_OLD = "dri" "ver" not in pathlib.Path(__file__).read_text()\n'
    found = rewritten(tmp_path, f'{text}rigs = ["rig"] if _OLD else ["rig", "other"]')
    assert found.text != found.before

    with pytest.raises(RigopsError, match="the old file is back"):
        write(found, KEYS)

    assert found.path.read_bytes() == found.before


def test_a_file_that_was_changed_meanwhile_stays(tmp_path: Path) -> None:
    found = rewritten(tmp_path, 'rigs = ["rig"]')
    found.path.write_text('rigs = ["rig", "b"]')

    with pytest.raises(RigopsError, match="changed meanwhile"):
        write(found, KEYS)

    assert found.path.read_text() == 'rigs = ["rig", "b"]'


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a link of another user")
def test_no_link_of_another_user_leads_to_what_is_written(tmp_path: Path) -> None:
    found = rewritten(tmp_path, 'rigs = ["rig"]')
    (tmp_path / "mine.py").write_bytes(found.before)
    found.path.unlink()
    found.path.symlink_to("mine.py")
    os.lchown(found.path, 1234, 1234)

    with pytest.raises(RigopsError, match="a link of another user"):
        write(found, KEYS)

    assert (tmp_path / "mine.py").read_bytes() == found.before
    os.lchown(found.path, 0, 0)
    os.chown(tmp_path / "mine.py", 1234, 1234)
    write(found, KEYS)
    assert (tmp_path / "mine.py").read_bytes() == found.text
    assert (tmp_path / "mine.py").stat().st_uid == 1234
    assert found.path.is_symlink()
