# SPDX-License-Identifier: Apache-2.0
"""Formats of texts: valid and invalid texts, and their values."""

from datetime import datetime

import pytest

from placement_sched.errors import Invalid
from placement_sched.schemas import formats


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-01-01T12:00:00", datetime(2026, 1, 1, 12)),
        ("2026-01-01T12:00:00Z", datetime(2026, 1, 1, 12)),
        ("2026-01-01T12:00:00+02:00", datetime(2026, 1, 1, 10)),
        ("2026-01-01 12:00:00.75", datetime(2026, 1, 1, 12)),
        ("20260101T120000Z", datetime(2026, 1, 1, 12)),
    ],
)
def test_moment_is_naive_utc_without_a_fraction(text, utc):
    assert formats.read(formats.moment, text) == utc


@pytest.mark.parametrize(
    "value", ["yesterday", 1, None, "", "0001-01-01T00:00:00+14:00", "1969-12-31T00:00:00"]
)
def test_other_values_are_not_moments(value):
    with pytest.raises(Invalid):
        formats.read(formats.moment, value)


@pytest.mark.parametrize(
    "value", ["12345678123456781234567812345678", "12345678-1234-5678-1234-567812345678".upper()]
)
def test_uuid_is_read_in_its_usual_spelling(value):
    assert formats.read(formats.uuid, value) == "12345678-1234-5678-1234-567812345678"


@pytest.mark.parametrize(
    "value", ["", "x", None, 7, "12345678-1234-5678-1234-56781234567", "0x" + "1" * 30]
)
def test_other_values_are_not_uuids(value):
    with pytest.raises(Invalid, match="is not a uuid"):
        formats.read(formats.uuid, value)


@pytest.mark.parametrize("name", formats.READERS)
def test_formats_do_not_apply_to_other_types(name):
    assert all(formats.CHECKS[name](value) for value in (None, 1, [], {}))
