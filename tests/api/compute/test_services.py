# SPDX-License-Identifier: Apache-2.0
"""Services: lists, and the effects of disabling and forcing down."""

import pytest

from tests.api.compute.client import get_error_message
from tests.api.compute.hosts import SERVICES_PATH, HostApi
from tests.support.hosts import add_service
from tests.support.reports import NOW
from tests.support.statements import record_statements

DISABLED_TRAIT = "COMPUTE_STATUS_DISABLED"
UNKNOWN_SERVICE_UUID = "e81d66a4-ddd3-4aba-8a84-171d1cb4d339"


def test_fields_of_a_service_depend_on_the_version(sqlite_host_api):
    sqlite_host_api.report_host(1)
    for version, kind, forced_down in (
        *(("2.1", int, False), ("2.10", int, False), ("2.11", int, True), ("2.52", int, True)),
        *(("2.53", str, True), ("2.69", str, True), ("2.96", str, True)),
    ):
        service = sqlite_host_api.read_service(version=version)
        assert isinstance(service["id"], kind), version
        assert ("forced_down" in service) == forced_down, version


def test_services_are_found_by_host_and_binary(host_api, database):
    for number in (1, 2):
        host_api.report_host(number)
    add_service(database, "cn1", "nova-scheduler")

    def list_hosts_and_binaries(query):
        return [(service["host"], service["binary"]) for service in host_api.list_services(query)]

    compute, scheduler = ("cn1", "nova-compute"), ("cn1", "nova-scheduler")
    assert list_hosts_and_binaries("") == [compute, ("cn2", "nova-compute"), scheduler]
    assert list_hosts_and_binaries("?host=cn1") == [compute, scheduler]
    assert list_hosts_and_binaries("?binary=nova-compute") == [compute, ("cn2", "nova-compute")]
    assert list_hosts_and_binaries("?host=cn1&binary=nova-scheduler") == [scheduler]
    assert (
        list_hosts_and_binaries("?host=CN1")
        == list_hosts_and_binaries("?binary=nova-conductor")
        == []
    )
    assert list_hosts_and_binaries("?host=&binary=") == list_hosts_and_binaries("")


def test_service_has_the_zone_of_its_host_or_the_default_or_internal_zone(
    host_api, aggregate_api, database
):
    for number in (1, 2):
        host_api.report_host(number)
    add_service(database, "cn1", "nova-scheduler")
    zone, plain = (
        aggregate_api.create_and_get_id("zone", "east"),
        aggregate_api.create_and_get_id("plain"),
    )
    aggregate_api.add_host(zone, "cn1")
    for host in ("cn1", "cn2"):
        aggregate_api.add_host(plain, host)
    assert [service["zone"] for service in host_api.list_services()] == ["east", "nova", "internal"]


def test_default_availability_zone_name_is_configurable(sqlite_settings, make_app):
    settings = sqlite_settings.with_overrides({"DEFAULT.default_availability_zone": "az0"})
    host_api = HostApi(make_app(settings, clock=lambda: NOW))
    host_api.report_host(1)
    assert host_api.read_service()["zone"] == "az0"


def test_service_is_up_while_its_last_report_is_recent(sqlite_host_api):
    for silent, state in ((0, "up"), (60, "up"), (61, "down")):
        sqlite_host_api.report_host(1, silent=silent)
        assert sqlite_host_api.read_service()["state"] == state, silent


def test_unknown_service_query_parameters_are_rejected_from_2_75(sqlite_host_api):
    assert sqlite_host_api.list_services("?x=1", version="2.74") == []
    sqlite_host_api.request("GET", f"{SERVICES_PATH}?x=1", version="2.75", status=400)


def test_only_disabled_host_has_the_disabled_trait(host_api):
    for number in (1, 2):
        host_api.report_host(number)
    response = host_api.change_service({"status": "disabled", "disabled_reason": "broken fan"})
    assert (response["status"], response["disabled_reason"], response["state"]) == (
        *("disabled", "broken fan"),
        "up",
    )
    assert response == host_api.read_service()
    assert (host_api.read_traits(1), host_api.read_traits(2)) == ({DISABLED_TRAIT}, set())
    response = host_api.change_service({"status": "enabled"})
    assert (response["status"], response["disabled_reason"]) == ("enabled", None)
    assert host_api.read_traits(1) == set()


def test_forced_down_service_is_down_until_forced_down_is_unset(host_api):
    host_api.report_host(1)
    response = host_api.change_service({"forced_down": True})
    assert (response["forced_down"], response["state"], response["status"]) == (
        True,
        "down",
        "enabled",
    )
    host_api.report_host(1)
    assert host_api.read_service()["state"] == "down"
    assert host_api.change_service({"forced_down": False})["state"] == "up"


def test_status_and_forced_down_of_a_service_can_be_changed_in_one_request(sqlite_host_api):
    sqlite_host_api.report_host(1)
    response = sqlite_host_api.change_service(
        {"status": "disabled", "disabled_reason": "moved", "forced_down": "true"}
    )
    assert (response["status"], response["forced_down"], response["disabled_reason"]) == (
        *("disabled", True),
        "moved",
    )


INVALID_SERVICE_CHANGES = [
    ({}, "No updates were requested"),
    ({"disabled_reason": "why"}, 'requires that status is "disabled"'),
    ({"disabled_reason": "why", "status": "enabled"}, 'requires that status is "disabled"'),
    ({"status": "off"}, "'off' is not one of"),
    ({"status": "disabled", "disabled_reason": ""}, "$.disabled_reason"),
    ({"status": "disabled", "disabled_reason": "x" * 256}, "$.disabled_reason"),
    ({"status": "disabled", "disabled_reason": None}, "$.disabled_reason"),
    ({"forced_down": "perhaps"}, "is not a boolean (at $.forced_down)"),
    ({"forced_down": None}, "$.forced_down"),
    ({"status": "enabled", "host": "cn1"}, "'host' was unexpected"),
]


def test_invalid_change_of_a_service_is_reported_and_changes_nothing(sqlite_host_api):
    sqlite_host_api.report_host(1)
    before = sqlite_host_api.read_service()
    for fields, expected in INVALID_SERVICE_CHANGES:
        assert expected in sqlite_host_api.change_service(fields, status=400), fields
    assert sqlite_host_api.read_service() == before


def test_unknown_service_uuid_is_404_and_invalid_uuid_400(sqlite_host_api):
    body = {"status": "enabled"}
    missing = sqlite_host_api.request(
        "PUT", f"{SERVICES_PATH}/{UNKNOWN_SERVICE_UUID}", body, status=404
    )
    assert get_error_message(missing) == f"Service {UNKNOWN_SERVICE_UUID} could not be found."
    wrong = sqlite_host_api.request("PUT", f"{SERVICES_PATH}/7", body, status=400)
    assert get_error_message(wrong) == "Invalid uuid 7"


def test_only_compute_services_can_be_changed_by_uuid(sqlite_host_api, sqlite_database):
    add_service(sqlite_database, "cn1", "nova-scheduler")
    response = sqlite_host_api.change_service({"status": "disabled"}, status=400)
    assert "Updating a nova-scheduler service is not supported" in response
    assert sqlite_host_api.read_service()["status"] == "enabled"


@pytest.mark.all_databases
def test_service_can_be_changed_by_name_before_2_53(host_api):
    host_api.report_host(1)
    named = {"host": "cn1", "binary": "nova-compute"}
    response = host_api.change_service_by_name(
        "disable-log-reason", version="2.1", disabled_reason="fan"
    ).json["service"]
    assert response == {**named, "status": "disabled", "disabled_reason": "fan"}
    assert host_api.read_service(version="2.1")["disabled_reason"] == "fan"
    assert host_api.read_traits() == {DISABLED_TRAIT}
    response = host_api.change_service_by_name("enable", version="2.1").json["service"]
    assert response == {**named, "status": "enabled"}
    assert (host_api.read_service()["disabled_reason"], host_api.read_traits()) == (None, set())
    response = host_api.change_service_by_name("disable", version="2.1").json["service"]
    assert response == {**named, "status": "disabled"}
    assert (host_api.read_service()["status"], host_api.read_traits()) == (
        "disabled",
        {DISABLED_TRAIT},
    )
    response = host_api.change_service_by_name("force-down", forced_down="1").json["service"]
    assert response == {**named, "forced_down": True}
    assert host_api.read_service()["state"] == "down"


def test_disabling_a_service_that_is_not_nova_compute_sets_no_trait(host_api, database):
    host_api.report_host(1)
    add_service(database, "cn1", "nova-scheduler")
    host_api.change_service_by_name("disable", binary="nova-scheduler")
    states = {service["binary"]: service["status"] for service in host_api.list_services()}
    assert states == {"nova-compute": "enabled", "nova-scheduler": "disabled"}
    assert host_api.read_traits() == set()


def test_change_of_a_service_by_host_name_is_404_from_2_53(sqlite_host_api):
    sqlite_host_api.report_host(1)
    for action in ("enable", "disable", "disable-log-reason", "force-down"):
        sqlite_host_api.change_service_by_name(action, version="2.53", status=404)
    sqlite_host_api.change_service_by_name(
        "force-down", version="2.10", forced_down=True, status=404
    )
    sqlite_host_api.change_service_by_name("stop", status=404)


INVALID_SERVICE_CHANGES_BY_NAME = [
    ("enable", {"host": "cn9"}, 404, "Could not find binary nova-compute on host cn9."),
    ("disable", {"binary": "nova"}, 404, "Could not find binary nova on host cn1."),
    ("enable", {"host": "a b"}, 400, "$.host"),
    ("enable", {"binary": 1}, 400, "$.binary"),
    ("disable", {"why": "?"}, 400, "'why' was unexpected"),
    ("disable-log-reason", {}, 400, "'disabled_reason' is a required property"),
    ("force-down", {}, 400, "'forced_down' is a required property"),
    ("force-down", {"forced_down": 1}, 400, "$.forced_down"),
]


def test_invalid_change_of_a_service_by_host_name_is_reported(sqlite_host_api):
    sqlite_host_api.report_host(1)
    for action, fields, status, expected in INVALID_SERVICE_CHANGES_BY_NAME:
        assert expected in get_error_message(
            sqlite_host_api.change_service_by_name(action, status=status, **fields)
        ), fields


def test_sql_statement_count_does_not_grow_with_services(host_api):
    counts = []
    for size in (2, 12):
        host_api.report_hosts(size)
        with record_statements(host_api.app.app.services.database) as seen:
            assert len(host_api.list_services()) == size
        counts.append(len(seen))
    assert counts[0] == counts[1] <= 3
