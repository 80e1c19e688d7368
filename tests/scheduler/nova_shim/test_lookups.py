# SPDX-License-Identifier: Apache-2.0
"""Look-ups of plugins read each kind of object once, whatever the number of hosts."""

from importlib import import_module

import pytest

from placement_sched.model.clock import utcnow
from placement_sched.model.instance import Instance
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.nova_shim import db, exception, objects
from placement_sched.scheduler.nova_shim.lookups import get_cloud
from placement_sched.scheduler.nova_shim.report_client import report_client_singleton
from placement_sched.store.compute import instances
from tests.conftest import make_settings
from tests.support.scheduling import instance, report, spec
from tests.support.statements import record_statements


class MetadataFilter(BaseHostFilter):
    """Reads the metadata of each instance, by three ways."""

    def host_passes(self, host_state, spec_obj):
        found = objects.InstanceList.get_by_host(None, host_state.host)
        uuids = [instance.uuid for instance in found]
        roles = {instance.metadata["role"] for instance in found}
        roles |= {host_state.instances[uuid].metadata["role"] for uuid in uuids}
        roles |= {db.instance_metadata_get(None, uuid)["role"] for uuid in uuids}
        return roles == {host_state.host}


class LookupFilter(BaseHostFilter):
    """Reads everything about each host."""

    def host_passes(self, host_state, spec_obj):
        context, host, client = spec_obj._context, host_state.host, report_client_singleton()
        node = objects.ComputeNode.get_by_host_and_nodename(context, host, host_state.nodename)
        zone = db.get_host_availability_zone(context, host)
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


def count_statements(make_app, url, hosts, name="LookupFilter"):
    path = f"{__name__}.{name}"
    options = {"available_filters": [path], "enabled_filters": [name], "nova_shim": True}
    names = {f"filter_scheduler__{name}": value for name, value in options.items()}
    app = make_app(make_settings(url, **names))
    app.post_json("/scheduler/v1/compute_nodes", [report(f"cn{n}") for n in range(hosts)])
    if name == "MetadataFilter":
        record_instances(app.app.services.database, hosts)
    with record_statements(app.app.services.database) as statements:
        answer = app.post_json("/scheduler/v1/explain", {"request_spec": spec()}).json
    assert len(answer["hosts"]) == hosts
    return len(statements)


def record_instances(database, hosts):
    recorded = [
        Instance(
            **dict.fromkeys(Instance.__slots__)
            | {"uuid": instance(number), "host": host, "node": host, "display_name": "vm"}
            | {"metadata": {"role": host}}
        )
        for number in range(1, 2 * hosts + 1)
        for host in [f"cn{number % hosts}"]
    ]
    database.write(
        lambda connection: instances.record(connection, recorded, utcnow(), with_metadata=True)
    )


@pytest.mark.parametrize("name", ["LookupFilter", "MetadataFilter"])
def test_statements_do_not_depend_on_the_number_of_hosts(make_app, sqlite_url, name):
    counts = {count_statements(make_app, sqlite_url, hosts, name) for hosts in (3, 30)}
    assert len(counts) == 1


def test_metadata_are_not_read_without_a_plugin_that_uses_them(make_app, sqlite_url):
    enabled = ["ComputeFilter", "SameHostFilter"]
    app = make_app(make_settings(sqlite_url, filter_scheduler__enabled_filters=enabled))
    app.post_json("/scheduler/v1/compute_nodes", [report(f"cn{n}") for n in range(3)])
    record_instances(app.app.services.database, 3)
    with record_statements(app.app.services.database) as statements:
        body = {"request_spec": spec(scheduler_hints={"same_host": [instance(1)]})}
        answer = app.post_json("/scheduler/v1/explain", body).json
    assert [host["host"] for host in answer["hosts"]] == ["cn1"]
    assert not [each for each in statements if "sched_instances.metadata" in each]


def test_lookup_outside_of_a_request_fails():
    with pytest.raises(exception.NovaException, match="only while a request is scheduled"):
        objects.AggregateList.get_all(None)
    assert get_cloud.__doc__


def test_missing_object_raises_the_exception_of_nova(shim):
    nova_exception = import_module("nova.exception")
    assert issubclass(nova_exception.ComputeHostNotFound, nova_exception.NotFound)
    with pytest.raises(nova_exception.NovaException, match="gone"):
        raise nova_exception.AcmeError("gone")
    assert not hasattr(nova_exception, "acme")
