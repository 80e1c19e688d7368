# SPDX-License-Identifier: Apache-2.0
"""Look-ups of plugins read each kind of object once, whatever the number of hosts."""

from importlib import import_module

import pytest

from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.nova_shim import db, exception, objects
from placement_sched.scheduler.nova_shim.lookups import get_cloud
from placement_sched.scheduler.nova_shim.report_client import report_client_singleton
from tests.conftest import make_settings
from tests.support.scheduling import report, spec
from tests.support.statements import record_statements


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


def count_statements(make_app, url, hosts):
    path = f"{__name__}.LookupFilter"
    options = {"available_filters": [path], "enabled_filters": ["LookupFilter"], "nova_shim": True}
    names = {f"filter_scheduler__{name}": value for name, value in options.items()}
    app = make_app(make_settings(url, **names))
    app.post_json("/scheduler/v1/compute_nodes", [report(f"cn{n}") for n in range(hosts)])
    with record_statements(app.app.services.database) as statements:
        answer = app.post_json("/scheduler/v1/explain", {"request_spec": spec()}).json
    assert len(answer["hosts"]) == hosts
    return len(statements)


def test_statements_do_not_depend_on_the_number_of_hosts(make_app, sqlite_url):
    assert count_statements(make_app, sqlite_url, 3) == count_statements(make_app, sqlite_url, 30)


def test_nothing_can_be_read_outside_of_a_request():
    with pytest.raises(exception.NovaException, match="only while a request is scheduled"):
        objects.AggregateList.get_all(None)
    assert get_cloud.__doc__


def test_what_does_not_exist_is_an_exception_of_nova(shim):
    nova_exception = import_module("nova.exception")
    assert issubclass(nova_exception.ComputeHostNotFound, nova_exception.NotFound)
    with pytest.raises(nova_exception.NovaException, match="gone"):
        raise nova_exception.AcmeError("gone")
    assert not hasattr(nova_exception, "acme")
