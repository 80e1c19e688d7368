# SPDX-License-Identifier: Apache-2.0
"""The Last-Modified header of responses."""

from datetime import datetime, timedelta

import pytest

from tests.api.placement.provider_requests import PROVIDERS_PATH
from tests.support.versions import LATEST_HEADERS

CLOCK_START = datetime(2026, 1, 1, 12, 0, 0)


@pytest.fixture
def app_with_hourly_clock(sqlite_settings, make_app):
    """An application whose clock advances by an hour at each reading."""
    hours = iter(range(1000))
    return make_app(sqlite_settings, clock=lambda: CLOCK_START + timedelta(hours=next(hours)))


def read_last_modified(response):
    return datetime.strptime(response.headers["Last-Modified"], "%a, %d %b %Y %H:%M:%S GMT")  # noqa: DTZ007 - GMT by definition


def get_last_modified(app, path):
    return read_last_modified(app.get(path, headers=LATEST_HEADERS))


def create_provider(app, name):
    return app.post_json(PROVIDERS_PATH, {"name": name}, headers=LATEST_HEADERS)


def rename_provider(app, path, name):
    return app.put_json(path, {"name": name}, headers=LATEST_HEADERS)


def test_last_modified_of_a_list_is_the_time_of_its_latest_changed_object(app_with_hourly_clock):
    app = app_with_hourly_clock
    paths = [f"{PROVIDERS_PATH}/{create_provider(app, name).json['uuid']}" for name in "abc"]
    times = [get_last_modified(app, path) for path in paths]
    assert times == sorted(times)
    assert len(set(times)) == 3
    assert get_last_modified(app, PROVIDERS_PATH) == times[-1]
    rename_provider(app, paths[0], "d")
    assert get_last_modified(app, PROVIDERS_PATH) > times[-1]


def test_unchanged_provider_keeps_its_update_time(app_with_hourly_clock):
    app = app_with_hourly_clock
    response = create_provider(app, "host")
    path = f"{PROVIDERS_PATH}/{response.json['uuid']}"
    created = read_last_modified(response)
    assert read_last_modified(rename_provider(app, path, "host")) == created
    assert get_last_modified(app, path) == created
    renamed = read_last_modified(rename_provider(app, path, "other"))
    assert renamed == get_last_modified(app, path) > created


def test_last_modified_of_an_empty_provider_list_is_the_time_of_the_request(app_with_hourly_clock):
    first, second = (get_last_modified(app_with_hourly_clock, PROVIDERS_PATH) for _ in range(2))
    assert second == first + timedelta(hours=1)


def test_empty_inventory_list_has_no_last_modified(app_with_hourly_clock):
    uuid = create_provider(app_with_hourly_clock, "host").json["uuid"]
    response = app_with_hourly_clock.get(
        f"{PROVIDERS_PATH}/{uuid}/inventories", headers=LATEST_HEADERS
    )
    assert response.headers["Cache-Control"] == "no-cache"
    assert "Last-Modified" not in response.headers
