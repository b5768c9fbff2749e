from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.probe.sections import container
from tests.unit.probe.asking import ask
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

SAID = f"""\
== {container.COMMANDS}
/usr/bin/docker
/usr/bin/nvidia-ctk
== nvidia-ctk --version
NVIDIA Container Toolkit CLI version 1.14.6
commit: 5605d191332dcfeea802c4497360d60a65c7887e
== /etc/docker/daemon.json
{{"runtimes": {{"nvidia": {{"args": [], "path": "nvidia-container-runtime"}}}}}}

== stat cdi
1700000000 /etc/cdi/nvidia.yaml
== grep libcuda cdi
/etc/cdi/nvidia.yaml:libcuda.so.535.129.03
== stat libcuda
1700000100 /usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01
== docker info runtimes
{{"io.containerd.runc.v2":{{"path":"runc"}},"nvidia-cdi":{{"path":"x"}}}}
"""


def test_engines_and_what_they_know() -> None:
    found = container.parse(SAID)

    assert found.engines == frozenset({"docker"})
    assert found.tools == {"nvidia-ctk"}
    assert found.toolkit == "1.14.6"
    assert found.nvidia_runtimes == frozenset({"nvidia", "nvidia-cdi"})
    assert found.cdi is not None
    assert [(one.path, one.epoch) for one in found.cdi] == [("/etc/cdi/nvidia.yaml", 1700000000)]
    assert [(one.spec, one.version) for one in found.named] == [
        ("/etc/cdi/nvidia.yaml", "535.129.03")
    ]
    assert [one.epoch for one in found.libraries] == [1700000100]
    assert not found.unparsed


def test_what_was_not_said_is_not_known() -> None:
    nothing = container.parse("")

    assert (nothing.engines, nothing.nvidia_runtimes, nothing.cdi) == (None, None, None)
    denied = container.parse("== /etc/docker/daemon.json\ncat: Permission denied\n")
    assert denied.nvidia_runtimes is None


@pytest.mark.parametrize("text", ["== stat cdi\nyesterday\n", "== rubbish\n"])
def test_what_it_cannot_read_it_says(text: str) -> None:
    assert container.parse(text).unparsed


@pytest.mark.parametrize("shell", SHELLS)
def test_a_specification_is_dated_once_and_its_driver_is_named(shell: str, tmp_path: Path) -> None:
    for path, text in {
        "etc/cdi/nvidia.yaml": "hostPath: /usr/lib/libcuda.so.535.129.03\n" * 500,
        "usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01": "",
        "usr/lib/x86_64-linux-gnu/libcuda.so.1": "",
        "etc/docker/daemon.json": '{"log-opts": {"token=secret": ""}, "runtimes": {"nvidia": {}}}',
    }.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    answer = ask(container.SECTION, shell, tmp_path)

    assert answer.is_complete
    found = container.parse(answer.text)
    assert found.cdi is not None
    assert [one.path for one in found.cdi] == ["/etc/cdi/nvidia.yaml"]
    assert [one.version for one in found.named] == ["535.129.03"]
    assert [one.path for one in found.libraries] == [
        "/usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01"
    ]
    assert found.nvidia_runtimes == frozenset({"nvidia"})
    assert "secret" not in answer.text
    assert not found.unparsed
