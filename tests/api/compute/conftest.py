# SPDX-License-Identifier: Apache-2.0
"""Clients of the compute API for its tests."""

import pytest

from tests.api.compute.flavors import FlavorApi
from tests.api.compute.hosts import HostApi
from tests.api.compute.server_groups import ServerGroupApi
from tests.api.compute.servers import ServerApi
from tests.support.reports import NOW

AGGREGATES_URL = "/compute/v2.1/os-aggregates"


class AggregateApi:
    """Short calls of os-aggregates that return the response."""

    def __init__(self, app):
        self.app = app

    def create(self, name, zone=None, status=200, **headers):
        fields = {"name": name} | ({} if zone is None else {"availability_zone": zone})
        return self.app.post_json(
            AGGREGATES_URL, {"aggregate": fields}, headers=headers, status=status
        )

    def create_and_get_id(self, name, zone=None):
        """Create an aggregate and return its id."""
        return self.create(name, zone).json["aggregate"]["id"]

    def show(self, number, status=200, version="2.96"):
        headers = {"OpenStack-API-Version": f"compute {version}"}
        return self.app.get(f"{AGGREGATES_URL}/{number}", headers=headers, status=status)

    def read_uuid(self, number):
        return self.show(number).json["aggregate"]["uuid"]

    def update(self, number, status=200, **fields):
        return self.app.put_json(f"{AGGREGATES_URL}/{number}", {"aggregate": fields}, status=status)

    def send_action(self, number, body, status=200):
        return self.app.post_json(f"{AGGREGATES_URL}/{number}/action", body, status=status)

    def add_host(self, number, host, status=200):
        return self.send_action(number, {"add_host": {"host": host}}, status)

    def remove_host(self, number, host, status=200):
        return self.send_action(number, {"remove_host": {"host": host}}, status)

    def set_metadata(self, number, status=200, **metadata):
        return self.send_action(number, {"set_metadata": {"metadata": metadata}}, status)

    def delete(self, number, status=200):
        return self.app.delete(f"{AGGREGATES_URL}/{number}", status=status)


@pytest.fixture
def aggregate_api(app):
    return AggregateApi(app)


@pytest.fixture
def sqlite_aggregate_api(sqlite_app):
    return AggregateApi(sqlite_app)


@pytest.fixture
def flavor_api(app):
    return FlavorApi(app)


@pytest.fixture
def sqlite_flavor_api(sqlite_app):
    return FlavorApi(sqlite_app)


@pytest.fixture
def server_group_api(app):
    return ServerGroupApi(app)


@pytest.fixture
def sqlite_server_group_api(sqlite_app):
    return ServerGroupApi(sqlite_app)


def _build_settings_with_short_down_time(settings):
    """Return settings with a down time of a minute, and a clock that stands still."""
    return settings.with_overrides({"DEFAULT.service_down_time": 60})


@pytest.fixture
def host_api(settings, make_app):
    return HostApi(make_app(_build_settings_with_short_down_time(settings), clock=lambda: NOW))


@pytest.fixture
def sqlite_host_api(sqlite_settings, make_app):
    return HostApi(
        make_app(_build_settings_with_short_down_time(sqlite_settings), clock=lambda: NOW)
    )


@pytest.fixture
def server_api(database_url, make_app):
    return ServerApi(database_url, make_app)


@pytest.fixture
def sqlite_server_api(sqlite_url, make_app):
    return ServerApi(sqlite_url, make_app)
