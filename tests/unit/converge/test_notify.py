"""Whom a host tells of its troubles, and the hook of its kernels, planned and applied."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from rigops.concerns.monitoring import operations
from rigops.concerns.nvidia_driver import modules
from rigops.converge.connector import HostChannel
from rigops.converge.engine import Engine
from rigops.facts.files import FileFound
from rigops.facts.sections import RigopsState
from rigops.hostside.packing import pack
from rigops.ownership.ownership import OwnedFile, Ownership
from rigops.plan.context import Consent
from rigops.probe.sections.rigops_state import Present
from rigops.probe.sections.rigops_state import RigopsState as StateFacts
from rigops.transport import Privilege
from tests.unit.converge.fakes import FakeHost

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rigops.plan.change import Plan

SECRET = "https://ntfy.example/hush-hush"
DEPLOY = """
from rigops.concerns.nvidia_driver.modules import kernel_hook
from rigops.concerns.monitoring.operations import NOTIFY_ABSENCE, install_notify
from rigops.inventory.spec.model import Notify
from rigops.ownership.owned_files import undo_undeclared

install_notify(concern="things", target=Notify(**{target!r}) if {target!r} else None)
if {wanted!r}:
    kernel_hook(concern="things")
undo_undeclared(name="the rest", concern="things", effects=NOTIFY_ABSENCE)
"""
PATHS = (
    operations.NOTIFY_PROGRAM,
    operations.NOTIFY_TARGET,
    modules.PROGRAM,
    *modules.HOOKS,
)


class Rig:
    def __init__(self, folder: Path, state: StateFacts | None = None) -> None:
        self.host = FakeHost()
        self.folder = folder
        self.engine = Engine({"rig": {}})
        self.channel = HostChannel(self.host, Privilege("root"))
        self.channel.cache.seed_files(PATHS, {})
        self.engine.attach("rig", self.channel, [(RigopsState, state or StateFacts())])

    def declare(self, target: Mapping[str, str] | None = None, *, wanted: bool = False) -> None:
        text = DEPLOY.format(target=target, wanted=wanted)
        self.deploy = self.folder / f"{sha256(text.encode()).hexdigest()[:8]}.py"
        self.deploy.write_text(text)

    def plan(self) -> Plan:
        return self.engine.plan("rig", [self.deploy], consent=Consent())

    def script(self) -> str:
        self.engine.apply("rig", [self.deploy])
        (sent,) = self.host.sent
        return sent.stdin


def owning(files: Mapping[str, tuple[str, int]]) -> StateFacts:
    present = {
        path: Present(sha256(text.encode()).hexdigest(), mode)
        for path, (text, mode) in files.items()
    }
    owned = {
        path: OwnedFile(path=path, concern="things", digest=one.digest, mode=one.mode)
        for path, one in present.items()
    }
    return StateFacts(owned=Ownership(owned).to_json(), present=present)


def encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.mark.parametrize(
    ("target", "content"),
    [
        ({"url": SECRET}, f"url\n{SECRET}\n"),
        ({"command": "mail -s rig root"}, "command\nmail -s rig root\n"),
        (
            {"url": "http://10.0.0.1/x", "ping": SECRET},
            f"url\nhttp://10.0.0.1/x\nping\n{SECRET}\n",
        ),
        ({"ping": SECRET}, f"ping\n{SECRET}\n"),
    ],
)
def test_a_target_is_written_for_root_alone(
    rig: Rig, target: Mapping[str, str], content: str
) -> None:
    rig.declare(target)
    script = rig.script()

    assert encoded(content) in script
    assert f"aside {operations.NOTIFY_TARGET} 0600" in script
    assert encoded(pack("notify").text) in script.replace("\n", "")


def test_no_plan_shows_the_target(rig: Rig) -> None:
    rig.declare({"url": SECRET})
    planned = rig.plan()

    assert [one.subject for one in planned.changes] == [
        operations.NOTIFY_PROGRAM,
        operations.NOTIFY_TARGET,
    ]
    assert "hush" not in str(planned)


def test_a_target_that_is_there_already_changes_nothing(tmp_path: Path) -> None:
    there = {
        operations.NOTIFY_PROGRAM: (pack("notify").text, 0o755),
        operations.NOTIFY_TARGET: (f"url\n{SECRET}\n", 0o600),
    }
    rig = Rig(tmp_path, owning(there))
    rig.declare({"url": SECRET})

    assert not rig.plan().pending


def test_a_target_that_others_may_read_is_written_anew(tmp_path: Path) -> None:
    there = {
        operations.NOTIFY_PROGRAM: (pack("notify").text, 0o755),
        operations.NOTIFY_TARGET: (f"url\n{SECRET}\n", 0o644),
    }
    rig = Rig(tmp_path, owning(there))
    rig.declare({"url": SECRET})

    assert f"aside {operations.NOTIFY_TARGET} 0600" in rig.script()


def test_a_target_that_is_no_longer_declared_goes_with_program_and_folder(tmp_path: Path) -> None:
    there = {
        operations.NOTIFY_PROGRAM: (pack("notify").text, 0o755),
        operations.NOTIFY_TARGET: (f"url\n{SECRET}\n", 0o600),
    }
    rig = Rig(tmp_path, owning(there))
    rig.declare(None)
    script = rig.script()

    assert f"rm -f {operations.NOTIFY_TARGET}" in script
    assert f"rm -f {operations.NOTIFY_PROGRAM}" in script
    assert script.index(f"rm -f {operations.NOTIFY_TARGET}") < script.index("rmdir /etc/rigops")


def test_the_hook_is_called_for_images_and_headers_and_before_dkms(rig: Rig) -> None:
    rig.declare(wanted=True)

    changed = {one.subject: one.after or "" for one in rig.plan().changes}
    assert set(changed) == {modules.PROGRAM, *modules.HOOKS}
    assert {path.rpartition("/")[0] for path in modules.HOOKS} == {
        "/etc/kernel/postinst.d", "/etc/kernel/header_postinst.d",
    }  # fmt: skip
    assert all(path.rpartition("/")[2] < "dkms" for path in modules.HOOKS)
    assert all(f'{modules.PROGRAM} installed "$1"' in changed[one] for one in modules.HOOKS)
    script = rig.script()
    assert all(f"aside {path} 0755" in script for path in modules.HOOKS)


def test_a_hook_that_is_not_wanted_any_more_goes(tmp_path: Path) -> None:
    rig = Rig(tmp_path, owning(dict.fromkeys(modules.HOOKS, ("old\n", 0o755))))
    rig.declare(wanted=False)
    script = rig.script()

    assert all(f"rm -f {path}" in script for path in modules.HOOKS)


def test_no_plan_shows_the_target_that_goes(tmp_path: Path) -> None:
    rig = Rig(tmp_path, owning({operations.NOTIFY_TARGET: (f"url\n{SECRET}\n", 0o600)}))
    found = FileFound(Present(sha256(f"url\n{SECRET}\n".encode()).hexdigest(), 0o600), SECRET)
    rig.channel.cache.seed_files([operations.NOTIFY_TARGET], {operations.NOTIFY_TARGET: found})
    rig.declare(None)

    (change,) = rig.plan().changes
    assert (change.subject, change.before, change.after) == (
        operations.NOTIFY_TARGET,
        "(not shown)\n",
        None,
    )
