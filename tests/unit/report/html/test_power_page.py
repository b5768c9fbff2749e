from __future__ import annotations

from rigops.report.html.power import power_page
from tests.unit.report.html import budgets
from tests.unit.report.html.parsing import Page


def test_each_supply_and_circuit_is_a_bar() -> None:
    page = power_page(*budgets.reports())

    text = Page(page).text
    assert page.count('class="bar"') == 1 + (2 + 1) + (1 + 1)  # shared, ripper, bench
    assert "OVER 700 of 675 W" in text
    assert "Circuits of several hosts" in text
    assert 'aria-label="PSU 2: OVER 700 of 675 W' in page


def test_the_power_path_goes_from_card_to_circuit() -> None:
    page = power_page(*budgets.reports())

    (first,) = (one for one in page.split("<svg") if 'wide" role="img" aria-label="ripper' in one)
    assert first.count('class="supply"') == 2
    assert first.count('class="circuit"') == 1
    assert first.count('class="cable"') == 3 + 2
    assert "PSU 2, circuit desk" in Page(page).text
    assert "IOMMU" not in page


def test_without_a_declaration_it_says_what_to_declare() -> None:
    reports, _ = budgets.reports()
    bare = budgets.undeclared(reports[0])

    text = Page(power_page([bare], ())).text

    assert "No supply and no circuit is declared." in text
    assert "The power path is not declared" in text
    assert "declare your supplies and circuits" in text
