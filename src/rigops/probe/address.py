"""PCI addresses, which every tool writes in a way of its own, in the kernel's spelling."""

from __future__ import annotations

import re

_SHAPE = re.compile(
    r"(?:gpu\s*[0-9]{1,3}:\s*(?=[0-9a-f]{4,8}:)|gpu\s*|pci:\s*)?"
    r"(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<bus>[0-9a-f]{2}):(?P<device>[0-9a-f]{2})"
    r"(?:\.(?P<function>[0-7]))?"
)
_LONGEST = 80


def normal(text: str) -> str | None:
    """`00000000:0A:00.0`, `PCI:0000:0a:00`, `GPU0000:0A:00.0`, `0a:00.0`: all `0000:0a:00.0`."""
    shape = _SHAPE.fullmatch(text.strip().lower()) if len(text) <= _LONGEST else None
    if shape is None:
        return None
    domain = int(shape["domain"] or "0", 16)
    return f"{domain:04x}:{shape['bus']}:{shape['device']}.{shape['function'] or '0'}"
