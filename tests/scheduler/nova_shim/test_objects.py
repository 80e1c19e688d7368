# SPDX-License-Identifier: Apache-2.0
"""Functions of nova's database API for plugins, and look-ups of aggregates by metadata."""

from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.nova_shim import objects
from tests.conftest import make_settings
from tests.support.api_clouds import (
    AGGREGATES_PATH,
    COMPUTE_HEADERS,
    create_aggregate_with_metadata,
)
from tests.support.scheduling import make_report, make_spec, make_uuid

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
    answer = app.post_json("/scheduler/v1/explain", {"request_spec": make_spec()}).json
    assert [host["host"] for host in answer["hosts"]] == ["cn1"]
