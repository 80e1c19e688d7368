# SPDX-License-Identifier: Apache-2.0
"""Availability zones of the compute API."""

from datetime import timedelta

import pytest

from placement_sched.db.tables import services
from tests.api.compute.servers import ServerApi
from tests.support.recorded_reports import disable_service
from tests.support.reports import NOW
from tests.support.statements import record_statements

ZONES_URL = "/compute/v2.1/os-availability-zone"


class ZoneApi(ServerApi):
    """Hosts in zones, with a clock that a test sets."""

    def disable_hosts(self, *hosts):
        def disable_services(connection):
            for host in hosts:
                disable_service(connection, host, now=self.now)

        self.database.write(disable_services)

    def add_internal_service(self, host, binary):
        """Add a service of nova that has no instances."""
        row = {
            "uuid": "7d6fc2c4-2f0a-4a0e-8d0f-0d6a3c5b1c01",
            "host": host,
            "binary": binary,
            "disabled": 0,
            "forced_down": 0,
            "last_seen_up": NOW,
            "updated_at": NOW,
        }
        self.database.write(lambda connection: connection.execute(services.insert(), row))

    def read_zones(self, path="", **headers):
        return self.app.get(f"{ZONES_URL}{path}", headers=headers).json["availabilityZoneInfo"]


@pytest.fixture
def zone_api(database_url, make_app):
    return ZoneApi(database_url, make_app)


@pytest.fixture
def sqlite_zone_api(sqlite_url, make_app):
    return ZoneApi(sqlite_url, make_app)


def build_zone_document(name, hosts=None, *, available=True):
    return {"zoneName": name, "zoneState": {"available": available}, "hosts": hosts}


def build_service_state(*, available=True, binary="nova-compute"):
    updated = "2026-01-01T12:00:00.000000"
    return {binary: {"available": available, "active": True, "updated_at": updated}}


def test_zones_are_listed_with_the_default_zone(zone_api):
    assert zone_api.read_zones() == zone_api.read_zones("/detail") == []
    zone_api.report_hosts(1, 2, 3)
    zone_api.create_zone("west", "cn2")
    zone_api.create_zone("empty")
    assert zone_api.read_zones() == [build_zone_document("nova"), build_zone_document("west")]
    assert zone_api.read_zones("/detail") == [
        build_zone_document("nova", {"cn1": build_service_state(), "cn3": build_service_state()}),
        build_zone_document("west", {"cn2": build_service_state()}),
    ]


@pytest.mark.all_databases
def test_zone_is_available_while_one_of_its_services_is_enabled(zone_api):
    zone_api.report_hosts(1, 2, 3)
    zone_api.create_zone("east", "cn1", "cn2")
    zone_api.disable_hosts("cn1", "cn3")
    assert zone_api.read_zones() == [
        build_zone_document("east"),
        build_zone_document("nova", available=False),
    ]
    assert zone_api.read_zones("/detail") == [
        build_zone_document("east", {"cn2": build_service_state()}),
        build_zone_document("nova", available=False),
    ]


def test_down_services_are_shown_in_an_available_zone(sqlite_zone_api):
    sqlite_zone_api.report_hosts(1)
    sqlite_zone_api.now = NOW + timedelta(seconds=61)
    assert sqlite_zone_api.read_zones() == [build_zone_document("nova")]
    assert sqlite_zone_api.read_zones("/detail") == [
        build_zone_document("nova", {"cn1": build_service_state(available=False)})
    ]


def test_internal_zone_is_shown_in_detail_only(sqlite_zone_api):
    sqlite_zone_api.add_internal_service("control", "nova-conductor")
    sqlite_zone_api.report_hosts(1)
    assert sqlite_zone_api.read_zones() == [build_zone_document("nova")]
    internal = build_zone_document(
        "internal", {"control": build_service_state(binary="nova-conductor")}
    )
    assert sqlite_zone_api.read_zones("/detail") == [
        internal,
        build_zone_document("nova", {"cn1": build_service_state()}),
    ]


def test_default_and_internal_zone_names_are_configurable(sqlite_url, make_app):
    names = {"default_availability_zone": "home", "internal_service_availability_zone": "inner"}
    zone_api = ZoneApi(sqlite_url, make_app, **{f"DEFAULT__{key}": names[key] for key in names})
    zone_api.add_internal_service("control", "nova-scheduler")
    zone_api.report_hosts(1)
    assert [each["zoneName"] for each in zone_api.read_zones("/detail")] == ["home", "inner"]
    assert [each["zoneName"] for each in zone_api.read_zones()] == ["home"]


def test_host_in_two_aggregates_of_a_zone_is_listed_once(sqlite_zone_api):
    sqlite_zone_api.report_hosts(1)
    sqlite_zone_api.create_zone("west", "cn1")
    aggregate = sqlite_zone_api.app.post_json(
        "/compute/v2.1/os-aggregates", {"aggregate": {"name": "again", "availability_zone": "west"}}
    ).json["aggregate"]
    action = f"/compute/v2.1/os-aggregates/{aggregate['id']}/action"
    sqlite_zone_api.app.post_json(action, {"add_host": {"host": "cn1"}})
    assert sqlite_zone_api.read_zones() == [build_zone_document("west")]


def test_sql_statement_count_does_not_grow_with_hosts(sqlite_zone_api):
    counts = set()
    for number in (1, 2, 3, 4):
        sqlite_zone_api.report_hosts(number)
        sqlite_zone_api.create_zone(f"z{number}", f"cn{number}")
        with record_statements(sqlite_zone_api.database) as statements:
            sqlite_zone_api.read_zones("/detail")
        counts.add(len(statements))
    assert counts == {2}
