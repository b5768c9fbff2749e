"""Many operations on owned files, planned and applied by the engine."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from rigops.converge.connector import HostChannel
from rigops.converge.engine import Engine
from rigops.converge.errors import DeployError
from rigops.facts.files import FileFound
from rigops.facts.sections import RigopsState
from rigops.hostside.packing import installed_at, pack
from rigops.ownership.ownership import OwnedFile, Ownership, digest
from rigops.plan.context import Consent
from rigops.probe.sections.rigops_state import OwnedUnit, Present
from rigops.probe.sections.rigops_state import RigopsState as StateFacts
from rigops.transport import LOCAL, HostKeyPolicy, Privilege, connect
from tests.unit.converge.fakes import FakeHost

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.plan.change import Plan

HEAD = (
    "from rigops.ownership.owned_files import owned_file, owned_program, owned_unit\n"
    "from rigops.ownership.owned_files import undo_undeclared\n"
)
END = 'undo_undeclared(name="the rest", concern="things")\n'
FILES = tuple(f"/etc/things/{number:02}.conf" for number in range(18))
UNITS = ("rigops-a.service", "rigops-b.service")
PROGRAM = installed_at("acs")
MANY = (
    HEAD
    + "".join(f'owned_file(concern="things", path="{path}", content="a\\n")\n' for path in FILES)
    + "".join(
        f'owned_unit(concern="things", unit="{unit}", content="[Unit]\\n")\n' for unit in UNITS
    )
    + END
)


class Rig:
    """A host that remembers, where nothing stands yet but what its state says."""

    def __init__(self, folder: Path, state: StateFacts | None = None) -> None:
        self.host = FakeHost()
        self.deploy = folder / "things.py"
        self.engine = Engine({"rig": {}})
        self.channel = HostChannel(self.host, Privilege("root"))
        units = (f"/etc/systemd/system/{one}" for one in UNITS)
        self.channel.cache.seed_files([*FILES, *units, PROGRAM], {})
        self.engine.attach("rig", self.channel, [(RigopsState, state or StateFacts())])

    def declare(self, text: str) -> None:
        # Each under a name of its own, since a deploy is compiled once.
        self.deploy = self.deploy.with_name(f"{sha256(text.encode()).hexdigest()[:8]}.py")
        self.deploy.write_text(text)

    def plan(self) -> Plan:
        return self.engine.plan("rig", [self.deploy], consent=Consent())

    def apply(self) -> list[str]:
        before = len(self.host.sent)
        self.engine.apply("rig", [self.deploy])
        return [sent.stdin for sent in self.host.sent[before:]]


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def owning(*paths: str, unit: OwnedUnit | None = None) -> StateFacts:
    digest = sha256(b"[Unit]\n" if unit else b"a\n").hexdigest()
    files = {
        path: OwnedFile(path=path, concern="things", digest=digest, mode=0o644) for path in paths
    }
    return StateFacts(
        owned=Ownership(files).to_json(),
        present={path: Present(digest, 0o644) for path in paths},
        units={path.rpartition("/")[2]: unit for path in paths if unit},
    )


def test_many_files_and_units_travel_in_one_exec_and_systemd_does_not_reload(rig: Rig) -> None:
    rig.declare(MANY)

    assert len(rig.plan().changes) == len(FILES) + len(UNITS)
    (script,) = rig.apply()
    assert all(path in script for path in FILES)
    assert "daemon-reload" not in script
    assert "\nrestart rigops-a.service rigops-b.service\n" in script


def test_only_a_new_content_of_units_may_wait_for_a_reload_which_is_one_exec(rig: Rig) -> None:
    found = []
    one = f'owned_file(concern="things", path="{FILES[0]}", content="a\\n")\n'
    for declared in (HEAD + one, MANY):
        rig.declare(declared)
        rig.apply()
        found.append(rig.channel.has_changed_units)
    before = len(rig.host.sent)

    rig.channel.reload()

    (script,) = [sent.stdin for sent in rig.host.sent[before:]]
    assert script.count("systemctl daemon-reload") == 1
    assert [*found, rig.channel.has_changed_units] == [False, True, False]


def test_what_the_steps_leave_behind_is_known_without_looking(rig: Rig) -> None:
    rig.declare(MANY)
    rig.apply()

    assert not rig.plan().pending


def test_the_record_names_every_file_before_the_first_is_written(rig: Rig) -> None:
    rig.declare(MANY)
    (script,) = rig.apply()

    record = script.index("settle /var/lib/rigops/owned.json")
    assert record < script.index(f"aside {FILES[0]}")
    assert script.count("settle /var/lib/rigops/owned.json") == 1


def test_a_file_that_no_operation_wants_any_more_is_taken_back(tmp_path: Path) -> None:
    rig = Rig(tmp_path, owning(*FILES[:2]))
    rig.declare(HEAD + f'owned_file(concern="things", path="{FILES[0]}", content="a\\n")\n' + END)

    (change,) = rig.plan().changes
    assert (change.subject, change.after) == (FILES[1], None)
    (script,) = rig.apply()
    assert f"rm -f {FILES[1]}" in script
    assert f"rm -f {FILES[0]}" not in script


def test_a_concern_without_any_declaration_goes_only_where_that_was_agreed_to(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path, owning(FILES[0]))
    rig.declare(HEAD + 'undo_undeclared(name="the rest", concern="things", declared=False)\n')

    assert rig.plan().undeclared == {"things": (FILES[0],)}
    assert not rig.plan().pending
    assert rig.apply() == []
    assert rig.engine.plan("rig", [rig.deploy], consent=Consent(removals=("things",))).pending


@pytest.mark.parametrize(
    ("unit", "pending"),
    [
        (OwnedUnit("active", "enabled"), False),
        (OwnedUnit("failed", "enabled"), True),
        (OwnedUnit("inactive", "enabled"), True),
        (OwnedUnit("active", "disabled"), True),
    ],
)
def test_a_unit_that_does_not_run_is_started_again(
    tmp_path: Path, unit: OwnedUnit, *, pending: bool
) -> None:
    path = f"/etc/systemd/system/{UNITS[0]}"
    rig = Rig(tmp_path, owning(path, unit=unit))
    rig.declare(
        HEAD + f'owned_unit(concern="things", unit="{UNITS[0]}", content="[Unit]\\n")\n' + END
    )

    planned = rig.plan()
    assert planned.pending is pending
    assert bool(planned.changes) is pending
    if pending:
        (change,) = planned.changes
        assert (change.before, change.after) == ("[Unit]\n", "[Unit]\n")
        (script,) = rig.apply()
        assert f"\nrestart {UNITS[0]}\n" in script
        assert "base64 -d <<" not in script


def test_units_that_were_disabled_together_are_all_enabled_by_one_apply(tmp_path: Path) -> None:
    paths = [f"/etc/systemd/system/{unit}" for unit in UNITS]
    rig = Rig(tmp_path, owning(*paths, unit=OwnedUnit("inactive", "disabled")))
    rig.declare(
        HEAD
        + "".join(
            f'owned_unit(concern="things", unit="{unit}", content="[Unit]\\n")\n' for unit in UNITS
        )
    )

    assert len(rig.plan().changes) == len(UNITS)
    (script,) = rig.apply()
    assert f"\nrestart {' '.join(UNITS)}\n" in script
    assert not rig.plan().pending


def test_steps_that_fail_are_told_in_the_words_of_the_host(rig: Rig) -> None:
    rig.declare(MANY)
    rig.host.exit_code = 1
    rig.host.stderr = b"mkdir: cannot create directory: No space left on device\n"

    with pytest.raises(DeployError, match="No space left on device"):
        rig.apply()


def test_what_an_interrupted_run_left_half_made_is_swept_away(tmp_path: Path) -> None:
    rig = Rig(tmp_path, StateFacts(strays=("/var/lib/rigops/owned.json.rigops-new",)))
    rig.declare(HEAD + END)

    assert rig.plan().pending
    (script,) = rig.apply()
    assert "rm -f /var/lib/rigops/owned.json.rigops-new" in script


def test_a_secret_is_not_in_the_plan(rig: Rig) -> None:
    rig.declare(
        HEAD
        + f'owned_file(concern="things", path="{FILES[0]}", content="hush", mode=0o600)\n'
        + END
    )

    assert "hush" not in str(rig.plan())


def having_program(owned: bytes, there: bytes) -> StateFacts:
    recorded, found = sha256(owned).hexdigest(), sha256(there).hexdigest()
    file = OwnedFile(path=PROGRAM, concern="things", digest=recorded, mode=0o755)
    return StateFacts(
        owned=Ownership({PROGRAM: file}).to_json(), present={PROGRAM: Present(found, 0o755)}
    )


def version(text: bytes) -> str:
    return f"sha256 {sha256(text).hexdigest()}\n"


OURS = pack("acs").text.encode()
PROGRAM_WANTED = HEAD + 'owned_program(concern="things", program="acs")\n' + END


def test_a_program_is_installed_executable_and_a_plan_has_its_digest(rig: Rig) -> None:
    rig.declare(PROGRAM_WANTED)

    (change,) = rig.plan().changes
    assert (change.subject, change.before, change.after) == (PROGRAM, None, version(OURS))
    (script,) = rig.apply()
    assert b64encode(OURS).decode() in script.replace("\n", "")
    assert f"aside {PROGRAM} 0755" in script
    assert not rig.plan().pending


@pytest.mark.parametrize(("owned", "there"), [(b"old\n", b"old\n"), (OURS, b"theirs\n")])
def test_a_program_that_is_another_one_is_replaced(
    tmp_path: Path, owned: bytes, there: bytes
) -> None:
    rig = Rig(tmp_path, having_program(owned, there))
    rig.declare(PROGRAM_WANTED)

    (change,) = rig.plan().changes
    assert (change.before, change.after) == (version(there), version(OURS))


def test_a_program_that_nobody_wants_any_more_goes_and_a_plan_has_its_digest(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path, having_program(OURS, OURS))
    rig.declare(HEAD + END)

    (change,) = rig.plan().changes
    assert (change.subject, change.before, change.after) == (PROGRAM, version(OURS), None)
    (script,) = rig.apply()
    assert f"rm -f {PROGRAM}" in script


def test_files_that_nobody_looked_at_are_looked_at_together(tmp_path: Path) -> None:
    """On this machine, which a plan only reads."""
    theirs = tmp_path / "theirs.conf"
    theirs.write_text("their\n")
    lines = [
        f'owned_file(concern="things", path="{path}", content="ours\\n")\n'
        for path in (theirs, tmp_path / "absent.conf")
    ]
    deploy = tmp_path / "deploy.py"
    deploy.write_text(HEAD + "".join(lines))
    engine = Engine({"rig": {}})
    with connect(LOCAL, host_keys=HostKeyPolicy()) as here:
        engine.attach("rig", HostChannel(here, Privilege("root")), [(RigopsState, StateFacts())])
        planned = engine.plan("rig", [deploy])

    assert [(one.subject, one.before) for one in planned.changes] == [
        (str(theirs), "their\n"),
        (str(tmp_path / "absent.conf"), None),
    ]


SECRET = (
    HEAD + f'owned_file(concern="things", path="{FILES[0]}", content="hush", mode=0o600)\n' + END
)
NOT_SECRET = HEAD + f'owned_file(concern="things", path="{FILES[0]}", content="b\\n")\n' + END


@pytest.mark.parametrize("found", [0o644, 0o666, 0o600, 0])
@pytest.mark.parametrize(
    ("recorded", "declared"),
    [(0o600, SECRET), (0o644, SECRET), (0o600, NOT_SECRET), (0o600, HEAD + END)],
)
def test_a_secret_whose_file_somebody_opened_to_all_is_not_in_the_plan(
    tmp_path: Path, recorded: int, declared: str, found: int
) -> None:
    digest = sha256(b"whisper").hexdigest()
    file = OwnedFile(path=FILES[0], concern="things", digest=digest, mode=recorded)
    there = Present(digest, found)
    state = StateFacts(owned=Ownership({file.path: file}).to_json(), present={file.path: there})
    rig = Rig(tmp_path, state)
    rig.channel.cache.seed_files([file.path], {file.path: FileFound(there, "whisper")})
    rig.declare(declared)

    plan = rig.plan()

    assert [change.subject for change in plan.changes] == [FILES[0]]
    assert "whisper" not in str(plan)
    assert "hush" not in str(plan)


def test_an_owner_and_a_mode_that_somebody_changed_are_shown_and_put_right(tmp_path: Path) -> None:
    state = owning(FILES[0])
    there = replace(state.present[FILES[0]], owner="1000:0", mode=0o4000)
    rig = Rig(tmp_path, replace(state, present={FILES[0]: there}))
    rig.channel.cache.seed_files([FILES[0]], {FILES[0]: FileFound(there, "a\n")})
    rig.declare(HEAD + f'owned_file(concern="things", path="{FILES[0]}", content="a\\n")\n' + END)

    (change,) = rig.plan().changes
    assert change.drift == "the owner is 1000:0, declared 0:0; the mode is 4000, declared 0644"
    (script,) = rig.apply()
    assert f"aside {FILES[0]} 0644" in script
    assert not rig.plan().pending


@pytest.mark.parametrize("is_owned", [True, False])
@pytest.mark.parametrize("kind", ["a symbolic link", "a directory", "a FIFO"])
def test_what_is_no_file_is_neither_followed_nor_replaced(
    tmp_path: Path, kind: str, *, is_owned: bool
) -> None:
    there = Present("", 0o777, kind=kind)
    state = owning(FILES[0]) if is_owned else StateFacts()
    rig = Rig(tmp_path, replace(state, present={FILES[0]: there} if is_owned else {}))
    rig.channel.cache.seed_files([FILES[0]], {FILES[0]: FileFound(there, "")})
    rig.declare(HEAD + f'owned_file(concern="things", path="{FILES[0]}", content="a\\n")\n' + END)

    ((_, reason),) = rig.plan().blocked

    assert reason == f"{FILES[0]} is {kind}, declared a file: move it away and run this again"


@pytest.mark.parametrize("enabled", ["enabled", "disabled", "static", ""])
@pytest.mark.parametrize(
    "active", ["active", "activating", "reloading", "inactive", "deactivating", "failed", ""]
)
def test_plan_starts_a_unit_where_doctor_says_that_apply_does(
    tmp_path: Path, active: str, enabled: str
) -> None:
    unit, found = UNITS[0], OwnedUnit(active, enabled)
    rig = Rig(tmp_path, owning(f"/etc/systemd/system/{unit}", unit=found))
    rig.declare(HEAD + f'owned_unit(concern="things", unit="{unit}", content="[Unit]\\n")\n' + END)

    assert bool(rig.plan().pending) is not found.runs


@pytest.mark.parametrize(
    ("unit", "pending"),
    [
        (OwnedUnit("inactive", "enabled"), False),
        (OwnedUnit("inactive", "disabled"), True),
        (OwnedUnit("failed", "enabled"), True),
    ],
)
def test_a_unit_that_ends_by_itself_is_started_where_it_failed_or_no_boot_starts_it(
    tmp_path: Path, unit: OwnedUnit, *, pending: bool
) -> None:
    name = UNITS[0]
    rig = Rig(tmp_path, owning(f"/etc/systemd/system/{name}", unit=unit))
    words = f'concern="things", unit="{name}", content="[Unit]\\n", stays_active=False'
    rig.declare(f"{HEAD}owned_unit({words})\n{END}")

    assert rig.plan().pending is pending


def test_a_masked_unit_is_a_blocker_with_the_command_that_ends_it(tmp_path: Path) -> None:
    unit = UNITS[0]
    rig = Rig(tmp_path, owning(f"/etc/systemd/system/{unit}", unit=OwnedUnit("inactive", "masked")))
    rig.declare(HEAD + f'owned_unit(concern="things", unit="{unit}", content="[Unit]\\n")\n' + END)

    ((_, reason),) = rig.plan().blocked

    assert reason == f"{unit} is masked: sudo systemctl unmask {unit}"


def test_a_drop_in_over_a_unit_is_named_and_stays(tmp_path: Path) -> None:
    unit, drop_in = UNITS[0], f"/etc/systemd/system/{UNITS[0]}.d/override.conf"
    found = OwnedUnit("active", "enabled", (drop_in,))
    rig = Rig(tmp_path, owning(f"/etc/systemd/system/{unit}", unit=found))
    rig.declare(HEAD + f'owned_unit(concern="things", unit="{unit}", content="[Unit]\\n")\n' + END)

    plan = rig.plan()

    assert not plan.pending
    ((_, text),) = plan.notices
    assert text.startswith(f"{drop_in} changes {unit}")


@pytest.mark.parametrize(("there", "by_hand"), [("a\n# mine\n", True), ("b\n", False)])
def test_a_file_that_somebody_changed_is_said_to_be_before_it_is_overwritten(
    tmp_path: Path, there: str, *, by_hand: bool
) -> None:
    """`b` is what rigops itself wrote, and no longer what is declared."""
    owned = OwnedFile(path=FILES[0], concern="things", digest=digest(b"b\n"), mode=0o644)
    found = Present(digest(there.encode()), 0o644)
    state = StateFacts(owned=Ownership({FILES[0]: owned}).to_json(), present={FILES[0]: found})
    rig = Rig(tmp_path, state)
    rig.channel.cache.seed_files([FILES[0]], {FILES[0]: FileFound(found, there)})
    rig.declare(HEAD + f'owned_file(concern="things", path="{FILES[0]}", content="a\\n")\n' + END)

    (change,) = rig.plan().changes
    assert (change.before, change.after, change.by_hand) == (there, "a\n", by_hand)
