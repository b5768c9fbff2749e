"""The words of an error lead to its page, and doctor to the checks that the page names."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rigops.doctor.registry import CHECKS
from tests import symptoms
from tests.unit.test_screens import matches, screens

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.cli.conftest import Rigops

DOCS: Final = symptoms.FOLDER.parent
NOT_WELL: Final = {"fail", "warn", "info"}


def errors() -> Iterator[tuple[str, str]]:
    """Lines that people paste or search for, each with the page that is meant."""
    text = (Path(__file__).parents[2] / "fixtures/symptoms.txt").read_text(encoding="utf-8")
    for part in text.split("\n# ")[1:]:
        name, *lines = part.strip().split("\n")
        for line in lines:
            yield name, line


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9_]+", text.lower())


class Search:
    """BM25 over all pages, as sites have it; a word of the title counts as much as five."""

    def __init__(self, folder: Path) -> None:
        pages = {path: path.read_text(encoding="utf-8") for path in folder.rglob("*.md")}
        self.counts = {
            path.relative_to(folder).as_posix(): Counter(
                words(f"{text.partition(chr(10))[0]} " * 4 + text)
            )
            for path, text in pages.items()
        }
        self.mean = sum(map(Counter.total, self.counts.values())) / len(pages)
        self.pages_with = Counter(word for counts in self.counts.values() for word in counts)

    def first(self, query: str) -> str:
        return max(self.counts, key=lambda page: self._score(self.counts[page], set(words(query))))

    def _score(self, counts: Counter[str], query: set[str]) -> float:
        length = 0.25 + 0.75 * counts.total() / self.mean
        return sum(
            math.log(1 + len(self.counts) / self.pages_with[word])
            * counts[word] * 2.2 / (counts[word] + 1.2 * length)
            for word in query & counts.keys()
        )  # fmt: skip


def named(rigops: Rigops, text: str) -> set[str]:
    Path("pasted.txt").write_text(text + "\n", encoding="utf-8")
    said = json.loads(rigops("doctor", "--from", "pasted.txt", "--json").out)
    findings = [one for host in said.get("hosts", ()) for one in host["findings"]]
    return {one["id"] for one in findings if one["status"] in NOT_WELL}


def test_the_words_of_an_error_find_its_page_first() -> None:
    search = Search(DOCS)

    missed = {
        line: first
        for name, line in errors()
        if (first := search.first(line)) != f"symptoms/{name}.md"
    }

    assert missed == {}


def test_every_page_is_looked_for_by_two_lines() -> None:
    looked_for = Counter(name for name, _ in errors())

    assert looked_for == dict.fromkeys(symptoms.names(), 2)


def test_the_words_of_an_error_lead_doctor_to_the_checks_of_the_page(rigops: Rigops) -> None:
    missed = {}
    for name, line in errors():
        page, found = symptoms.read(name), named(rigops, line)
        if not found & (page.pasted | page.on_the_host | page.in_other_lines):
            missed[line] = found

    assert missed == {}


def test_the_paste_of_a_page_is_judged_as_it_says(rigops: Rigops) -> None:
    ids = {check.id for check in CHECKS}
    for name in symptoms.names():
        page = symptoms.read(name)
        Path(f"{name}.txt").write_text(page.paste, encoding="utf-8")
        ((command, shown),) = screens(symptoms.FOLDER / f"{name}.md")

        said = rigops(*command.split()[1:])

        assert matches(shown, said.out + said.err), f"{name}:\n{said.out}{said.err}"
        assert page.pasted, name
        assert page.pasted <= set(re.findall(r"[a-z0-9_.]*[a-z0-9]", said.out)), name
        assert page.pasted | page.on_the_host | page.in_other_lines <= ids, name


def test_the_index_leads_to_every_page() -> None:
    table = symptoms.INDEX.read_text(encoding="utf-8")

    missed = [
        name
        for name in symptoms.names()
        if f"| [{symptoms.read(name).title}]({name}.md) |" not in table
    ]

    assert missed == []
