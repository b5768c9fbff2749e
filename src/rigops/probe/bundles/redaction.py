"""A bundle without names: what it shows of the machine stays, whose machine it is does not.

The same name becomes the same pseudonym in all bundles that are redacted together, so that checks
which compare still compare. Versions, PCI addresses, times and digests stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rigops.probe.bundles import evidence, names
from rigops.probe.bundles.pseudonyms import Pseudonyms, WordKind, is_pseudonym
from rigops.probe.bundles.shapes import Shapes, users_in, without_secrets
from rigops.probe.sections.identity import SECTION as IDENTITY
from rigops.probe.sections.pasted import SECTION as PASTED

if TYPE_CHECKING:
    from rigops.probe.bundle import Bundle, Paste

_SERIAL_LENGTH: Final = 8


class Redaction:
    """Knows the names in all of these bundles before it replaces the first."""

    def __init__(self, bundles: Sequence[Bundle]) -> None:
        self._pseudonyms = Pseudonyms(text for one in bundles for text in (one.host, *_texts(one)))
        self._shapes = Shapes(self._pseudonyms)
        self._kinds: dict[str, WordKind] = {}
        self._in_free_parts = self._anywhere = self._in_technical_output = _any_of(())
        for bundle in bundles:
            self.host(bundle.host)  # so that they are numbered in their order
        for bundle in bundles:
            self._learn_host(bundle)
            for kind, name in _named_in(bundle):
                self._kinds.setdefault(name, kind)
                self._pseudonyms.word(kind, name)
        words = [one for one in self._kinds if any(map(str.isalpha, one)) and not is_pseudonym(one)]
        self._in_free_parts = _any_of(words)
        releases = [one for bundle in bundles for one in names.releases_in(_uname(bundle))]
        words = [
            one
            for one in words
            if not (names.is_technical(one) or any(one in release for release in releases))
        ]
        self._anywhere = _any_of(words)
        self._in_technical_output = _any_of(filter(self._is_long_serial, words))

    def bundle(self, bundle: Bundle) -> Bundle:
        return replace(
            bundle,
            host=self.host(bundle.host),
            sections={
                name: replace(one, text=self.text(one.text, name))
                for name, one in bundle.sections.items()
                if name != IDENTITY.name  # nothing but names, and no check reads it
            },
            paste=bundle.paste and self._paste(bundle.paste),
        )

    def _paste(self, paste: Paste) -> Paste:
        return replace(
            paste,
            recognized={
                name: tuple(self.text(one, PASTED.name) for one in places)
                for name, places in paste.recognized.items()
            },
            hosts=tuple(map(self.host, paste.hosts)),
        )

    def text(self, text: str, section: str = "") -> str:
        return evidence.replace_between(text, lambda piece: self._without_names(piece, section))

    def _without_names(self, text: str, section: str) -> str:
        text = self._shapes.replaced(without_secrets(text), section)
        for place in names.places(section):
            if place.may_be_in(text):
                text = place.pattern.sub(self._in_place(place.kind), text)
        text = names.FREE_PARTS.sub(self._in_free_part, text)
        technical = names.has_only_technical_words(section)
        return (self._in_technical_output if technical else self._anywhere).sub(self._word, text)

    def _learn_host(self, bundle: Bundle) -> None:
        """An alias, the node's full name and its short one are the same host."""
        nodes = names.nodes_in(_uname(bundle))
        known = [bundle.host] if _is_plain(bundle.host) else []
        known += [name for node in nodes for name in (node, node.partition(".")[0])]
        for name in known:
            self._pseudonyms.same("host", known[0], name)
            self._kinds.setdefault(name, "host")

    def host(self, host: str) -> str:
        """As the bundle calls it: a name, or user@address:port."""
        return self._pseudonyms.word("host", host) if _is_plain(host) else self.text(host)

    def _is_long_serial(self, name: str) -> bool:
        """Then it is no technical word, wherever it is."""
        is_long = len(name) >= _SERIAL_LENGTH and any(one.isdigit() for one in name)
        return self._kinds[name] == "serial" and is_long

    def _in_free_part(self, found: re.Match[str]) -> str:
        part = found[found.lastindex or 0]
        return found[0].removesuffix(part) + self._in_free_parts.sub(self._word, part)

    def _word(self, found: re.Match[str]) -> str:
        return self._pseudonyms.word(self._kinds[found[0]], found[0])

    def _in_place(self, kind: WordKind) -> Callable[[re.Match[str]], str]:
        def named(found: re.Match[str]) -> str:
            name = found[1].strip()
            if not names.is_name(kind, name):
                return found[0]
            at, end = found.start(1) - found.start(), found.end(1) - found.start()
            return found[0][:at] + self._pseudonyms.word(kind, name) + found[0][end:]

        return named


def _named_in(bundle: Bundle) -> Iterator[tuple[WordKind, str]]:
    for text in map(evidence.without, (bundle.host, *_texts(bundle))):
        yield from names.found_in(text)
        for user in users_in(text):
            if names.is_name("user", user):
                yield "user", user


def _texts(bundle: Bundle) -> Iterable[str]:
    return (one.text for one in bundle.sections.values())


def _uname(bundle: Bundle) -> str:
    section = bundle.sections.get(names.UNAME)
    return section.text if section else ""


def _is_plain(host: str) -> bool:
    return "@" not in host and names.is_name("host", host)


def _any_of(words: Iterable[str]) -> re.Pattern[str]:
    """The longest first; no word at all matches nothing."""
    known = "|".join(map(re.escape, sorted(words, key=len, reverse=True))) or "(?!)"
    return re.compile(rf"(?<![A-Za-z0-9])(?:{known})(?![A-Za-z0-9])")
