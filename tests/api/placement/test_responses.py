# SPDX-License-Identifier: Apache-2.0
"""The Last-Modified header of responses."""

from datetime import datetime, timedelta

import pytest

from tests.api.placement.test_resource_providers import PATH
from tests.support.versions import LATEST_HEADERS

START = datetime(2026, 1, 1, 12, 0, 0)


@pytest.fixture
def hourly_app(sqlite_settings, make_app):
    """An application whose clock advances by an hour at each reading."""
    hours = iter(range(1000))
    return make_app(sqlite_settings, clock=lambda: START + timedelta(hours=next(hours)))


def read_last_modified(answer):
    return datetime.strptime(answer.headers["Last-Modified"], "%a, %d %b %Y %H:%M:%S GMT")  # noqa: DTZ007 - GMT by definition


def test_last_modified_of_a_list_is_the_time_of_its_latest_changed_object(hourly_app):
    uuids = [
        hourly_app.post_json(PATH, {"name": name}, headers=LATEST_HEADERS).json["uuid"]
        for name in "abc"
    ]
    times = [
        read_last_modified(hourly_app.get(f"{PATH}/{uuid}", headers=LATEST_HEADERS))
        for uuid in uuids
    ]
    assert times == sorted(times)
    assert len(set(times)) == 3
    assert read_last_modified(hourly_app.get(PATH, headers=LATEST_HEADERS)) == times[-1]
    hourly_app.put_json(f"{PATH}/{uuids[0]}", {"name": "d"}, headers=LATEST_HEADERS)
    assert read_last_modified(hourly_app.get(PATH, headers=LATEST_HEADERS)) > times[-1]


def test_unchanged_provider_keeps_its_update_time(hourly_app):
    answer = hourly_app.post_json(PATH, {"name": "host"}, headers=LATEST_HEADERS)
    path = f"{PATH}/{answer.json['uuid']}"
    same = hourly_app.put_json(path, {"name": "host"}, headers=LATEST_HEADERS)
    assert (
        read_last_modified(same)
        == read_last_modified(hourly_app.get(path, headers=LATEST_HEADERS))
        == read_last_modified(answer)
    )
    renamed = hourly_app.put_json(path, {"name": "other"}, headers=LATEST_HEADERS)
    assert (
        read_last_modified(renamed)
        == read_last_modified(hourly_app.get(path, headers=LATEST_HEADERS))
        > read_last_modified(answer)
    )


def test_last_modified_of_an_empty_provider_list_is_the_time_of_the_request(hourly_app):
    first, second = (
        read_last_modified(hourly_app.get(PATH, headers=LATEST_HEADERS)) for _ in range(2)
    )
    assert second == first + timedelta(hours=1)


def test_empty_inventory_has_no_last_modified(hourly_app):
    uuid = hourly_app.post_json(PATH, {"name": "host"}, headers=LATEST_HEADERS).json["uuid"]
    answer = hourly_app.get(f"{PATH}/{uuid}/inventories", headers=LATEST_HEADERS)
    assert answer.headers["Cache-Control"] == "no-cache"
    assert "Last-Modified" not in answer.headers
