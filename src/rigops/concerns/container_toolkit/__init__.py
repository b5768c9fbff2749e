"""container_toolkit: NVIDIA's container toolkit in one version, held."""

from __future__ import annotations

from typing import Final

NAME: Final = "container_toolkit"
