"""What borgmatic and restic print, as recorded, and how their units are read."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

import pytest

from rigops.concerns.borg import record
from rigops.concerns.borg.host.saved_states import SavedItem, SavedState, choose_states, find_among
from rigops.concerns.borg.host.tool_borgmatic import (
    kept_options,
    list_word,
    read_item,
    read_repositories,
)
from rigops.concerns.borg.host.tool_restic import (
    global_options,
    last_option,
    pattern_of,
    read_node,
    read_repository,
    read_snapshot_list,
)
from rigops.concerns.borg.host.tool_run import ToolError, meaning_of
from rigops.concerns.borg.host.tool_unit import read_tool_unit, watched_unit
from rigops.concerns.borg.host.unmanaged_drilling import UNMANAGED_SCHEMA, UNMANAGED_STATE
from rigops.concerns.borg.host.unmanaged_listing import describe_states
from rigops.concerns.snapshots.host.btrfs import HostError

if TYPE_CHECKING:
    from pathlib import Path

HERE: Final = os.uname().nodename
# borgmatic 1.7.7 with borg 1.2.4: rlist --json --format {hostname}
RLIST: Final = (
    '[{"archives": [{"archive": "rig-2026-11-25T16:41:33.446016", "barchive": '
    '"rig-2026-11-25T16:41:33.446016", "hostname": "HOST", "id": "5d927c43", "name": '
    '"rig-2026-11-25T16:41:33.446016", "start": "2026-11-25T16:41:33.000000", "time": '
    '"2026-11-25T16:41:33.000000"}, {"archive": "rig-2026-11-25T16:41:35.185357", "barchive": '
    '"rig-2026-11-25T16:41:35.185357", "hostname": "another", "id": "4d96c55e", "name": '
    '"rig-2026-11-25T16:41:35.185357", "start": "2026-11-25T16:41:35.000000", "time": '
    '"2026-11-25T16:41:35.000000"}], "encryption": {"mode": "repokey-blake2"}, "repository": '
    '{"id": "95320ef0", "last_modified": "2026-11-25T16:41:35.000000", "location": '
    '"/srv/borg/rig"}}]'
)
# restic 0.14.0: snapshots --json, ls --json
SNAPSHOTS: Final = (
    '[{"time":"2026-11-25T18:47:46.106876345+02:00","tree":"eca9","paths":["/data"],"hostname":'
    '"HOST","username":"root","tags":["rig"],"id":"5957ebb793e0e553","short_id":"5957ebb7"},'
    '{"time":"2026-11-25T16:47:48.513461559Z","parent":"5957ebb793e0e553","tree":"eca9","paths":'
    '["/data","/etc"],"hostname":"nas","username":"root","id":"05bf34a0674d950a","short_id":'
    '"05bf34a0"}]'
)
LS: Final = (
    (
        '{"time":"2026-11-25T16:47:48.513461559Z","tree":"eca9","paths":["/data"],"hostname":"rig",'
        '"id":"05bf34a0674d950a","short_id":"05bf34a0","struct_type":"snapshot"}'
    ),
    (
        '{"name":"sub","type":"dir","path":"/data/sub","uid":0,"gid":0,"mode":2147484096,'
        '"permissions":"drwx------","mtime":"2026-11-25T16:41:32.441196351Z","struct_type":"node"}'
    ),
    (
        '{"name":"big","type":"file","path":"/data/sub/big","uid":0,"gid":0,"size":300000,"mode":384,'
        '"mtime":"2026-11-25T16:41:32.444877551Z","struct_type":"node"}'
    ),
    '{"name":"pipe","type":"fifo","path":"/data/pipe","uid":0,"gid":0,"struct_type":"node"}',
)
BORG_FELL: Final = """\
/srv/borg/rig: Error running actions for repository
Command 'borg extract /srv/borg/rig::rig pp:data' returned non-zero exit status 2.
/etc/borgmatic/config.yaml: Error running configuration file

summary:
/etc/borgmatic/config.yaml: Error running configuration file
/srv/borg/rig: Error running actions for repository
...
  File "/usr/lib/python3/dist-packages/borg/repository.py", line 1611, in _read
    raise IntegrityError('Segment entry checksum mismatch [segment {}, offset {}]'.format(
borg.helpers.errors.IntegrityError: Data integrity error: Segment entry checksum mismatch
Platform: Linux rig 6.1.0 x86_64

Need some help? https://torsion.org/borgmatic/#issues
"""
BORG_LOCKED: Final = """\
/srv/borg/rig: Error running actions for repository
Failed to create/acquire the lock /srv/borg/rig/lock.exclusive (timeout).
Command 'borg list --format {hostname} --json /srv/borg/rig' returned non-zero exit status 2.
"""
RESTIC_FELL: Final = """\
ignoring error for /data/sub/big: decrypting blob 20fb failed: ciphertext verification failed
Fatal: There were 1 errors
"""


def at(second: int) -> datetime:
    return datetime(2026, 11, 25, 16, 0, second, tzinfo=timezone.utc)


def unit(*command: str, **settings: Any) -> tuple[str, tuple[str, ...]]:
    started = {"ExecStart": [[command[0], list(command), False]], **settings}
    found = read_tool_unit("backup.timer", "backup.service", started)
    return found.tool, found.words


def test_archives_of_this_machine_are_read_with_their_repository(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    ((place, (found,)),) = read_repositories(RLIST.replace("HOST", f"{HERE}.example.org")).items()

    assert found.name == found.identity == "rig-2026-11-25T16:41:33.446016"
    assert found.place == place == "/srv/borg/rig"
    assert found.at.replace(tzinfo=None) == found.at.astimezone(timezone.utc).replace(tzinfo=None)
    assert read_repositories("summary: an error") == {}


def test_snapshots_of_this_machine_or_of_the_name_that_the_unit_gives_are_read() -> None:
    (mine,) = read_snapshot_list(SNAPSHOTS.replace("HOST", HERE), "restic.service")
    (named,) = read_snapshot_list(SNAPSHOTS, "restic.service", "nas")

    assert mine.at == datetime(2026, 11, 25, 16, 47, 46, tzinfo=timezone.utc)
    assert (mine.name, mine.identity, mine.paths) == ("5957ebb7", "5957ebb793e0e553", ("/data",))
    assert named.name == "05bf34a0"
    assert list(read_snapshot_list("null", "restic.service")) == []
    with pytest.raises(HostError):
        list(read_snapshot_list("Fatal: wrong password", "restic.service"))


def test_items_of_both_are_read_alike() -> None:
    assert [read_node(line) for line in (*LS, "", "3", "{}")] == [
        None,
        SavedItem("data/sub", "directory", 0),
        SavedItem("data/sub/big", "file", 300000),
        SavedItem("data/pipe", "", 0),
        None,
        None,
        None,
    ]
    assert read_item("rigops-item d 0 data/sub") == SavedItem("data/sub", "directory", 0)
    # Later versions put the name of the repository first.
    line = "/srv/borg/rig: rigops-item - 300000 data/a b$c"
    assert read_item(line) == SavedItem("data/a b$c", "file", 300000)
    assert read_item("/srv/borg/rig: Listing archive rig") is None


@pytest.mark.parametrize(
    ("version", "word"), [("1.7.7\n", "rlist"), ("1.9.14\n", "rlist"), ("2.0.13\n", "repo-list")]
)
def test_each_version_of_borgmatic_has_its_word(version: str, word: str) -> None:
    assert list_word(version) == word


@pytest.mark.parametrize("version", ["1.5.20", "", "unknown"])
def test_an_older_borgmatic_is_refused(version: str) -> None:
    with pytest.raises(HostError, match=r"from 1\.7 on"):
        list_word(version)


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("--verbosity -1 --syslog-verbosity 1", ""),
        ("-c /etc/b/a.yaml /etc/b/b.yaml create --stats", "-c /etc/b/a.yaml /etc/b/b.yaml"),
        ("--config=/a.yaml --verbosity 1 prune", "--config=/a.yaml"),
        ("create --override x.y=1 --list", "--override x.y=1"),
    ],
)
def test_of_borgmatic_the_words_that_choose_its_settings_stay(words: str, kept: str) -> None:
    assert kept_options(words.split()) == kept.split()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("backup --tag rig /data", ""),
        ("-r /srv/r backup --exclude x /data", "-r /srv/r"),
        ("--repo=s3:x backup -o a.b=-4 -p /root/pw /", "--repo=s3:x -o a.b=-4 -p /root/pw"),
        ("backup --password-command", "--password-command "),
    ],
)  # fmt: skip
def test_of_restic_the_words_that_reach_the_repository_stay(words: str, found: str) -> None:
    assert global_options(words.split()) == found.split(" ") * bool(found)


def test_the_host_that_a_unit_names_is_known() -> None:
    assert last_option(["backup", "--host", "nas", "/"], ("-H", "--host")) == "nas"
    assert last_option(["--host", "old", "backup", "--host=nas"], ("--host",)) == "nas"
    assert last_option(["backup", "/"], ("--host",)) == ""


def test_a_pattern_of_restic_matches_one_path_alone() -> None:
    assert pattern_of("data/a*b[c]?\\") == "/data/a\\*b\\[c\\]\\?\\\\"


def test_the_tool_of_a_unit_is_found_behind_what_starts_it() -> None:
    inhibit = ("systemd-inhibit", "--who=borgmatic", "/usr/bin/borgmatic", "--verbosity", "-1")
    assert unit(*inhibit) == ("borgmatic", ("/usr/bin/borgmatic", "--verbosity", "-1"))
    assert unit("/usr/bin/restic", "backup", "/") == (
        "restic",
        ("/usr/bin/restic", "backup", "/"),
    )


def test_of_several_commands_it_is_the_one_that_backs_up() -> None:
    commands = [["/r/restic", ["restic", word], False] for word in ("unlock", "backup", "forget")]
    found = read_tool_unit("restic.service", "restic.service", {"ExecStart": commands})

    assert found.words == ("/r/restic", "backup")


@pytest.mark.parametrize(
    ("command", "settings", "said"),
    [
        (("/usr/bin/kopia", "snapshot"), {}, "starts kopia"),
        (("/bin/sh", "-c", "restic backup /"), {}, "starts sh"),
        (("/usr/bin/restic", "backup"), {"User": "me"}, "runs as me"),
        (("/usr/bin/restic", "backup"), {"DynamicUser": True}, "runs as a user of its own"),
    ],
)
def test_of_any_other_unit_only_the_age_is_known(
    command: tuple[str, ...], settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(HostError, match=said) as raised:
        unit(*command, **settings)
    assert "only the age is known" in raised.value.message
    assert raised.value.fix


def test_a_unit_that_is_not_there_is_named() -> None:
    with pytest.raises(HostError, match=r"backup\.service is not on this host"):
        read_tool_unit("backup.timer", "backup.service", {"ExecStart": []})


def test_the_watched_unit_is_in_the_file_that_apply_writes(tmp_path: Path) -> None:
    file = tmp_path / "watched"
    with pytest.raises(HostError):
        watched_unit(str(file))
    file.write_text("unit borgmatic.timer\nnewest date +%s\n")
    assert watched_unit(str(file)) == "borgmatic.timer"


@pytest.mark.parametrize(
    ("errors", "meaning"),
    [
        (BORG_FELL, "Data integrity error: Segment entry checksum mismatch"),
        (
            BORG_LOCKED,
            "Failed to create/acquire the lock /srv/borg/rig/lock.exclusive (timeout).",
        ),
        (RESTIC_FELL, "Fatal: There were 1 errors"),
        ("Fatal: wrong password or no key found\n", "Fatal: wrong password or no key found"),
        ("", "it failed without a message"),
    ],
)
def test_of_all_that_a_tool_says_the_line_that_tells_is_shown(errors: str, meaning: str) -> None:
    assert meaning_of(errors) == meaning


def test_a_lock_is_no_damage() -> None:
    locked, fell = (ToolError("borgmatic", "b.service", one) for one in (BORG_LOCKED, BORG_FELL))

    assert (locked.is_locked, fell.is_locked) == (True, False)
    assert locked.fix == "wait until b.service has ended"


STATES: Final = [SavedState(at(second), f"n{second}", f"id{second}", "r") for second in (1, 2, 3)]


@pytest.mark.parametrize(
    ("wish", "names"),
    [
        ("", ["n3", "n2", "n1"]),
        ("n2", ["n2"]),
        ("id1", ["n1"]),
        ("2026-11-25T16:00:02Z", ["n2", "n1"]),
        ("2026-11-24T00:00:00Z", []),
    ],
)
def test_a_restore_takes_the_newest_that_fits(wish: str, names: list[str]) -> None:
    assert [one.name for one in choose_states(STATES, wish)] == names


def test_a_name_that_there_is_not_is_refused() -> None:
    with pytest.raises(HostError, match="neither a time nor a backup"):
        choose_states(STATES, "rig-2026-11-25")


def test_what_is_found_at_a_path_is_a_file_or_a_directory_with_its_size() -> None:
    items = [
        SavedItem("a", "directory", 0),
        SavedItem("a/b", "file", 5),
        SavedItem("a/c", "file", 7),
        SavedItem("a/l", "", 3),
    ]
    assert find_among(items, "a") == ("directory", 12)
    assert find_among(items[1:2], "a/b") == ("file", 5)
    assert find_among(items[3:], "a/l") == ("file", 0)
    assert find_among([], "a") is None


def test_the_list_is_by_path_where_the_tool_has_paths_and_else_by_the_unit() -> None:
    without = describe_states("borgmatic.timer", "borgmatic", "archive", STATES)
    pathed = [one._replace(paths=("/a", f"/{one.name}")) for one in STATES]
    with_paths = describe_states("restic.timer", "restic", "snapshot", pathed)
    none = describe_states("restic.timer", "restic", "snapshot", [])

    assert [one["path"] for one in without["subvolumes"]] == ["borgmatic.timer"]
    assert without["targets"][0]["newest_at"] == "2026-11-25T16:00:03Z"
    rows = {one["path"]: len(one["snapshots"]) for one in with_paths["subvolumes"]}
    assert rows == {"/a": 3, "/n1": 1, "/n2": 1, "/n3": 1}
    assert none["subvolumes"][0]["snapshots"] == none["targets"] == []


def test_the_note_of_a_drill_is_what_doctor_reads() -> None:
    last = {"at": "2026-11-25T16:00:00Z", "result": "ok", "files": 3, "error": None, "place": "r"}
    text = json.dumps({"schema": UNMANAGED_SCHEMA, "unit": "b.timer", "at": "", "last_drill": last})
    found = record.parse_unmanaged(text)

    assert UNMANAGED_STATE == record.UNMANAGED_PATH
    assert found.last_drill is not None
    assert (found.unit, found.last_drill.is_ok, found.last_drill.files) == ("b.timer", True, 3)
    assert (found.repository, found.newest_at) == ("", None)  # of an older rigops


@pytest.mark.parametrize(
    ("said", "repository"),
    [
        ("/srv/restic\n", "/srv/restic"),
        ("local:/srv/restic", "/srv/restic"),
        ("sftp:me@nas:/srv/restic", "sftp:me@nas:/srv/restic"),
        ("rest:https://me:secret@nas/rig", "rest:https://nas/rig"),
        ("s3:s3.amazonaws.com/rig", "s3:s3.amazonaws.com/rig"),
        ("restic", ""),  # in a folder that is not known
        ("local:restic", ""),
        ("", ""),
    ],
)
def test_a_repository_is_known_without_its_login(said: str, repository: str) -> None:
    assert read_repository(said) == repository
