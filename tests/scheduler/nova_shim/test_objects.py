# SPDX-License-Identifier: Apache-2.0
"""Look-ups of host aggregates by their metadata."""

from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.nova_shim import objects
from tests.conftest import make_settings
from tests.scheduler.failover.test_report import set_metadata
from tests.support.scheduling import report, spec

#: Key and value of a look-up, and the names of the aggregates.
LOOKUPS = [
    ({"key": "rack"}, ["a", "b"]),
    ({"value": "r1"}, ["a", "c"]),
    ({"key": "rack", "value": "r1"}, ["a"]),
    ({"key": "rack", "value": "r3"}, []),
    ({"key": "hall"}, []),
]


class AggregateFilter(BaseHostFilter):
    """Passes hosts if each look-up returns the right aggregates."""

    def host_passes(self, host_state, spec_obj):
        return all(
            [aggregate.name for aggregate in objects.AggregateList.get_by_metadata(None, **terms)]
            == names
            for terms, names in LOOKUPS
        )


def test_aggregates_are_looked_up_by_key_and_value_of_their_metadata(sqlite_url, make_app):
    options = {"available_filters": [f"{__name__}.AggregateFilter"], "nova_shim": True}
    options |= {"enabled_filters": ["AggregateFilter"]}
    names = {f"filter_scheduler__{name}": value for name, value in options.items()}
    app = make_app(make_settings(sqlite_url, **names))
    app.post_json("/scheduler/v1/compute_nodes", [report("cn1")])
    set_metadata(app, "a", rack="r1")
    set_metadata(app, "b", rack="r2")
    set_metadata(app, "c", power="r1")
    answer = app.post_json("/scheduler/v1/explain", {"request_spec": spec()}).json
    assert [host["host"] for host in answer["hosts"]] == ["cn1"]
