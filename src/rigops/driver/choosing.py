"""Which drivers a machine could have, and which one of them is recommended."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from packaging.specifiers import SpecifierSet

from rigops.catalog import advice, versions
from rigops.catalog.lookup import find_branch, judge
from rigops.driver import declared, fitness
from rigops.driver.candidates import candidates
from rigops.driver.choice import Choice, Declared, Folder, Option, Recommendation
from rigops.driver.foreseen import foreseen
from rigops.driver.request import Refusal, Request, Resolution
from rigops.driver.resolve import resolve
from rigops.driver.standing import standing
from rigops.probe.package_names import RUN_FILE
from rigops.spec.model import DriverWish

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import date

    from rigops.catalog.loader import Catalog
    from rigops.catalog.model import DriverBranch, Flavour, Gpu, RowStatus
    from rigops.driver.choice import Seen
    from rigops.driver.machine import Machine
    from rigops.driver.offers import Offers
    from rigops.spec import RigSpec
    from rigops.spec.model import DriverSet

_SETS: Final[tuple[DriverSet, ...]] = ("compute", "desktop")
_STATUS: Final[Mapping[int, RowStatus]] = {0: "known-good", 1: "unknown", 2: "caution", 3: "bad"}
_GOOD, _BAD = 0, 3
_ENDED: Final = "ended"
_ANY: Final = DriverWish("range", "of any version", SpecifierSet())
# Of driver_source: in one question, or on the controller.
_SEEN_AT_ONCE: Final = frozenset({"auto", "deb822", "dir", "vendor"})


def choose(seen: Seen, spec: RigSpec | None, catalog: Catalog, today: date) -> Choice:
    return _Choosing(seen, spec, catalog, today).choice()


class _Choosing:
    def __init__(self, seen: Seen, spec: RigSpec | None, catalog: Catalog, today: date) -> None:
        self._seen = seen
        self._machine = seen.machine
        # What stands in the way of every driver says nothing of any one.
        own = seen.machine.run_file if _has_our_run_file(seen.machine) else None
        self._clear = replace(seen.machine, run_file=own, secure_boot=False)
        self._spec = spec
        self._set = (spec.driver_set if spec else None) or seen.proven_set
        self._locked = seen.pinned.version if seen.pinned else seen.locked
        self._catalog = catalog
        self._today = today
        self._gpus: tuple[Gpu, ...] = tuple(
            {one.gpu.name: one.gpu for one in seen.machine.cards if one.gpu}.values()
        )

    def choice(self) -> Choice:
        recommended, refusal = self._recommended()
        loaded, installed = self._seen.loaded, self._machine.installed_version
        return Choice(
            seen=self._seen,
            options=self._options,
            installed=self._status(installed) if installed else None,
            loaded=self._status(loaded.version) if loaded else None,
            recommended=recommended,
            refusal=refusal,
            declared=self._declared(),
        )

    @cached_property
    def _options(self) -> tuple[Option, ...]:
        places: dict[tuple[str, Flavour], dict[str, None]] = {}
        for offers in self._told_apart:
            for one in candidates(offers):
                its = places.setdefault((one.version, one.flavour), {})
                its.update(dict.fromkeys(one.kernel.places))
        newest = sorted(places, key=lambda one: (versions.parse(one[0]), one[1]), reverse=True)
        return tuple(self._option(*one, tuple(places[one])) for one in newest)

    @property
    def _told_apart(self) -> tuple[Offers, ...]:
        """What is in several places is told to be in all of them."""
        kept, folder = self._seen.kept, self._seen.folder
        sets = (one.offers for one in (kept.sets if kept else ()))
        return (self._seen.offers, *sets, *([folder.offers] if isinstance(folder, Folder) else []))

    def _option(self, version: str, flavour: Flavour, places: tuple[str, ...]) -> Option:
        status = self._status(version, flavour)
        # Neither set is tried of what no package could make fit.
        tried = _SETS[:1] if status in {"unsupported", "bad"} else _SETS
        found = {
            set_: self._resolve(
                Request(wish=_wish(version), flavor=flavour, set_=set_, upgrade=True)
            )
            for set_ in tried
        }
        refusals = [one for one in found.values() if isinstance(one, Refusal)]
        sets = tuple(one for one in tried if isinstance(found[one], Resolution))
        return Option(
            version=version,
            flavour=flavour,
            sets=sets,
            places=places,
            status=status,
            why=self._praise(version) if sets else refusals[0].reason,
        )

    def _resolve(self, request: Request) -> Resolution | Refusal:
        """Of the declared folder or without it, never with packages of both."""
        without = resolve(self._clear, request, self._seen.every, self._catalog)
        folder = self._seen.folder
        if isinstance(without, Resolution) or not isinstance(folder, Folder):
            return without
        there = any(one.version == request.wish.text for one in candidates(folder.offers))
        found = resolve(self._clear, request, folder.offers, self._catalog)
        return found if there else without

    def _status(self, version: str, flavour: Flavour | None = None) -> RowStatus:
        supported, refusal = fitness.flavours(self._catalog, version, self._machine.cards)
        if refusal or (flavour and flavour not in supported):
            return "unsupported"
        return _STATUS[self._rank(version)]

    def _rank(self, version: str) -> int:
        return fitness.rank(self._catalog, version, self._machine.cards)

    def _recommended(self) -> tuple[Recommendation | None, Refusal | None]:
        if not self._machine.cards:
            return None, Refusal("no NVIDIA card was seen: there is nothing to recommend for")
        fit = [one for one in self._options if one.fits]
        if not fit:
            return None, self._nothing_fits()
        installed = [one for one in fit if one.version == self._machine.installed_version]
        stays = [one for one in installed if self._rank(one.version) == _GOOD]
        # The newest of those that the catalogue judges best: they come newest first.
        version = min(stays or fit, key=lambda one: self._rank(one.version)).version
        for declare, request in self._ways(version, [one.flavour for one in stays or fit]):
            found = foreseen(self._seen, self._clear, request, self._catalog)
            if isinstance(found, Resolution) and found.version == version:
                real = foreseen(self._seen, self._machine, request, self._catalog)
                if isinstance(real, Refusal):
                    return self._recommendation(found, declare, stays=bool(stays)), real
                return self._recommendation(real, declare, stays=bool(stays)), None
        return None, self._nothing_fits()

    def _ways(
        self, version: str, flavours: list[Flavour]
    ) -> Iterator[tuple[dict[str, str], Request]]:
        """The plainest declaration first that could bring it; that of a folder stays if it can."""
        plain = Request(wish=_wish(version), set_=self._set, locked=self._locked)
        sources: list[tuple[str, dict[str, str]]] = [("auto", {})]
        if self._seen.folder:
            sources = [("dir", {}), ("auto", {"driver_source": "auto"})]
        for source, also in sources:
            request = replace(plain, source=source)
            for text in (versions.branch_of(version), version):
                yield {"driver": text, **also}, replace(request, wish=_wish(text))
            for one in dict.fromkeys(flavours):
                declare = {"driver": version, "driver_flavor": one, **also}
                yield declare, replace(request, flavor=one)

    def _recommendation(
        self, found: Resolution, declare: Mapping[str, str], *, stays: bool
    ) -> Recommendation:
        told = set(fitness.cautions(self._catalog, found.version, self._machine.cards))
        return Recommendation(
            version=found.version,
            flavour=found.flavour,
            declare=declare,
            why=self._reason(found.version, stays=stays),
            notes=tuple(one for one in found.notes if one not in told),
        )

    def _reason(self, version: str, *, stays: bool) -> str:
        rank = self._rank(version)
        if stays:
            why = f"{version} is installed and known to be good{self._for_these}"
        elif rank == _GOOD:
            why = f"{version} is the newest on offer that is known to be good{self._for_these}"
        else:
            why = (
                "nothing on offer is known to be good here, and of what there is this is the "
                f"least doubtful: {self._praise(version)}"
            )
        return f"{why}{self._instead_of(version)}{self._older_than_need_be(version)}"

    def _instead_of(self, version: str) -> str:
        loaded = self._seen.loaded.version if self._seen.loaded else ""
        there = {self._machine.installed_version: "installed", loaded: "loaded"}
        for one, how in there.items():
            if one and one != version and self._rank(one) == _BAD:
                return f"; {one}, which is {how}, is known to be bad"
        return ""

    def _older_than_need_be(self, version: str) -> str:
        """The caution about a good one without fixes, where a maintained one drives the cards."""
        branch = find_branch(self._catalog, versions.branch_of(version))
        if branch is None or not self._has_ended(branch):
            return ""
        since = "" if branch.end_of_life == _ENDED else f" since {branch.end_of_life}"
        text = f"; {branch.branch} gets no fixes any more{since}"
        best = advice.recommended(self._catalog, self._gpus)
        if best is None or int(best.branch) <= int(branch.branch) or self._has_ended(best):
            return text
        until = f" until {best.end_of_life}" if best.end_of_life else ""
        return f"{text}, so plan for {best.branch}, which gets them{until}"

    def _praise(self, version: str) -> str:
        """Of one that fits: what is known of it."""
        branch = find_branch(self._catalog, versions.branch_of(version))
        caution = next(
            (
                verdict.why
                for gpu in self._gpus or (None,)
                for verdict in judge(self._catalog, version, gpu)
                if verdict.status == "caution"
            ),
            "",
        )
        if self._rank(version) == _GOOD:
            return f"known to be good{self._for_these}{self._fixes(branch)}"
        if caution:
            return caution.rstrip(".")
        return f"nobody reported on it, good or bad{self._fixes(branch)}"

    def _fixes(self, branch: DriverBranch | None) -> str:
        if branch is None or not branch.end_of_life:
            return ""
        if self._has_ended(branch):
            return "; gets no fixes any more"
        return f"; gets fixes until {branch.end_of_life}"

    def _has_ended(self, branch: DriverBranch) -> bool:
        """An end without a day is the end of that month or year."""
        end = branch.end_of_life
        return end == _ENDED or bool(end and end < self._today.isoformat()[: len(end)])

    @property
    def _for_these(self) -> str:
        return f" for {' and '.join(one.name for one in self._gpus)}" if self._gpus else ""

    def _nothing_fits(self) -> Refusal:
        """What would help: a source, where a good driver for these cards is known to be in one."""
        if self._seen.unusable and all(one.name == RUN_FILE for one in self._seen.offers.every):
            return self._seen.unusable
        source = self._spec.driver_source if self._spec else None
        kind = source.kind if source else "auto"
        refusals: list[Refusal] = []
        for wish in self._last_wishes():
            request = Request(wish=wish, set_=self._set, source=kind)
            found = resolve(self._machine, request, self._seen.every, self._catalog)
            if isinstance(found, Refusal):
                refusals.append(found)
        naming = [one for one in refusals if "driver_source = " in one.cure]
        none = Refusal("none of the drivers on offer fits this machine")
        return next(iter((*naming, *refusals)), none)

    def _last_wishes(self) -> list[DriverWish]:
        """What a refusal is wanted for, the most telling first."""
        good = [one.branch for one in advice.good_branches(self._catalog, self._gpus)]
        best = advice.recommended(self._catalog, self._gpus)
        branches = [_wish(one) for one in ([best.branch] if best else []) + good[::-1]]
        could = any(one.status not in {"unsupported", "bad"} for one in self._options)
        return [_ANY, *branches] if could else [*branches, _ANY]

    def _declared(self) -> Declared | None:
        spec = self._spec
        if spec is None or spec.driver is None:
            return None
        request = declared.request(spec, spec.driver, locked=self._locked)
        request = replace(request, set_=self._set)
        found = standing(self._seen.pinned, spec, self._machine, request, self._catalog)
        if found is None and self._is_unseen(spec):
            return Declared(
                wish=spec.driver.text,
                why=f'what driver_source = "{request.source}" brings is told by rigops plan',
            )
        found = found or foreseen(
            self._seen, self._machine, request, self._catalog, self._seen.unusable
        )
        if isinstance(found, Refusal):
            return Declared(wish=spec.driver.text, refusal=found)
        return Declared(
            wish=spec.driver.text, version=found.version, flavour=found.flavour, why=found.why
        )

    def _is_unseen(self, spec: RigSpec) -> bool:
        """Whether it has a source that this look did not reach."""
        kind = spec.driver_source.kind if spec.driver_source else "auto"
        if kind == "distribution":
            return bool(self._machine.lacks_components)
        return kind not in _SEEN_AT_ONCE


def _has_our_run_file(machine: Machine) -> bool:
    return machine.run_file is not None and machine.run_file.is_ours


def _wish(text: str) -> DriverWish:
    if text.isdecimal():
        return DriverWish("branch", text, SpecifierSet(f">={text},<{int(text) + 1}"))
    return DriverWish("version", text, SpecifierSet(f"=={text}"))
