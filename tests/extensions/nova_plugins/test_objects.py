# SPDX-License-Identifier: Apache-2.0
"""Functions of nova's database API for plugins, and look-ups of aggregates by metadata."""

import pytest

from placement_sched.extensions.nova_plugins import (
    exception,
    fields,
    functions,
    objects,
    servicegroup,
)
from placement_sched.model.clock import utcnow
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.weights import WeighedHost
from tests.conftest import make_settings
from tests.support.api_clouds import (
    AGGREGATES_PATH,
    COMPUTE_HEADERS,
    create_aggregate_with_metadata,
)
from tests.support.scheduling import FLAVOR, make_report, make_spec, make_uuid
from tests.support.states import build_host_state

#: Key and value of a look-up, and the names of the aggregates.
AGGREGATE_METADATA_LOOKUPS = [
    ({"key": "power"}, ["a", "b"]),
    ({"value": "r1"}, ["a", "c"]),
    ({"key": "rack", "value": "r1"}, ["a"]),
    ({"key": "rack", "value": "r3"}, []),
    ({"key": "hall"}, []),
]


class DatabaseFunctionCallingFilter(BaseHostFilter):
    """Passes hosts if the functions return the rows of cn1."""

    def host_passes(self, host_state, spec_obj):
        both, rack = {"rack": {"r1"}, "power": {"p1", "p2"}}, {"rack": {"r1"}, "power": {"p1"}}
        instances = objects.instance_get_all_by_host(None, "cn1")
        return (
            objects.aggregate_metadata_get_by_host(None, "cn1") == both
            and objects.aggregate_metadata_get_by_host(None, "cn1", "rack") == rack
            and objects.aggregate_values_from_db(None, "cn1", "power") == {"p1", "p2"}
            and objects.aggregate_values_from_db(None, "cn1", "hall") == set()
            and objects.aggregate_host_get_by_metadata_key(None, "rack") == {"cn1": {"r1"}}
            and [item.uuid for item in instances] == [make_uuid(1)]
            and objects.instance_get_by_uuid(None, make_uuid(1)).host == "cn1"
            and [list_aggregate_names(**terms) for terms, _ in AGGREGATE_METADATA_LOOKUPS]
            == [names for _, names in AGGREGATE_METADATA_LOOKUPS]
        )


def list_aggregate_names(**terms):
    return [each.name for each in objects.AggregateList.get_by_metadata(None, **terms)]


def test_nova_db_functions_return_the_aggregates_and_instances_of_a_host(sqlite_url, make_app):
    options = {
        "available_filters": [f"{__name__}.DatabaseFunctionCallingFilter"],
        "nova_shim": True,
    }
    options |= {"enabled_filters": ["DatabaseFunctionCallingFilter"]}
    names = {f"filter_scheduler__{name}": value for name, value in options.items()}
    app = make_app(make_settings(sqlite_url, **names))
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1")])
    for name, metadata in {"a": {"rack": "r1", "power": "p1"}, "b": {"power": "p2"}}.items():
        number = create_aggregate_with_metadata(app, name, **metadata)
        add = {"add_host": {"host": "cn1"}}
        app.post_json(f"{AGGREGATES_PATH}/{number}/action", add, headers=COMPUTE_HEADERS)
    create_aggregate_with_metadata(app, "c", hall_of_rack="r1")
    # No filter runs for a forced host.
    placed = {"request_spec": make_spec(make_uuid(1), force_hosts=["cn1"])}
    app.post_json("/scheduler/v1/select_destinations", placed)
    response = app.post_json("/scheduler/v1/explain", {"request_spec": make_spec()}).json
    assert [host["host"] for host in response["hosts"]] == ["cn1"]


class ReadingInInitFilter(BaseHostFilter):
    """Reads all nodes when it is created, as filters of nova may do."""

    def __init__(self):
        self.hosts = {node.host for node in objects.ComputeNodeList.get_all(None)}

    def host_passes(self, host_state, spec_obj):
        return host_state.host in self.hosts


class HostObjectReadingFilter(BaseHostFilter):
    """Passes hosts whose services, metrics and instances are recorded."""

    def host_passes(self, host_state, spec_obj):
        wrong = {"uuid": [make_uuid(1)], "host": "cn2"}
        instances = objects.InstanceList.get_by_filters(
            None, {"host": ["cn1"], "project_id": "p1", "deleted": False}
        )
        filled = objects.InstanceList(None, objects=host_state.instances.values())
        filled.fill_metadata()
        metrics = host_state.metrics.to_list()
        return (
            servicegroup.API().service_is_up(host_state.service)
            and [each.host for each in objects.ServiceList.get_all(None)] == ["cn1"]
            and not objects.ServiceList.get_all(None, disabled=True)
            and len(objects.ServiceList.get_by_binary(None, "nova-compute")) == 1
            and objects.Service.get_minimum_version(None, "nova-compute") == 66
            and objects.CellMapping.get_by_uuid(None, host_state.cell_uuid).uuid is not None
            and objects.CellMappingList.get_all(None) == []
            and [each.uuid for each in instances]
            == [each.uuid for each in filled]
            == [make_uuid(1)]
            and not objects.InstanceList.get_by_filters(None, wrong)
            and not objects.InstanceList.get_by_filters(None, {"deleted": True})
            and {each["name"]: each["value"] for each in metrics}
            == {"cpu.percent": 0.25, "cpu.frequency": 2000}
            and host_state.metrics[0].source == metrics[0]["source"] == "x"
        )


@pytest.fixture
def explain_hosts(sqlite_url, make_app):
    """Return a function that lists the hosts that pass a filter."""

    def explain(name):
        options = {
            "available_filters": [f"{__name__}.{name}"],
            "nova_shim": True,
            "enabled_filters": [name],
        }
        names = {f"filter_scheduler__{key}": value for key, value in options.items()}
        app = make_app(make_settings(sqlite_url, **names), clock=utcnow)
        metric = {"source": "x", "timestamp": None}
        metrics = [
            {"name": "cpu.percent", "value": 25, **metric},
            {"name": "cpu.frequency", "value": 2000, **metric},
        ]
        app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1", metrics=metrics)])
        instance = {"host": "cn1", "node": "cn1", "project_id": "p1", "user_id": "u1"}
        app.put_json(f"/scheduler/v1/instances/{make_uuid(1)}", {**instance, "flavor": FLAVOR})
        response = app.post_json("/scheduler/v1/explain", {"request_spec": make_spec()}).json
        return [host["host"] for host in response["hosts"]]

    return explain


@pytest.mark.parametrize("name", ["ReadingInInitFilter", "HostObjectReadingFilter"])
def test_plugins_read_services_cells_metrics_and_instances(explain_hosts, name):
    assert explain_hosts(name) == ["cn1"]


def test_filter_of_instances_by_an_unknown_field_is_an_error():
    with pytest.raises(AttributeError, match=r"get_by_filters\(tags\) is not provided"):
        objects.InstanceList.get_by_filters(None, {"tags": "x"})


def test_enumerations_of_nova_have_constants_and_canonical_values():
    hypervisors, architectures = fields.HVType, fields.Architecture
    assert hypervisors.KVM == hypervisors.canonicalize("KVM") == "kvm"
    assert (hypervisors.canonicalize("xapi"), hypervisors.VIRTUOZZO) == ("xen", "vz")
    assert architectures.canonicalize("amd64") == architectures.X86_64 == "x86_64"
    assert architectures.canonicalize(None) is None
    assert fields.VMMode.HVM in fields.VMMode.ALL
    assert fields.CPUAllocationPolicy.DEDICATED == "dedicated"
    assert fields.MonitorMetricType.CPU_USER_PERCENT == "cpu.user.percent"
    assert "none" not in hypervisors.ALL
    with pytest.raises(exception.Invalid, match="'none' is invalid"):
        hypervisors.canonicalize("none")
    with pytest.raises(AttributeError, match=r"nova\.objects\.fields\.StringField is not provided"):
        fields.StringField  # noqa: B018 - reads the attribute


def test_synchronized_functions_run_one_at_a_time():
    @functions.synchronized("acme")
    def read(value):
        with pytest.raises(TimeoutError):
            run_locked()
        return value

    def run_locked():
        if not functions._LOCKS["acme"].acquire(timeout=0.01):
            raise TimeoutError

    assert (read(1), read.__name__) == (1, "read")


def test_weighed_host_and_image_have_the_methods_of_nova():
    weighed = WeighedHost(build_host_state("cn1"), 2.5)
    assert weighed.to_dict() == {"weight": 2.5, "host": "cn1"}
    image = objects.ImageMeta.from_dict({"id": "i1", "properties": {"os_type": "linux"}})
    assert image.properties.os_type == "linux"
