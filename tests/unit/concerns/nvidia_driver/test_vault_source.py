"""A driver on its way to a host: whole, in order, with its progress reported."""

from __future__ import annotations

import shlex
import subprocess
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from rigops.concerns.nvidia_driver.vault_source import sent
from rigops.probe.package_names import RUN_FILE
from rigops.vault.pinned_set import POOL, PinnedPackage
from rigops.vault.store import Store

if TYPE_CHECKING:
    from pathlib import Path


def stored(store: Store, name: str, version: str, data: bytes) -> PinnedPackage:
    digest = sha256(data).hexdigest()
    store.put(digest, [data])
    return PinnedPackage(name, version, "amd64", digest, len(data))


def test_the_pieces_arrive_as_the_file_that_was_sent(tmp_path: Path) -> None:
    data = bytes(range(256)) * 70_000
    store = Store(tmp_path / "store")
    one = stored(store, RUN_FILE, "535.261.03", data)
    pool = tmp_path / "pool"

    for command in sent([one], store):
        arguments = cast("dict[str, Any]", command.connector_arguments)
        line = command.get_raw_value().replace(POOL, str(pool))
        subprocess.run(shlex.split(line), input=arguments["_stdin"], check=True)

    assert (pool / "NVIDIA-Linux-x86_64-535.261.03.run.rigops-new").read_bytes() == data


def test_progress_is_reported_a_few_times(tmp_path: Path) -> None:
    store = Store(tmp_path)
    packages = [
        stored(store, f"libcuda{number}", "1", bytes([number]) * 10**7) for number in range(9)
    ]

    said = [one.progress for one in sent(packages, store) if one.progress]

    assert 6 <= len(said) <= 8
    assert said[-1].endswith(" of 90 MB")


def test_a_small_file_is_sent_without_a_report(tmp_path: Path) -> None:
    store = Store(tmp_path)

    assert [one.progress for one in sent([stored(store, "dkms", "3", b"x" * 1000)], store)] == [""]
