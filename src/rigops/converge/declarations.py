"""What a run declares of a host, for the record there: what it leaves alone stays as it was."""

from __future__ import annotations

from collections.abc import Collection

from rigops.concerns import registry
from rigops.concerns.concern import HostRequest
from rigops.converge.request import RunOptions
from rigops.record.declared import DeclaredKeys


def declared_keys(
    request: HostRequest,
    options: RunOptions,
    withheld: Collection[str],
    before: DeclaredKeys | None,
) -> DeclaredKeys:
    """`withheld`: concerns whose removal nobody confirmed."""
    selection, holder = options.selection, options.holder

    def stays(name: str) -> bool:
        concern = registry.concern_of(name.partition(".")[0])
        return bool(concern) and (concern in withheld or not selection.has(concern or ""))

    known = before or DeclaredKeys(at=holder.started, keys={})
    keys = {name: value for name, value in known.keys.items() if stays(name)}
    parts = {name: value for name, value in known.parts.items() if stays(name)}
    left_out = {name for name in known.left_out if stays(name)}
    for name, key in registry.keys().items():
        concern = registry.concern_of(name)
        is_selected = concern is None or selection.has(concern)
        if is_selected and name in request.spec.declared:
            value = request.data[name]
            if not key.stays_here:
                keys[name] = value
            elif key.recorded_parts and isinstance(value, dict):
                own = value.keys() & set(key.recorded_parts)
                parts[name] = {part: one for part, one in value.items() if part in own}
                left_out |= {f"{name}.{part}" for part in value.keys() - own}
            else:
                left_out.add(name)
    return DeclaredKeys.from_keys(
        holder.started, keys, before, parts=parts, left_out=left_out, who=holder.who
    )
