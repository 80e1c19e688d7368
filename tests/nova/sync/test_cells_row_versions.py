# SPDX-License-Identifier: Apache-2.0
"""A row is read when its version has changed, and again after the second of the change."""

from datetime import datetime, timedelta

import pytest

from placement_sched.nova.sync.cells import RowVersions

NOW = datetime(2026, 1, 1, 12, 0, 0)
WHOLE, EXACT = "2026-01-01 12:00:00.000000", "2026-01-01T12:00:00.5"


def test_new_or_changed_row_is_read():
    marks = RowVersions()
    rows = {"a": (EXACT, 1)}
    assert marks.to_read(rows) == ("a",)
    marks.note(rows, rows, NOW)
    assert marks.to_read(rows) == ()
    assert marks.to_read({"a": (EXACT, 2)}) == ("a",)


@pytest.mark.parametrize("moment", [WHOLE, None])
def test_row_of_the_current_second_is_read_again(moment):
    marks, rows = RowVersions(), {"a": (moment, 1)}
    marks.note(rows, rows, NOW)
    assert marks.to_read(rows) == ("a",)
    assert marks.to_read(rows, is_round=False) == ()
    marks.note(rows, rows, NOW + timedelta(seconds=5))
    assert marks.to_read(rows) == ()


def test_versions_of_deleted_rows_are_dropped():
    marks, rows = RowVersions(), {"a": (EXACT,), "b": (EXACT,)}
    marks.note(rows, rows, NOW)
    marks.keep(["a"])
    assert marks.to_read(rows) == ("b",)
