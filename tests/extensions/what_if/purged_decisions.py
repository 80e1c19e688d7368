# SPDX-License-Identifier: Apache-2.0
"""A cloud with an instance whose decision is purged."""

import pytest

from tests.conftest import make_settings
from tests.extensions.what_if.plan_moves import make_cloud_and_get_group_id
from tests.support.clouds import uuid_of
from tests.support.scheduling import make_flavor, make_spec, make_uuid, select_hosts
from tests.support.statements import execute_statements
from tests.support.versions import LATEST_HEADERS

BANDWIDTH = "CUSTOM_BANDWIDTH"
LICENSED_IMAGE = {"id": make_uuid(5), "properties": {"trait:CUSTOM_LICENSED": "required"}}
#: Fields of a request, and the host that the instance moves to from cn1 if cn3 is not preferred.
REQUESTS_AND_TARGETS = [
    ({}, "cn2"),
    ({"availability_zone": "az1"}, "cn3"),
    ({"availability_zone": "az1:cn1"}, "cn3"),
    ({"scheduler_hints": {"different_host": [make_uuid(9)]}}, "cn3"),
    ({"image": LICENSED_IMAGE}, "cn3"),
    ({"is_bfv": True, "flavor": make_flavor(root_gb=9999)}, "cn2"),
    ({"requested_resources": [{"requester_id": "p", "resources": {BANDWIDTH: 8}}]}, "cn3"),
]


@pytest.fixture
def mixed_cloud(database_url, make_app):
    """Three hosts: only cn2 lacks zone, trait and bandwidth, and has an instance."""
    filters = ["ComputeFilter", "DifferentHostFilter"]
    app = make_app(make_settings(database_url, filter_scheduler__enabled_filters=filters))
    sizes = {"cn1": 8, "cn2": 64, "cn3": 16}
    make_cloud_and_get_group_id(app, sizes, ["cn1", "cn3"])
    app.put("/placement/traits/CUSTOM_LICENSED", headers=LATEST_HEADERS)
    app.put(f"/placement/resource_classes/{BANDWIDTH}", headers=LATEST_HEADERS)
    for name in ("cn1", "cn3"):
        path = f"/placement/resource_providers/{uuid_of(name)}"
        generation = app.get(path, headers=LATEST_HEADERS).json["generation"]
        traits = {"resource_provider_generation": generation, "traits": ["CUSTOM_LICENSED"]}
        app.put_json(f"{path}/traits", traits, headers=LATEST_HEADERS)
        inventory = {"resource_class": BANDWIDTH, "total": 1000}
        app.post_json(f"{path}/inventories", inventory, headers=LATEST_HEADERS)
    select_hosts(app, make_spec(make_uuid(9), force_hosts=["cn2"]))
    return app


def place_without_decision(app, database, fields):
    """Place an instance on cn1, and purge all decisions."""
    select_hosts(app, make_spec(make_uuid(1), **{"force_hosts": ["cn1"], **fields}))
    execute_statements(database, "DELETE FROM sched_decisions", "DELETE FROM sched_decision_places")
