"""Imported before anything else by the commands that converge hosts.

gevent has to replace the standard library's blocking parts before a lock, thread or connection
exists: imported late, it leaves locks behind that never wake up.
"""

from __future__ import annotations

import importlib

from gevent import events, monkey


def _tell_no_plugin(_: object) -> None:
    """For each part gevent would look through the data of every installed package for plugins."""


events.notify_and_call_entry_points = _tell_no_plugin  # type: ignore[attr-defined]  # its stubs lack it
monkey.patch_all()
# pyinfra imports paramiko.
importlib.import_module("rigops.transport.without_invoke")
