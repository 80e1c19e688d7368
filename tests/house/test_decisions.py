# SPDX-License-Identifier: Apache-2.0
"""Length, numbers and structure of the decisions in ``doc/decisions``."""

import re

import pytest

from tests.support.repository import ROOT, list_modules

DECISION_PAGES = sorted((ROOT / "doc" / "decisions").glob("*.md"))
#: Maximum number of words of a decision, the table included.
MAX_WORDS_PER_DECISION = 900
DECISION_SECTION_TITLES = ("Decision", "Reason", "Cost")
DECISION_REFERENCE_PATTERN = re.compile(r"doc/decisions/(\d+)")


def test_numbers_of_design_decisions_are_consecutive():
    numbers = [page.name.partition("-")[0] for page in DECISION_PAGES]
    assert numbers == [f"{number:04}" for number in range(1, len(DECISION_PAGES) + 1)]


@pytest.mark.parametrize("page", DECISION_PAGES, ids=lambda page: page.stem)
def test_design_decision_is_short_and_has_a_reason_and_a_table(page):
    text = page.read_text()
    assert len(text.split()) <= MAX_WORDS_PER_DECISION
    assert text.startswith(f"# {page.name.partition('-')[0]}. ")
    titles = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert titles == [title for title in DECISION_SECTION_TITLES if title in titles]
    assert {"Decision", "Reason"} <= set(titles)
    assert len(re.findall(r"^\| ?-[- :|]+$", text, re.MULTILINE)) == 1


@pytest.mark.parametrize("page", DECISION_PAGES, ids=lambda page: page.stem)
def test_links_of_a_design_decision_lead_to_existing_files(page):
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_design_decisions_that_the_code_names_exist():
    numbers = {page.name.partition("-")[0] for page in DECISION_PAGES}
    named = {
        number
        for path in list_modules()
        for number in DECISION_REFERENCE_PATTERN.findall(path.read_text())
    }
    assert named
    assert named <= numbers
