"""A bundle without names: what it says about the machine stays, whose machine it is does not.

The same name becomes the same pseudonym, in all bundles that are redacted together, so that checks
which compare still compare. Versions, PCI addresses, times and digests stay as they are.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from rigops.bundles import identities, secret_values
from rigops.bundles.own_words import may_mean_something
from rigops.bundles.pseudonyms import Pseudonyms, is_pseudonym
from rigops.bundles.shapes import Shapes, users_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rigops.bundles.pseudonyms import WordKind
    from rigops.probe.bundle import Bundle


def redact(bundle: Bundle) -> Bundle:
    return redact_all([bundle])[0]


def redact_all(bundles: Sequence[Bundle]) -> list[Bundle]:
    redaction = Redaction(bundles)
    return [redaction.bundle(one) for one in bundles]


class Redaction:
    """Knows the names in all of these bundles before it replaces the first."""

    def __init__(self, bundles: Sequence[Bundle]) -> None:
        self._names = Pseudonyms(text for one in bundles for text in (one.host, *_texts(one)))
        self._shapes = Shapes(self._names)
        self._kinds: dict[str, WordKind] = {}
        self._words: re.Pattern[str] | None = None
        for bundle in bundles:
            self._host(bundle.host)  # so that they are numbered in their order
        for bundle in bundles:
            self._learn_host(bundle)
            for kind, name in _named_in(bundle):
                self._kinds.setdefault(name, kind)
                self._names.word(kind, name)
        if words := sorted(filter(_is_distinct, self._kinds), key=len, reverse=True):
            any_of_them = "|".join(map(re.escape, words))
            self._words = re.compile(rf"(?<![A-Za-z0-9])(?:{any_of_them})(?![A-Za-z0-9])")

    def bundle(self, bundle: Bundle) -> Bundle:
        return replace(
            bundle,
            host=self._host(bundle.host),
            sections={
                name: replace(one, text=self.text(one.text, name))
                for name, one in bundle.sections.items()
            },
        )

    def text(self, text: str, section: str = "") -> str:
        said = self._shapes.replaced(secret_values.hidden(text), section)
        for place in identities.places(section):
            if place.may_be_in(said):
                said = place.pattern.sub(self._in_place(place.kind), said)
        return self._words.sub(self._word, said) if self._words else said

    def _learn_host(self, bundle: Bundle) -> None:
        """An alias, the node's full name and its short one are the same host."""
        uname = bundle.sections.get(identities.UNAME)
        nodes = [] if uname is None else identities.nodes_in(uname.text)
        known = [bundle.host] if _is_plain(bundle.host) else []
        known += [name for node in nodes for name in (node, node.partition(".")[0])]
        for name in known:
            self._names.same("host", known[0], name)
            self._kinds.setdefault(name, "host")

    def _host(self, host: str) -> str:
        """As the bundle calls it: a name, or user@address:port."""
        return self._names.word("host", host) if _is_plain(host) else self.text(host)

    def _word(self, found: re.Match[str]) -> str:
        return self._names.word(self._kinds[found[0]], found[0])

    def _in_place(self, kind: WordKind) -> Callable[[re.Match[str]], str]:
        def named(found: re.Match[str]) -> str:
            name = found[1].strip()
            if not identities.is_name(kind, name):
                return found[0]
            at, end = found.start(1) - found.start(), found.end(1) - found.start()
            return found[0][:at] + self._names.word(kind, name) + found[0][end:]

        return named


def _named_in(bundle: Bundle) -> Iterator[tuple[WordKind, str]]:
    for text in (bundle.host, *_texts(bundle)):
        yield from identities.found_in(text)
        for user in users_in(text):
            if identities.is_name("user", user):
                yield "user", user


def _texts(bundle: Bundle) -> Iterable[str]:
    return (one.text for one in bundle.sections.values())


def _is_plain(host: str) -> bool:
    return "@" not in host and identities.is_name("host", host)


def _is_distinct(word: str) -> bool:
    """Whether it can stand for nothing else, wherever it stands."""
    has_letters = any(one.isalpha() for one in word)
    return has_letters and not is_pseudonym(word) and not may_mean_something(word)
