# SPDX-License-Identifier: Apache-2.0
"""The table "Where a change goes" of CONTRIBUTING.md names existing files."""

import re

import pytest

from tests.support.repository import PACKAGE, ROOT


def list_changes_with_their_files() -> list[tuple[str, str]]:
    """Return the rows of the table: the change and its files."""
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where a change goes")[2]
    return re.findall(r"^\| ([^|`]+) \| ([^|]+) \|$", text.partition("\n## ")[0], re.MULTILINE)


@pytest.mark.parametrize(("change", "files"), list_changes_with_their_files())
def test_files_listed_for_a_change_in_the_contributing_guide_exist(change, files):
    for name in re.findall(r"`([\w<>]+/[\w./<>-]*)`", files):
        pattern = re.sub(r"<\w+>", "*", name).rstrip("/")
        assert [*PACKAGE.glob(f"**/{pattern}"), *ROOT.glob(pattern)], name


@pytest.mark.parametrize(
    ("change", "number"),
    [
        ("add a column that is kept and shown", "six files: "),
        ("add a microversion to the Placement API", "four files: "),
    ],
)
def test_contributing_guide_counts_the_files_of_a_change_and_names_page_and_test(change, number):
    (files,) = (files for row, files in list_changes_with_their_files() if row == change)
    assert files.startswith(number)
    assert "the page in `api-ref/source" in files
    assert "the test" in files
