from __future__ import annotations

import gc
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from rigops.errors import RigopsError
from rigops.hostside.packing import _of_ours, pack
from tests.unit.hostside.trees import write_tree

if TYPE_CHECKING:
    from pathlib import Path

TREE = {
    "hostside/guard.py": "from rigops.hostside.shared.log import say\nsay('on guard')\n",
    "hostside/shared/log.py": "def say(text):\n    print(text)\n",
    "hostside/probe.sh": "#!/bin/sh\n. ./shared/say.sh\nsay probing\n",
    "hostside/shared/say.sh": 'say() { echo "$1"; }\n',
}


def test_many_hosts_may_ask_for_it_at_once() -> None:
    def let_others_run(*_: object) -> None:
        time.sleep(0)

    # What makes the parser of Python 3.11 stumble: a switch of threads while it builds a tree.
    gc.callbacks.append(let_others_run)
    usual = gc.get_threshold()
    _of_ours.cache_clear()
    gc.set_threshold(50)
    try:
        with ThreadPoolExecutor(8) as pool:
            texts = set(pool.map(lambda _: pack("self_check").text, range(8)))
    finally:
        gc.set_threshold(*usual)
        gc.callbacks.remove(let_others_run)

    assert len(texts) == 1


@pytest.mark.parametrize("name", ["guard", "probe"])
def test_the_digest_is_that_of_the_text(name: str, tmp_path: Path) -> None:
    packed = pack(name, root=write_tree(tmp_path, TREE))
    assert packed.name == name
    assert packed.digest == sha256(packed.text.encode()).hexdigest()
    assert packed == pack(name, root=tmp_path)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("guard", "hostside/guard.py"),
        ("guard", "hostside/shared/log.py"),
        ("probe", "hostside/probe.sh"),
        ("probe", "hostside/shared/say.sh"),
    ],
)
def test_the_digest_changes_with_every_included_file(name: str, file: str, tmp_path: Path) -> None:
    before = pack(name, root=write_tree(tmp_path, TREE)).digest
    (tmp_path / file).write_text(TREE[file] + "# changed\n")
    assert pack(name, root=tmp_path).digest != before


def test_the_digest_does_not_depend_on_where_rigops_is_installed(tmp_path: Path) -> None:
    here = pack("guard", root=write_tree(tmp_path / "here", TREE))
    there = pack("guard", root=write_tree(tmp_path / "there", TREE))
    assert here == there


def test_an_unknown_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RigopsError, match="trial is no host-side program"):
        pack("trial", root=write_tree(tmp_path, TREE))


def test_one_name_for_two_programs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RigopsError, match=r"2 host-side programs: guard\.py, guard\.sh"):
        pack("guard", root=write_tree(tmp_path, {**TREE, "hostside/guard.sh": "true\n"}))


def test_a_program_of_a_concern_finds_what_is_shared(tmp_path: Path) -> None:
    own = {"concerns/thing/act.sh": ". ./shared/say.sh\nsay acting\n"}
    root = write_tree(tmp_path, {**TREE, **own})
    assert pack("act", root=root).text == 'say() { echo "$1"; }\nsay acting\n'
