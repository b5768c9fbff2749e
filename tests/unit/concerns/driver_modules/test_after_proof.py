from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from rigops.concerns.concern import HostRequest, ProvenHost
from rigops.concerns.driver_modules import tree
from rigops.concerns.driver_modules.after_proof import keep, stored
from rigops.concerns.registry import read
from rigops.record import lockfile
from rigops.record.lockfile import Lockfile, locked
from rigops.record.proven import Bios, Driver, Proven
from rigops.transport import Target
from tests.unit.concerns.driver_modules.trees import files, written

if TYPE_CHECKING:
    from pathlib import Path

STOCK = Proven(
    host="rig",
    at="2026-11-28T06:00:00Z",
    rigops="0.1.0",
    inventory_digest="",
    driver=Driver("595.71.05", "open"),
    packages={},
    kernel="6.1.0-18-amd64",
    command_line=("rigops.nvidia=own",),
    bios=Bios("", ""),
    gpus=(),
    level="L5",
    pairs=(),
)


def _host(tmp_path: Path, proven: Proven, **known: Any) -> ProvenHost:
    data = {"driver": "595.71.05", "driver_modules": str(tmp_path / "tree")}
    data["rigops_vault"] = str(tmp_path / "vault")
    request = HostRequest("rig", Target.from_host_data("rig", data), data, read(data), **known)
    return ProvenHost(
        request=request,
        state=None,
        proven=proven,
        was_changed=True,
        shell=cast("Any", None),  # it is not asked
    )


def test_a_proven_tree_is_in_the_vault_where_a_reinstalled_host_finds_it(tmp_path: Path) -> None:
    found = tree.read(str(written(tmp_path / "tree", files())))
    proven = replace(STOCK, modules=f"own:{found.digest}", build_id="ab" * 20)

    kept = keep(_host(tmp_path, proven))

    lock = locked(proven, (), kept.tree)
    again = stored(_host(tmp_path, proven, locked=lock).request)
    assert again is not None
    there = again.tree()
    assert there is not None
    assert (there.digest, there.version) == (found.digest, "595.71.05")
    again.path.write_bytes(b"something else")
    tree.read.cache_clear()
    assert again.tree() is None


def test_a_proof_of_stock_modules_keeps_none_and_the_lockfile_says_nothing(tmp_path: Path) -> None:
    written(tmp_path / "tree", files())
    kept = keep(_host(tmp_path, STOCK))

    text = Lockfile({"rig": locked(STOCK, (), kept.tree)}).to_json()
    assert not (tmp_path / "vault").exists()
    assert "modules" not in text
    (tmp_path / "lock").write_text(text)
    assert lockfile.read(tmp_path / "lock").hosts["rig"].modules == "stock"


def test_a_proof_with_other_modules_has_another_key_and_earlier_ones_are_of_stock() -> None:
    own = replace(STOCK, modules=f"own:{'a' * 64}", build_id="ab" * 20)
    keys = {STOCK.key(), own.key(), replace(own, build_id="cd" * 20).key()}

    assert len(keys) == 3
    assert Proven.from_json(own.to_json()) == own
    assert "modules" not in STOCK.to_json()
    assert Proven.from_json(STOCK.to_json()) == STOCK
