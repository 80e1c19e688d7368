# SPDX-License-Identifier: Apache-2.0
"""The client of nova's compute API: its requests, and its errors."""

import pytest

from placement_sched.errors import ServiceFailed
from placement_sched.extensions.what_if.nova_api import STOPPING_VERSION, ComputeService, NovaServer
from tests.extensions.what_if.compute_service import build_nova_client, run_nova
from tests.support.scheduling import make_uuid

INSTANCE_UUID = make_uuid(1)


@pytest.fixture
def nova_service():
    with run_nova() as nova:
        nova.add_server(INSTANCE_UUID, "cn1")
        nova.add_service("cn1")
        yield nova


@pytest.fixture
def nova(nova_service):
    return build_nova_client(nova_service.url)


def test_server_is_read_with_host_status_and_task_state(nova):
    assert nova.find_server(INSTANCE_UUID) == NovaServer(INSTANCE_UUID, "cn1", "ACTIVE", "active")


def test_unknown_server_is_read_as_none(nova):
    assert nova.find_server(make_uuid(2)) is None


def test_servers_on_a_host_are_listed(nova_service, nova):
    nova_service.add_server(make_uuid(2), "cn2")
    assert nova.list_servers_on("cn1") == [NovaServer(INSTANCE_UUID, "cn1", "ACTIVE", "active")]
    assert nova.list_servers_on("cn9") == []


def test_live_migration_request_names_the_host_without_force(nova_service, nova):
    assert nova.live_migrate(INSTANCE_UUID, "cn2") is None
    body = {"os-migrateLive": {"host": "cn2", "block_migration": "auto"}}
    assert nova_service.seen[-1] == ("POST", f"/servers/{INSTANCE_UUID}/action", body)
    assert nova.find_server(INSTANCE_UUID).task_state == "migrating"
    assert nova.find_server(INSTANCE_UUID).host == "cn2"
    assert nova.find_migration_status(INSTANCE_UUID) == "completed"


def test_cold_migration_is_confirmed(nova_service, nova):
    assert nova.cold_migrate(INSTANCE_UUID, "cn2") is None
    assert nova_service.seen[-1][2] == {"migrate": {"host": "cn2"}}
    nova_service.finish(INSTANCE_UUID)
    assert nova.find_server(INSTANCE_UUID).status == "VERIFY_RESIZE"
    assert nova.confirm(INSTANCE_UUID) is None
    assert nova.find_server(INSTANCE_UUID) == NovaServer(INSTANCE_UUID, "cn2", "ACTIVE", "active")


def test_evacuation_names_the_host_without_force(nova_service, nova):
    nova_service.force_down("cn1")
    assert not nova.find_compute_service("cn1").is_up
    assert nova.evacuate(INSTANCE_UUID, "cn2") is None
    body = {"evacuate": {"host": "cn2"}}
    assert nova_service.seen[-1] == ("POST", f"/servers/{INSTANCE_UUID}/action", body)
    assert nova.find_migration_status(INSTANCE_UUID, "evacuation") == "accepted"
    assert nova.find_migration_status(INSTANCE_UUID, "live-migration") is None
    nova_service.finish(INSTANCE_UUID)
    assert nova.find_server(INSTANCE_UUID) == NovaServer(INSTANCE_UUID, "cn2", "ACTIVE", "active")
    assert nova.find_migration_status(INSTANCE_UUID, "evacuation") == "done"


def test_evacuated_server_arrives_stopped_at_the_microversion_that_stops_it(nova_service, nova):
    nova_service.force_down("cn1")
    assert nova.with_version(STOPPING_VERSION).evacuate(INSTANCE_UUID, "cn2") is None
    nova_service.finish(INSTANCE_UUID)
    assert nova.find_server(INSTANCE_UUID).status == "SHUTOFF"


def test_evacuation_of_a_server_on_a_host_that_is_up_is_rejected(nova):
    reason = "nova answered 400 Bad Request (Compute service of cn1 is still in use.)"
    assert nova.evacuate(INSTANCE_UUID, "cn2") == reason


def test_servers_with_file_shares_are_listed_if_nova_shows_shares(nova_service, nova):
    nova_service.add_server(make_uuid(2), "cn1")
    nova_service.shared = {make_uuid(2)}
    uuids = [INSTANCE_UUID, make_uuid(2)]
    assert nova.list_with_shares(uuids) == [make_uuid(2)]
    nova_service.newest = 96
    assert nova.list_with_shares(uuids) == []


def test_rejected_server_action_returns_the_error_message_of_nova(nova_service, nova):
    nova_service.rejecting[INSTANCE_UUID] = "Cannot 'os-migrateLive' instance while it is stopped."
    reason = "nova answered 409 Conflict (Cannot 'os-migrateLive' instance while it is stopped.)"
    assert nova.live_migrate(INSTANCE_UUID, "cn2") == reason


def test_migration_status_of_an_instance_without_migrations_is_none(nova):
    assert nova.find_migration_status(INSTANCE_UUID) is None


def test_compute_service_is_disabled_with_a_reason_and_enabled(nova_service, nova):
    service = nova.find_compute_service("cn1")
    assert service == ComputeService("service of cn1", "cn1", is_disabled=False)
    nova.disable(service, "new fan")
    disabled = nova.find_compute_service("cn1")
    assert (disabled.is_disabled, disabled.disabled_reason) == (True, "new fan")
    nova.enable(disabled)
    assert not nova.find_compute_service("cn1").is_disabled


def test_compute_service_of_an_unknown_host_is_read_as_none(nova):
    for host in ("cn9", "", "CN1"):
        assert nova.find_compute_service(host) is None, host


def test_server_without_its_host_attribute_is_an_error(nova_service, nova):
    nova_service.is_admin = False
    with pytest.raises(ServiceFailed, match=r"to GET /servers/\S+ does not match the compute API"):
        nova.find_server(INSTANCE_UUID)


def test_nova_below_microversion_2_56_is_an_error(nova_service, nova):
    nova_service.version = "compute 2.1"
    with pytest.raises(ServiceFailed, match=r"compute microversion 2.56 \(Queens\) is needed"):
        nova.find_server(INSTANCE_UUID)


def test_failed_live_migration_request_is_not_repeated(nova_service, nova):
    nova_service.failure = ("503 Service Unavailable", None)
    with pytest.raises(ServiceFailed, match="503"):
        nova.live_migrate(INSTANCE_UUID, "cn2")
    assert len(nova_service.seen) == 1
