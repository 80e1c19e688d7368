# SPDX-License-Identifier: Apache-2.0
"""Look-ups of plugins read each kind of object once, whatever the number of hosts."""

import pytest

from placement_sched.candidates.providers import ProviderSource
from placement_sched.extensions.nova_plugins import exception, objects
from placement_sched.extensions.nova_plugins.lookups import ServiceRecord
from placement_sched.extensions.nova_plugins.report_client import report_client_singleton
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.clock import utcnow
from placement_sched.model.instance import Instance
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.store.compute import instances
from tests.conftest import make_settings
from tests.support.scheduling import make_report, make_spec, make_uuid
from tests.support.statements import execute_statements, record_statements

VCPU_INVENTORY = {"total": 16, "reserved": 0, "min_unit": 1, "max_unit": 16, "step_size": 1}
VCPU_INVENTORY["allocation_ratio"] = 4.0
#: A hint. Filters then run for forced hosts.
LIVE_MIGRATION_CHECK_HINT = {"_nova_check_type": ["live_migrate"]}


class InstanceMetadataReadingFilter(BaseHostFilter):
    """Reads the metadata of each instance, by three ways."""

    def host_passes(self, host_state, spec_obj):
        found = objects.InstanceList.get_by_host(None, host_state.host)
        uuids = [instance.uuid for instance in found]
        roles = {instance.metadata["role"] for instance in found}
        roles |= {host_state.instances[uuid].metadata["role"] for uuid in uuids}
        roles |= {objects.instance_metadata_get(None, uuid)["role"] for uuid in uuids}
        return roles == {host_state.host}


class CachedObjectReadingFilter(BaseHostFilter):
    """Reads objects that are in the caches of a process."""

    def host_passes(self, host_state, spec_obj):
        context, host, client = spec_obj._context, host_state.host, report_client_singleton()
        node = objects.ComputeNode.get_by_uuid(context, host_state.uuid)
        service = objects.Service.get_by_compute_host(context, host)
        traits = client.get_provider_traits(context, node.uuid)
        inventory = client._get_inventory(context, node.uuid)
        assert inventory["resource_provider_generation"] == traits.generation
        assert inventory["inventories"]["VCPU"] == VCPU_INVENTORY
        return service.host == host == node.host and not objects.AggregateList.get_by_host(
            context, host
        )


class ServiceVersionFilter(BaseHostFilter):
    """Passes hosts whose computes have been upgraded."""

    def host_passes(self, host_state, spec_obj):
        version = host_state.service["version"]
        assert objects.Service.get_by_compute_host(None, host_state.host).version == version
        assert objects.Service.get_minimum_version(None, "nova-compute") == 67
        return version >= 70


class AllHostsReadingFilter(BaseHostFilter):
    """Reads the nodes and instances of all hosts, host by host."""

    def host_passes(self, host_state, spec_obj):
        for node in objects.ComputeNodeList.get_all(None):
            assert objects.ComputeNodeList.get_all_by_host(None, node.host) == [node]
            assert not objects.InstanceList.get_by_host(None, node.host)
        return True


class EveryObjectReadingFilter(BaseHostFilter):
    """Reads everything about each host."""

    def host_passes(self, host_state, spec_obj):
        context, host, client = spec_obj._context, host_state.host, report_client_singleton()
        node = objects.ComputeNode.get_by_host_and_nodename(context, host, host_state.nodename)
        zone = objects.get_host_availability_zone(context, host)
        traits = client.get_provider_traits(context, node.uuid)
        inventory = client._get_inventory(context, node.uuid)["inventories"]
        found = [
            objects.AggregateList.get_by_host(context, host),
            objects.InstanceList.get_by_host(context, host),
        ]
        service = objects.Service.get_by_compute_host(context, host)
        mapping = objects.HostMapping.get_by_host(context, host)
        assert mapping.cell_mapping.uuid == ""
        assert service["host"] == host if isinstance(service, dict) else service.host == host
        return zone == "nova" and inventory["VCPU"]["total"] == 16 and traits and found == [[], []]


def make_app_with_filter(make_app, url, hosts, name):
    path = f"{__name__}.{name}"
    options = {"available_filters": [path], "enabled_filters": [name], "nova_shim": True}
    names = {f"filter_scheduler__{name}": value for name, value in options.items()}
    settings = make_settings(url, **names)
    app = make_app(settings)
    app.post_json("/scheduler/v1/compute_nodes", [make_report(f"cn{n}") for n in range(hosts)])
    if name == "InstanceMetadataReadingFilter":
        record_instances(app.app.services.database, hosts)
    return app


def count_statements(app, hosts):
    with record_statements(app.app.services.database) as statements:
        response = app.post_json("/scheduler/v1/explain", {"request_spec": make_spec()}).json
    assert len(response["hosts"]) == hosts
    return len(statements)


def record_instances(database, hosts):
    recorded = [
        Instance(
            **dict.fromkeys(Instance.__slots__)
            | {"uuid": make_uuid(number), "host": host, "node": host, "display_name": "vm"}
            | {"metadata": {"role": host}}
        )
        for number in range(1, 2 * hosts + 1)
        for host in [f"cn{number % hosts}"]
    ]
    database.write(
        lambda connection: instances.record(connection, recorded, utcnow(), with_metadata=True)
    )


@pytest.mark.parametrize("name", ["EveryObjectReadingFilter", "InstanceMetadataReadingFilter"])
def test_statement_count_of_object_lookups_does_not_depend_on_hosts(make_app, sqlite_url, name):
    counts = {
        count_statements(make_app_with_filter(make_app, sqlite_url, hosts, name), hosts)
        for hosts in (3, 30)
    }
    assert len(counts) == 1


def test_lookups_of_cached_objects_send_no_sql_statement(make_app, sqlite_url):
    app = make_app_with_filter(make_app, sqlite_url, 5, "CachedObjectReadingFilter")
    plain = make_app(make_settings(sqlite_url, filter_scheduler__enabled_filters=[]))
    for client in (app, plain):
        count_statements(client, 5)
        client.app.services.scheduler.caches.provider_cache.wait(10)
    assert count_statements(app, 5) == count_statements(plain, 5)


def test_inventories_are_read_only_for_the_candidate_hosts_of_the_request(
    make_app, sqlite_url, monkeypatch
):
    batches = []
    read = ProviderSource.read_inventories
    monkeypatch.setattr(
        ProviderSource,
        "read_inventories",
        lambda source, ids: batches.append(ids) or read(source, ids),
    )
    app = make_app_with_filter(make_app, sqlite_url, 5, "CachedObjectReadingFilter")
    app.post_json(
        "/scheduler/v1/compute_nodes", [make_report(f"small{n}", vcpus=1) for n in range(9)]
    )
    body = {
        "request_spec": make_spec(flavor={"name": "m1", "vcpus": 8, "memory_mb": 1, "root_gb": 1})
    }
    hosts = app.post_json("/scheduler/v1/explain", body).json["hosts"]
    assert [len(ids) for ids in batches] == [len(hosts)] == [5]


def test_other_hosts_than_those_of_the_request_are_read_in_a_constant_number_of_statements(
    make_app, sqlite_url
):
    counts = set()
    for hosts in (30, 60):
        app = make_app_with_filter(make_app, sqlite_url, hosts, "AllHostsReadingFilter")
        body = {
            "request_spec": make_spec(
                force_hosts=["cn0"], scheduler_hints=LIVE_MIGRATION_CHECK_HINT
            )
        }
        with record_statements(app.app.services.database) as statements:
            app.post_json("/scheduler/v1/explain", body)
        counts.add(len(statements))
    assert len(counts) == 1


def test_instance_metadata_are_not_read_without_a_plugin_that_uses_them(make_app, sqlite_url):
    enabled = ["ComputeFilter", "SameHostFilter"]
    app = make_app(make_settings(sqlite_url, filter_scheduler__enabled_filters=enabled))
    app.post_json("/scheduler/v1/compute_nodes", [make_report(f"cn{n}") for n in range(3)])
    record_instances(app.app.services.database, 3)
    with record_statements(app.app.services.database) as statements:
        body = {"request_spec": make_spec(scheduler_hints={"same_host": [make_uuid(1)]})}
        response = app.post_json("/scheduler/v1/explain", body).json
    assert [host["host"] for host in response["hosts"]] == ["cn1"]
    assert not [statement for statement in statements if "sched_instances.metadata" in statement]


def test_recorded_versions_of_services_are_read_as_in_nova(make_app, sqlite_url):
    """A host that is forced down does not count as the minimum."""
    app = make_app_with_filter(make_app, sqlite_url, 3, "ServiceVersionFilter")
    execute_statements(
        app.app.services.database,
        "UPDATE sched_services SET version = 74 WHERE host = 'cn1'",
        "UPDATE sched_services SET version = 67 WHERE host = 'cn2'",
        "UPDATE sched_services SET forced_down = 1 WHERE host = 'cn0'",
    )
    hosts = app.post_json("/scheduler/v1/explain", {"request_spec": make_spec()}).json["hosts"]
    assert [host["host"] for host in hosts] == ["cn1"]


def test_object_lookup_outside_of_a_request_fails():
    with pytest.raises(exception.NovaException, match="only while a request is scheduled"):
        objects.AggregateList.get_all(None)


def test_nova_exception_named_not_found_or_invalid_has_that_base_class():
    assert issubclass(exception.ComputeHostNotFound, exception.HostNotFound)
    assert issubclass(exception.HostNotFound, exception.NotFound)
    assert issubclass(exception.InvalidState, exception.Invalid)
    assert not issubclass(exception.NoValidHost, (exception.NotFound, exception.Invalid))
    assert not hasattr(exception, "acme")


def test_message_of_a_nova_exception_contains_its_keyword_values():
    assert str(exception.NoValidHost(reason="full")) == "NoValidHost: reason=full"
    assert str(exception.NoValidHost("none left", reason="full")) == "none left"

    class RackError(exception.NovaException):
        msg_fmt = "Rack %(rack)s is full."

    assert str(RackError(rack="r1")) == "Rack r1 is full."
    assert str(RackError(row="7")) == "Rack %(rack)s is full.: row=7"


@pytest.mark.parametrize(
    "name", ["InstanceList.get_active_by_window", "ComputeNode.save", "Service.create"]
)
def test_missing_method_of_a_nova_object_raises_an_error_that_names_it(nova_shim, name):
    class_name, _, method = name.partition(".")
    kind = getattr(objects, class_name)
    with pytest.raises(AttributeError, match=rf"nova\.objects\.{name} is not provided here"):
        getattr(kind, method)
    assert not hasattr(kind, method)


def test_nova_service_is_read_as_an_object_or_a_dictionary():
    service = ServiceRecord(host="cn1", disabled=True)
    assert service.disabled
    assert service["host"] == service.get("host") == "cn1"
    assert service.get("topic", "compute") == "compute"
    with pytest.raises(KeyError):
        service["topic"]


def test_nova_aggregate_is_read_as_an_object_or_a_dictionary():
    aggregate = HostAggregate(
        id=7, uuid="u", name="a", hosts=frozenset({"cn1"}), metadata={"k": "v"}
    )
    assert (aggregate["name"], aggregate["metadata"]["k"]) == ("a", "v")
    assert (aggregate.get("id"), aggregate.get("missing"), "hosts" in aggregate) == (7, None, True)
    with pytest.raises(KeyError, match="missing"):
        aggregate["missing"]
