"""Small real .debs of the NVIDIA drivers and of what surrounds them, for real apt and dpkg.

`repository` builds them once; `sources` says where a rig gets packages from; `install` gives a tree
the driver that its rig boots with, and `change` a running host another one.
"""

from __future__ import annotations

from tests.lab.packages.install import change, install
from tests.lab.packages.repository import repository
from tests.lab.packages.sources import AT, FILE, Machine, source, sources

__all__ = ["AT", "FILE", "Machine", "change", "install", "repository", "source", "sources"]
