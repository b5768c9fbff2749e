"""Imports paramiko without invoke, which with what it imports takes a sixth of the start.

paramiko wants it for `Match exec` alone, in files that OpenSSH reads for us (see route).
"""

from __future__ import annotations

import sys

if "paramiko" not in sys.modules:
    sys.modules["invoke"] = None  # type: ignore[assignment]  # makes the import of it fail
    import paramiko  # noqa: F401 - imported without invoke

    del sys.modules["invoke"]
