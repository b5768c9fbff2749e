"""Where the programs of backups touch a path by its name: only what nobody but root can write.

Everything else goes through rigops.hostside.shared.beneath. A call that is new here has to be of
one of these kinds, or by descriptors.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import rigops

BY_NAME: Final = {
    "shutil", "subprocess", "open", "rename", "replace", "renames", "mkdir", "makedirs", "rmdir",
    "unlink", "remove", "chown", "chmod", "link", "symlink", "symlink_to", "listdir", "scandir",
    "walk", "iterdir", "glob", "rglob", "read_text", "read_bytes", "write_text", "write_bytes",
    "touch", "stat", "lstat", "utime",
    "mknod", "resolve",
}  # fmt: skip
OURS = "below /etc/rigops, /run/rigops, /var/lib/rigops or /var/cache/rigops"
STORE = "in the store, which LocalPlace has looked at: root's on the whole way"
KERNEL = "of the kernel, in /proc, /sys or /dev"
CHILD = "a program without a path, or with one of the kinds here"
OPEN = "by a descriptor: `dir_fd`, a number, or the path of an open folder"
ROOTS = "of the system: root's"
TYPED = "a folder that a person named for this restore"
READ = "asks, and believes the answer only once it was opened"

ALLOWED: Final = {
    "snapshots/copying": {"read_text": KERNEL},
    "snapshots/creating": {"iterdir": STORE},
    "snapshots/listing": {"glob": ROOTS, "subprocess.run": CHILD},
    "snapshots/marks": {"read_text": STORE},
    "backup/mounted": {"read_text": KERNEL, "subprocess.run": CHILD},
    "backup/nested_moves": {
        "os.chown": OPEN, "os.mkdir": OPEN, "os.rmdir": OPEN, "shutil.copystat": OPEN,
    },
    "backup/noted_places": {
        "mkdir": OURS, "open": OURS, "os.open": OURS, "os.scandir": READ, "read_text": OURS,
    },
    "backup/one_run": {"mkdir": OURS, "os.open": OURS},
    "snapshots/place": {"os.listdir": STORE, "os.lstat": STORE, "os.open": STORE},
    "snapshots/receiving": {
        "iterdir": STORE, "rmdir": STORE, "stat": STORE, "shutil.rmtree": STORE, "unlink": STORE,
    },
    "snapshots/restoring": {"os.makedirs": TYPED},
    "snapshots/root_loader": {"mkdir": ROOTS, "os.scandir": ROOTS, "shutil.rmtree": ROOTS},
    "snapshots/root_note": {"mkdir": STORE, "read_text": STORE, "unlink": STORE},
    "snapshots/root_plan": {
        "os.listdir": ROOTS, "read_text": ROOTS, "stat": ROOTS, "subprocess.run": CHILD,
    },
    "snapshots/root_rollback": {"read_text": KERNEL, "unlink": ROOTS},
    "snapshots/scrubbing": {"subprocess.run": CHILD},
    "backup/program": {"os.open": KERNEL},
    "backup/server_access": {"read_text": OURS},
    "backup/snapshot_settings": {"read_text": OURS},
    "backup/state_file": {
        "mkdir": OURS, "os.open": OURS, "read_text": OURS, "replace": OURS, "unlink": OURS,
    },
    "backup/time_service": {"read_text": ROOTS},
    "backup/volumes": {"mkdir": OURS, "os.mkdir": OPEN},
    "backup/workspace": {
        "mkdir": OURS, "read_text": OURS, "subprocess.run": OPEN, "unlink": OURS,
    },
    "borg/archive_contents": {"mkdir": OURS},
    "borg/archive_restoring": {
        "os.chown": OPEN, "os.makedirs": TYPED, "os.open": OPEN, "os.unlink": OPEN,
        "os.utime": OPEN, "shutil.copystat": OPEN,
    },
    "borg/borg_locks": {"iterdir": ROOTS, "stat": ROOTS},
    "borg/borg_process": {"shutil.which": ROOTS, "subprocess.Popen": CHILD},
    "borg/borg_settings": {"read_text": OURS},
    "borg/borg_sources": {
        "iterdir": STORE, "lstat": STORE, "mkdir": OURS, "os.lstat": READ, "shutil.rmtree": OURS,
    },
    "borg/checkpoint_excludes": {"mkdir": OURS, "os.listdir": READ, "os.lstat": READ},
    "borg/drilling": {"mkdir": OURS, "shutil.rmtree": OURS},
    "borg/identity": {"mkdir": OURS, "read_text": OURS, "subprocess.Popen": CHILD},
    "borg/passphrase": {"read_bytes": OURS},
    "borg/sampling": {"os.lstat": READ},
    "borg/source_tree": {"os.makedirs": OURS, "os.open": ROOTS},
    "borg/ssh_refusal": {"subprocess.run": CHILD},
}  # fmt: skip


def test_no_program_of_backups_touches_a_path_of_a_user_by_its_name() -> None:
    programs = Path(rigops.__file__).parent
    found: dict[str, set[str]] = {}
    for folder in ("backup/host", "concerns/snapshots/host", "concerns/borg/host"):
        for file in sorted((programs / folder).glob("*.py")):
            calls = calls_by_name(ast.parse(file.read_text(encoding="utf-8")))
            if calls:
                found[f"{file.parent.parent.name}/{file.stem}"] = calls

    assert found == {name: set(kinds) for name, kinds in ALLOWED.items()}


def calls_by_name(tree: ast.AST) -> set[str]:
    called = (one for one in ast.walk(tree) if isinstance(one, ast.Call))
    return {name for one in called if (name := _name(one))}


def _name(call: ast.Call) -> str:
    called = call.func
    if isinstance(called, ast.Name):
        return called.id if called.id == "open" else ""
    if not isinstance(called, ast.Attribute):
        return ""
    holder = called.value.id if isinstance(called.value, ast.Name) else ""
    if holder in {"shutil", "subprocess", "os"}:
        return f"{holder}.{called.attr}" if {holder, called.attr} & BY_NAME else ""
    if called.attr == "replace" and (len(call.args) != 1 or call.keywords):
        return ""  # of a text or a time
    return called.attr if called.attr in BY_NAME else ""
