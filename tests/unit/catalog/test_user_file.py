from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.catalog import find_branch, find_gpu, find_xid, judge, load
from rigops.errors import UsageError
from tests.tiers import ROOT
from tests.unit.catalog.entries import (
    DRIVER,
    GPU,
    KNOWN_LINE,
    VERDICT,
    XID,
    changed,
    verdict,
    without,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.errors import Problem


def _problems(directory: Path, text: str) -> list[Problem]:
    with pytest.raises(UsageError) as refused:
        load(write(directory, text))
    return list(refused.value.problems)


def _only_problem(directory: Path, text: str) -> Problem:
    (problem,) = _problems(directory, text)
    return problem


def test_entries_of_every_table_can_be_added(tmp_path: Path) -> None:
    catalog = load(write(tmp_path, GPU + XID + DRIVER))

    assert find_gpu(catalog, "gtx 1650").only is not None
    assert find_xid(catalog, 999) is not None
    assert find_branch(catalog, "999") is not None
    assert find_gpu(catalog, "3090").only is not None


def test_the_example_of_the_docs_is_a_file_of_a_user(tmp_path: Path) -> None:
    page = (ROOT / "docs/how-to/drivers.md").read_text(encoding="utf-8")
    examples = [one.partition("```")[0] for one in page.split("```toml\n")[1:]]

    catalog = load(write(tmp_path, "\n".join(examples)))

    assert judge(catalog, "580.190.01")[0].status == "bad"
    assert catalog.known_lines[-1].name == "our-riser"
    assert str(catalog.as_of) >= "2027-03-01"


def test_a_users_file_leaves_the_shipped_catalog_alone(tmp_path: Path) -> None:
    load(write(tmp_path, XID))

    assert find_xid(load(), 999) is None


def test_an_entry_with_a_known_key_overrides_only_what_it_gives(tmp_path: Path) -> None:
    shipped = find_gpu(load(), "GeForce RTX 3090").only
    assert shipped is not None

    mine = find_gpu(
        load(write(tmp_path, '[[gpus]]\nname = "GeForce RTX 3090"\nwatts_max = 390\n')), "3090"
    ).only

    assert mine is not None
    assert mine.watts_max == 390
    assert (mine.watts_default, mine.pci_ids, mine.evidence) == (
        shipped.watts_default,
        shipped.pci_ids,
        shipped.evidence,
    )


def test_an_xid_is_overridden_by_its_number(tmp_path: Path) -> None:
    catalog = load(write(tmp_path, '[[xids]]\nnumber = 79\nremedy = "new riser"\n'))

    xid = find_xid(catalog, 79)

    assert xid is not None
    assert (xid.remedy, xid.severity) == ("new riser", "fail")
    assert len(catalog.xids) == len(load().xids)


def test_own_verdicts_come_before_the_shipped_ones(tmp_path: Path) -> None:
    text = verdict(versions="==535.261.03", why="Hangs on my rig.")
    catalog = load(write(tmp_path, text))
    branch = find_branch(catalog, "535")

    assert branch is not None
    assert branch.verdicts[0].why == "Hangs on my rig."
    assert len(branch.verdicts) > 1
    assert judge(catalog, "535.261.03")[0].status == "bad"
    assert judge(catalog, "535.247.01")[0].status != "bad"


def test_releases_are_merged_by_version_and_kept_in_order(tmp_path: Path) -> None:
    text = """
[[drivers]]
branch = "580"
releases = [
  { version = "580.90.01", date = "2025-09-15" },
  { version = "580.159.03", date = "2026-05-01" },
]
"""
    branch = find_branch(load(write(tmp_path, text)), "580")
    assert branch is not None
    versions = [release.version for release in branch.releases]

    assert versions.index("580.82.09") + 1 == versions.index("580.90.01")
    assert versions.count("580.159.03") == 1
    assert next(one.date for one in branch.releases if one.version == "580.159.03") == "2026-05-01"


def test_a_verdict_may_name_a_card_of_the_same_file(tmp_path: Path) -> None:
    text = GPU + changed(VERDICT, "gpus", '["GeForce GTX 1650"]')

    load(write(tmp_path, text))


def test_a_verdict_on_an_unknown_card_is_an_error(tmp_path: Path) -> None:
    problem = _only_problem(tmp_path, changed(VERDICT, "gpus", '["RTX 3090Ti"]'))

    assert (problem.key, problem.value) == ("535", "RTX 3090Ti")
    assert "GeForce RTX 3090" in problem.accepted


def test_an_unknown_field_is_named_with_the_nearest_one(tmp_path: Path) -> None:
    problem = _only_problem(tmp_path, GPU + "wats_max = 300\n")

    assert problem.key == "GeForce GTX 1650"
    assert problem.value == "wats_max"
    assert "did you mean watts_max?" in problem.message
    assert "memory_gib" in problem.accepted
    assert problem.file is not None
    assert problem.file.endswith("mine.toml")


@pytest.mark.parametrize("field", ["pci_ids", "p2p", "evidence", "watts_default"])
def test_a_new_entry_must_be_complete(tmp_path: Path, field: str) -> None:
    problem = _only_problem(tmp_path, without(GPU, field))

    assert problem.message == f"{field} is missing"
    assert problem.key == "GeForce GTX 1650"
    assert problem.accepted


@pytest.mark.parametrize(
    ("field", "value", "accepted"),
    [
        ("memory_gib", '"11"', "a whole number"),
        ("memory_gib", "11.5", "a whole number"),
        ("memory_gib", "true", "a whole number"),
        ("spike_factor", '"1.5"', "a number"),
        ("ecc", "0", "true or false"),
        ("p2p_why", "3", "a text in quotes"),
        ("aliases", '"1650"', "a list in brackets"),
        ("aliases", '["1650", 1650]', "a text in quotes"),
        ("first_branch", "470", "a text in quotes"),
        ("evidence", '["my word"]', "a table with where, date, hardware"),
    ],
)
def test_a_wrong_type_is_an_error(tmp_path: Path, field: str, value: str, accepted: str) -> None:
    problem = _only_problem(tmp_path, changed(GPU, field, value))

    assert problem.message.startswith(field)
    assert "wrong type" in problem.message
    assert problem.accepted == accepted


def test_a_bad_status_shows_what_is_accepted(tmp_path: Path) -> None:
    problem = _only_problem(tmp_path, verdict(status="known-god"))

    assert problem.message.startswith("verdicts[0].status")
    assert "did you mean known-good?" in problem.message
    assert (problem.value, problem.accepted) == ("known-god", "known-good, caution, bad")


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (changed(GPU, "pci_ids", '["1E07"]'), "pci_ids"),
        (changed(GPU, "watts_min", "260"), "watts_min"),
        (changed(GPU, "watts_min", "-1"), "watts_min"),
        (changed(GPU, "watts_max", "240"), "watts_min"),
        (changed(GPU, "watts_default", "0"), "watts_min"),
        (changed(GPU, "spike_factor", "0.5"), "spike_factor"),
        (changed(GPU, "architecture", '"Turin"'), "architecture"),
        (changed(GPU, "last_branch", '"none"'), "last_branch"),
        (changed(GPU, "evidence", "[]"), "evidence"),
        (
            changed(GPU, "evidence", '[{ where = "", date = "", hardware = "" }]'),
            "evidence[0].where",
        ),
        (
            changed(GPU, "evidence", '[{ where = "a", date = "May", hardware = "" }]'),
            "evidence[0].date",
        ),
        (changed(XID, "number", "0"), "number"),
        (changed(DRIVER, "branch", '"999.10"'), "branch"),
        (changed(DRIVER, "open_architectures", '["Volt"]'), "open_architectures"),
        (
            changed(DRIVER, "releases", '[{ version = "999.10.1", date = "" }]'),
            "releases[0].version",
        ),
        (
            changed(DRIVER, "releases", '[{ version = "998.10.01", date = "" }]'),
            "releases[0].version",
        ),
        (
            changed(DRIVER, "releases", '[{ version = "latest", date = "" }]'),
            "releases[0].version",
        ),
    ],
)
def test_a_value_that_makes_no_sense_is_an_error(tmp_path: Path, text: str, field: str) -> None:
    problems = _problems(tmp_path, text)

    assert any(problem.message.startswith(field) for problem in problems)
    assert all(problem.accepted and problem.value is not None for problem in problems)


@pytest.mark.parametrize(
    ("field", "value"),
    [("versions", '"535 or so"'), ("gpus", "[]"), ("since", '"last week"'), ("evidence", "[]")],
)
def test_a_verdict_that_makes_no_sense_is_an_error(tmp_path: Path, field: str, value: str) -> None:
    problem = _only_problem(tmp_path, changed(VERDICT, field, value))

    assert problem.message.startswith(f"verdicts[0].{field}")


def test_an_override_can_break_an_entry_and_is_told_so(tmp_path: Path) -> None:
    problem = _only_problem(tmp_path, '[[gpus]]\nname = "GeForce RTX 3090"\nwatts_min = 360\n')

    assert problem.key == "GeForce RTX 3090"
    assert problem.message.startswith("watts_min")


def test_all_errors_of_a_file_are_listed_together(tmp_path: Path) -> None:
    text = (
        changed(without(GPU, "ecc"), "p2p", '"maybe"')
        + changed(XID, "severity", '"terrible"')
        + "\n[[cards]]\nname = 1\n"
    )
    problems = _problems(tmp_path, text)

    assert {(problem.key, problem.message.split(" ")[0]) for problem in problems} == {
        ("GeForce GTX 1650", "ecc"),
        ("GeForce GTX 1650", "p2p"),
        ("999", "severity"),
        ("cards", "cards"),
    }


def test_an_entry_without_its_key_is_named_by_its_place(tmp_path: Path) -> None:
    problems = _problems(tmp_path, without(XID, "number") + without(XID, "number"))

    assert [(problem.key, problem.message) for problem in problems] == [
        ("xids[0]", "number is missing"),
        ("xids[1]", "number is missing"),
    ]


def test_an_unreadable_key_is_the_only_complaint_about_its_entry(tmp_path: Path) -> None:
    problem = _only_problem(tmp_path, '[[drivers]]\nbranch = 535\ncuda = "12.2"\n')

    assert (problem.key, problem.message) == ("535", "branch has the wrong type")


def test_the_same_entry_twice_is_an_error(tmp_path: Path) -> None:
    problem = _only_problem(tmp_path, XID + XID)

    assert (problem.key, problem.value) == ("999", "999")


def test_a_table_that_is_no_list_is_an_error(tmp_path: Path) -> None:
    problem = _only_problem(tmp_path, '[gpus]\nname = "GeForce RTX 3090"\n')

    assert (problem.key, problem.accepted) == ("gpus", "[[gpus]]")


def test_broken_toml_names_the_line_and_a_fix(tmp_path: Path) -> None:
    problem = _only_problem(tmp_path, '[[gpus]]\nname = "GeForce RTX 3090"\nwatts_max = = 3\n')

    assert problem.line == 3
    assert problem.fix
    assert problem.file is not None
    assert problem.file.endswith("mine.toml")


def test_a_missing_file_is_an_error_with_a_fix(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        load(tmp_path / "absent.toml")

    assert "cannot read" in refused.value.problems[0].message
    assert refused.value.problems[0].fix


def test_a_file_that_is_not_text_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(UsageError) as refused:
        load(path)

    assert "UTF-8" in refused.value.problems[0].fix


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("pattern", "'riser.*retrained'", "a pattern repeats without bound"),
        ("pattern", "'riser ('", "a pattern is no regular expression"),
        ("example", '"riser-watch: all well"', "its example is no line of it"),
        ("counter", '"riser-watch: link of 41:00.0 retrained"', "its counter is a line of it"),
        ("words", '["slot"]', "its example has none of its words"),
        ("words", '["Riser"]', "has no words to look for"),
    ],
)
def test_a_known_line_that_would_never_or_always_be_found_is_refused(
    tmp_path: Path, field: str, value: str, message: str
) -> None:
    problem = _only_problem(tmp_path, changed(KNOWN_LINE, field, value))

    assert message in problem.message


def test_a_word_of_a_known_line_may_be_more_of_the_line_than_letters(tmp_path: Path) -> None:
    text = changed(KNOWN_LINE, "words", '["watch: link of 0"]')

    assert load(write(tmp_path, text)).known_lines[-1].words == ("watch: link of 0",)


def test_a_known_line_without_evidence_is_refused(tmp_path: Path) -> None:
    assert "evidence is missing" in _only_problem(tmp_path, without(KNOWN_LINE, "evidence")).message


def test_limits_of_power_may_be_left_unknown(tmp_path: Path) -> None:
    text = changed(changed(GPU, "watts_min", "0"), "watts_max", "0")

    gpu = find_gpu(load(write(tmp_path, text)), "1650").only

    assert gpu is not None
    assert (gpu.watts_min, gpu.watts_max) == (0, 0)
