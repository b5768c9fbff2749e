"""Bundles that doctor reads instead of hosts, and those that it saves."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rigops.cli.hosts import find_neighbors, host_catalog
from rigops.cli.options import existing_inventory
from rigops.cli.output import warn
from rigops.doctor import notes
from rigops.doctor.known_lines import has_known_lines
from rigops.doctor.redaction_check import find_change
from rigops.errors import usage_error
from rigops.hosts.probing import CollectedHost
from rigops.inventory import Inventory
from rigops.inventory.spec import RigSpec
from rigops.probe.bundle import Bundle
from rigops.probe.bundles.reading import MOST_PASTED, IsKnown, read_all, read_content
from rigops.probe.bundles.redaction import Redaction
from rigops.probe.bundles.saving import save, save_all
from rigops.probe.snapshot import HostSnapshot
from rigops.report.terminal import print_lines

_STANDARD_INPUT = Path("-")


def hosts_from_bundles(
    paths: Sequence[Path], hosts: Sequence[str], inventory_path: Path | None
) -> list[CollectedHost]:
    """With one bundle, HOST names the declarations to use; with several, the bundles to read.

    A saved bundle holds its host's real name only if it was saved with --raw. Records of this
    machine are used for a HOST that is named.
    """
    inventory = existing_inventory(inventory_path)

    def is_known(pasted: Bundle) -> bool:
        """By the catalog that it is going to be judged by."""
        name = hosts[0] if len(hosts) == len(paths) == 1 else pasted.host
        spec = _declared(inventory, name, required=False)
        return has_known_lines(HostSnapshot(pasted), host_catalog(spec))

    found = [bundle for path in paths for bundle in _read(path, is_known)]
    if len(hosts) == 1 and len(found) == 1:
        return [
            replace(_collected(found[0], inventory, hosts[0], required=True), known_as=hosts[0])
        ]
    named = {bundle.host for bundle in found}
    for host in hosts:
        if host not in named:
            raise usage_error(
                message="no bundle has this host",
                key="HOST",
                value=host,
                accepted=", ".join(sorted(named)),
            )
    return [
        replace(
            _collected(bundle, inventory, bundle.host, required=False),
            known_as=bundle.host if hosts else "",
        )
        for bundle in found
        if not hosts or bundle.host in hosts
    ]


def _read(path: Path, is_known: IsKnown) -> list[Bundle]:
    if path != _STANDARD_INPUT:
        return read_all(path, is_known=is_known)
    content = sys.stdin.buffer.read(MOST_PASTED + 1)
    return read_content(content, place="standard input", host="paste", is_known=is_known)


def _collected(
    bundle: Bundle, inventory: Inventory | None, name: str, *, required: bool
) -> CollectedHost:
    return CollectedHost(
        host=bundle.host,
        source="bundle",
        spec=_declared(inventory, name, required=required),
        neighbors=find_neighbors(inventory, name),
        bundle=bundle,
        notes=tuple(notes.of_bundle(bundle)),
    )


def _declared(inventory: Inventory | None, name: str, *, required: bool) -> RigSpec | None:
    host = inventory.host(name) if inventory else None
    if host is None and required:
        raise usage_error(
            message="not in the inventory",
            key="HOST",
            value=name,
            fix=(inventory.nearest(name) if inventory else "") or "name the inventory with -i",
        )
    return host.spec if host else None


def save_bundles(bundles: Sequence[Bundle], path: Path, *, redacted: bool) -> None:
    if not bundles:
        warn([f"no host was reached; {path} not written"])
        return
    if redacted:
        bundles = _without_names(bundles, path)
    saved = save(bundles[0], path) if len(bundles) == 1 else save_all(bundles, path)
    replaced = "replaced; read it before you publish it" if redacted else "not replaced"
    print_lines(f"Saved {saved}: names, addresses and serials {replaced}.", err=True)


def _without_names(bundles: Sequence[Bundle], path: Path) -> list[Bundle]:
    """Refuses where its reader's findings would differ."""
    redaction = Redaction(bundles)
    redacted = [redaction.bundle(one) for one in bundles]
    for original, one in zip(bundles, redacted, strict=True):
        if change := find_change(original, one, redaction, host_catalog(None)):
            check_id, line = change
            raise usage_error(
                message=f"not written: without names, {check_id} finds something else by this "
                f"line of {line.section}: {line.line.strip()!r}",
                file=str(path),
                host=original.host,
                fix="Add --raw to save it with all names, and report that line as a bug of rigops.",
            )
    return redacted
