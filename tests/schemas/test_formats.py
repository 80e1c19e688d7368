# SPDX-License-Identifier: Apache-2.0
"""Formats of texts: valid and invalid texts, and their values."""

from datetime import datetime

import pytest

from placement_sched.errors import Invalid
from placement_sched.schemas import formats

CANONICAL_UUID = "12345678-1234-5678-1234-567812345678"


def test_date_time_text_is_read_as_naive_utc_without_fractions_of_a_second():
    for text, hour in (
        ("2026-01-01T12:00:00", 12),
        ("2026-01-01T12:00:00Z", 12),
        ("2026-01-01T12:00:00+02:00", 10),
        ("2026-01-01 12:00:00.75", 12),
        ("20260101T120000Z", 12),
    ):
        assert formats.read(formats.parse_datetime, text) == datetime(2026, 1, 1, hour), text


def test_uuid_is_read_into_its_canonical_format():
    for text in (CANONICAL_UUID.replace("-", ""), CANONICAL_UUID.upper()):
        assert formats.read(formats.parse_uuid, text) == CANONICAL_UUID


def test_invalid_date_times_and_uuids_are_rejected():
    for value in ("", "x", None, 7, "0001-01-01T00:00:00+14:00", "1969-12-31T00:00:00"):
        with pytest.raises(Invalid):
            formats.read(formats.parse_datetime, value)
    for value in ("", "x", None, 7, CANONICAL_UUID[:-1], "0x" + "1" * 30):
        with pytest.raises(Invalid, match="is not a uuid"):
            formats.read(formats.parse_uuid, value)


def test_format_checks_accept_values_that_are_not_strings():
    for name in formats.READERS:
        assert all(formats.CHECKS[name](value) for value in (None, 1, [], {})), name
