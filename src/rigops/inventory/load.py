"""From an inventory file to hosts with their merged data, in pyinfra's order."""

from __future__ import annotations

import contextlib
import importlib
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rigops.dataclass import dataclass
from rigops.errors import Problem, UsageError, usage_error
from rigops.inventory import userfile
from rigops.inventory.groups import EXAMPLE, group_of
from rigops.inventory.spec import Key, RigSpec, examine
from rigops.inventory.spec.faults import shown
from rigops.inventory.spec.model import Circuit
from rigops.inventory.spec.names import did_you_mean, nearest
from rigops.inventory.userfile import UserFile

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Placed:
    """A value with its file and line."""

    value: object
    file: str
    line: int | None


@dataclass(frozen=True)
class InventoryHost:
    name: str
    groups: tuple[str, ...]
    placed: Mapping[str, Placed]
    spec: RigSpec

    @property
    def data(self) -> dict[str, object]:
        return {key: placed.value for key, placed in self.placed.items()}

    @property
    def connector(self) -> str:
        """The pyinfra connector: ssh, local, docker and so on."""
        if not self.name.startswith("@"):
            return "ssh"
        return self.name[1:].split("/", 1)[0]

    @property
    def is_supported(self) -> bool:
        """Whether rigops can reach it: by ssh, or as this machine."""
        return self.connector in {"ssh", "local"}

    def fits(self, pattern: str) -> bool:
        """`pattern`: a name, a group or a glob."""
        return pattern in self.groups or fnmatchcase(self.name, pattern)


@dataclass(frozen=True)
class Inventory:
    path: Path
    digest: str  # of every file that was read; for the journal
    hosts: tuple[InventoryHost, ...]
    warnings: tuple[str, ...]

    def host(self, name: str) -> InventoryHost | None:
        return next((host for host in self.hosts if host.name == name), None)

    def require(self, name: str) -> InventoryHost:
        """UsageError where the HOST of a command is not in it."""
        if (host := self.host(name)) is None:
            raise usage_error(
                message="not in the inventory", key="HOST", value=name, fix=self.nearest(name)
            )
        return host

    @property
    def supported(self) -> list[InventoryHost]:
        return [host for host in self.hosts if host.is_supported]

    def nearest(self, name: str) -> str:
        return did_you_mean(name, [host.name for host in self.hosts])

    def require_fitting(self, patterns: Iterable[str], key: str) -> None:
        """UsageError where one of them, of the option `key`, fits no supported host."""
        hosts = self.supported
        for pattern in patterns:
            if not any(host.fits(pattern) for host in hosts):
                names = [name for host in hosts for name in (host.name, *host.groups)]
                raise usage_error(
                    message=f"no such host or group in {self.path}",
                    key=key,
                    value=pattern,
                    fix=did_you_mean(pattern, names),
                )


Data = dict[str, Placed]


@dataclass
class _Groups:
    """All groups and their data, before the merge for each host."""

    keys: Mapping[str, Key[Any]]
    members: dict[str, list[tuple[str, Data]]] = field(default_factory=dict)
    data: dict[str, Data] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)  # of the files, in the order of reading


def load(
    path: Path,
    keys: Mapping[str, Key[Any]],
    cwd: Path | None = None,
    *,
    text: bytes | None = None,
) -> Inventory:
    """Raises UsageError with all problems of the inventory. `text`: the file's, as it would be."""
    cwd = Path.cwd() if cwd is None else cwd
    if not _exists(path):
        raise usage_error(
            message="no such inventory",
            file=str(path),
            fix="run `rigops init`, or name an inventory with -i",
        )
    source = userfile.read(path, text)
    if str(cwd) not in sys.path:
        sys.path.append(str(cwd))  # like pyinfra, for the user's own modules
    groups = _read_groups(userfile.execute(source), keys)
    groups.digests.append(source.digest)
    _add_implied_groups(groups, path)
    beside = path.parent.resolve() / "group_data"
    _read_group_data(groups, dict.fromkeys((cwd / "group_data", beside)))
    hosts = _hosts(groups, path.parent)
    groups.problems += _contradicting_circuits(hosts)
    if not hosts and not groups.problems:
        groups.problems.append(
            Problem(
                message="no hosts in this inventory",
                file=str(path),
                accepted="lists of hosts at the top level",
                fix=f"add one: {EXAMPLE}",
            )
        )
    if groups.problems:
        raise UsageError(groups.problems)
    log.info("read %d hosts from %s", len(hosts), path)
    digest = sha256("\n".join(groups.digests).encode()).hexdigest()
    return Inventory(path, digest, hosts, tuple(groups.warnings))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # reading it says why
        return True


def _read_groups(file: UserFile, keys: Mapping[str, Key[Any]]) -> _Groups:
    groups = _Groups(keys)
    for name, value in file.names.items():
        group = group_of(name, value, keys)
        if isinstance(group, Problem):
            line = file.lines.names.get(name)
            groups.problems.append(replace(group, file=file.path, line=line))
        elif group is not None:
            groups.members[name] = [
                (host, _place(groups, file, data, file.lines.host_keys, host))
                for host, data in group.members
            ]
            groups.data[name] = _place(groups, file, group.data, file.lines.group_keys, name)
        elif name in keys and name not in file.lines.used:
            groups.warnings.append(
                f"{file.path}: {name} at the top level declares nothing; "
                "put it into group_data/all.py to declare it for all hosts"
            )
    return groups


def _place(
    groups: _Groups,
    file: UserFile,
    data: dict[object, object],
    lines: Mapping[tuple[str, str], int],
    owner: str,
) -> Data:
    placed: Data = {}
    for key, value in data.items():
        if isinstance(key, str):
            placed[key] = Placed(value, file.path, lines.get((owner, key)))
        else:
            groups.problems.append(
                Problem(
                    message=f"key {shown(key)} is not a string",
                    file=file.path,
                    host=owner,
                    key=shown(key),
                    fix="put it in quotes",
                )
            )
    return placed


def _add_implied_groups(groups: _Groups, path: Path) -> None:
    """The group of all hosts, and the one named after the file."""
    if "all" in groups.members:
        everyone = groups.members.pop("all")
        data = groups.data.pop("all")
    else:
        names = dict.fromkeys(name for group in groups.members.values() for name, _ in group)
        everyone = [(name, {}) for name in names]
        data = {}
    groups.members["all"] = everyone
    groups.data["all"] = data
    stem = path.name.rsplit(".", 1)[0]
    if stem not in groups.members:
        groups.members[stem] = everyone
        groups.data[stem] = {}


def _read_group_data(groups: _Groups, folders: Iterable[Path]) -> None:
    for folder in folders:
        for path in sorted(folder.glob("*.py")):
            try:
                source = userfile.read(path)
                reads_pyinfra = "pyinfra" in source.lines.modules
                with _pyinfra_inventory(groups) if reads_pyinfra else contextlib.nullcontext():
                    file = userfile.execute(source)
            except UsageError as error:
                groups.problems += error.problems
                continue
            log.info("read group data from %s", path)
            groups.digests.append(source.digest)
            group = path.stem
            meant = nearest(group, groups.members, cutoff=0.75)
            if group not in groups.members and meant:
                # Other names may belong to another inventory of the same folder.
                groups.warnings.append(
                    f"{path}: no group {group!r}; this file declares nothing; "
                    f"did you mean {meant!r}?"
                )
            groups.data.setdefault(group, {}).update(_exported(file))


@contextlib.contextmanager
def _pyinfra_inventory(groups: _Groups) -> Iterator[None]:
    """For group data that imports pyinfra and reads its inventory."""
    api = importlib.import_module("pyinfra.api.inventory")
    context = importlib.import_module("pyinfra.context")
    plain = {
        group: (
            [(name, {k: p.value for k, p in data.items()}) for name, data in members],
            {k: p.value for k, p in groups.data[group].items()},
        )
        for group, members in groups.members.items()
    }
    with context.ctx_inventory.use(api.Inventory(plain.pop("all"), **plain)):
        yield


def _exported(file: UserFile) -> Data:
    chosen = file.names.get("__all__")
    names = chosen if isinstance(chosen, (list, tuple)) else file.names.keys() - file.lines.imported
    return {
        name: Placed(value, file.path, file.lines.names.get(name))
        for name, value in file.names.items()
        if name in names and not name.startswith("__")
    }


def _hosts(groups: _Groups, folder: Path) -> tuple[InventoryHost, ...]:
    everyone = groups.members["all"]
    own: dict[str, Data] = {name: {} for name, _ in everyone}
    belongs: dict[str, list[str]] = {name: [] for name, _ in everyone}
    for group, members in groups.members.items():
        if group == "all":
            continue
        for name, data in members:
            if name in own:
                own[name].update(data)
                belongs[name].append(group)
    for name, data in everyone:
        own[name].update(data)
    return tuple(
        _host(groups, folder, name, tuple(dict.fromkeys(belongs[name])), data)
        for name, data in own.items()
    )


def _host(
    groups: _Groups, folder: Path, name: str, belongs: tuple[str, ...], own: Data
) -> InventoryHost:
    merged = dict(groups.data["all"])
    for group in (*belongs, name) if name == "@local" else belongs:
        merged.update(groups.data.get(group, {}))
    if name.startswith("@ssh/"):
        merged["ssh_hostname"] = Placed(name.removeprefix("@ssh/"), "", None)
    merged.update(own)
    spec, problems = examine({key: placed.value for key, placed in merged.items()}, groups.keys)
    for problem in problems:
        where = merged.get(problem.key or "")
        groups.problems.append(
            replace(
                problem,
                host=name,
                file=where.file if where else None,
                line=where.line if where else None,
            )
        )
    return InventoryHost(name, belongs, MappingProxyType(merged), _beside(folder, spec))


def _beside(folder: Path, spec: RigSpec) -> RigSpec:
    """With the paths of what is on this machine: who reads that does not know the inventory."""
    catalog, tree = (
        str(folder / Path(one).expanduser()) if one else None
        for one in (spec.catalog, spec.driver_modules)
    )
    return replace(spec, catalog=catalog, driver_modules=tree)


def _contradicting_circuits(hosts: Iterable[InventoryHost]) -> Iterator[Problem]:
    """A circuit of the same name in several hosts is one circuit."""
    first: dict[str, tuple[str, Circuit]] = {}
    for host in hosts:
        for circuit in host.spec.circuits or ():
            other, known = first.setdefault(circuit.name, (host.name, circuit))
            if not circuit.name or circuit == known:
                continue
            where = host.placed["circuits"]
            yield Problem(
                message=f"{other} declares {known.text} for this circuit, and it is the same one",
                file=where.file,
                line=where.line,
                host=host.name,
                key="circuits",
                within=f"[{circuit.name!r}]",
                value=repr(circuit.text),
                fix="give it the same value in both, or another name where it is another circuit",
            )
