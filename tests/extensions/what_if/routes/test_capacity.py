# SPDX-License-Identifier: Apache-2.0
"""Capacity requests: errors with their paths, and large amounts."""

import pytest

from tests.extensions.what_if.capacity.placements import read_capacity
from tests.support.api_clouds import NODES_PATH, store_flavor
from tests.support.api_clouds import cloud as cloud  # noqa: PLC0414 - a fixture
from tests.support.clouds import uuid_of
from tests.support.placements import get_error_detail
from tests.support.scheduling import make_report
from tests.support.versions import LATEST_HEADERS


def test_invalid_capacity_request_is_rejected_with_the_path_of_the_error(cloud):
    store_flavor(cloud, "small")
    for question, status, words in [
        ({"request_spec": {"flavor": "smal"}}, 404, "Did you mean 'small'?"),
        ({"request_spec": {}, "flavors": ["small", "larg"]}, 404, "(at $.flavors[1])"),
        ({"request_spec": {}}, 400, "exactly one of"),
        ({"request_spec": {"flavor": "small"}, "all_flavors": True}, 400, "exactly one of"),
        ({"request_spec": {"flavor": "small"}, "per": "rack"}, 400, "$.per"),
        ({"request_spec": {"flavor": "small", "colour": 1}}, 400, "colour"),
        (
            {"request_spec": {"flavor": "small", "availability_zone": "az3"}},
            400,
            "Did you mean 'az1'? (at $.request_spec.availability_zone)",
        ),
        ({"request_spec": {"flavor": "small"}, "policy": "gold"}, 400, "gold"),
        ({"request_spec": {"flavor": "small"}, "overrides": {"a.b": 1}}, 400, "a.b"),
    ]:
        response = cloud.post_json("/scheduler/v1/capacity", question, status=status).json
        assert words in get_error_detail(response), words


@pytest.mark.parametrize(
    ("key", "named", "detail"),
    [
        ("force_hosts", "compute-1", "there is no host 'compute-1'. Did you mean 'compute-01'?"),
        ("ignore_hosts", "compute-1", "there is no host 'compute-1'. Did you mean 'compute-01'?"),
        ("force_nodes", "bm2.cloud", "there is no node 'bm2.cloud'. Did you mean 'bm1.cloud'?"),
        ("force_hosts", "xyz", "there is no host 'xyz'. There are: compute-01, ironic"),
    ],
)
def test_unknown_host_of_a_capacity_request_is_an_error(sqlite_app, key, named, detail):
    node = make_report("bm1", host="ironic", hypervisor_hostname="bm1.cloud")
    sqlite_app.post_json(NODES_PATH, [make_report("compute-01"), node])
    response = read_capacity(sqlite_app, status=404, **{key: [named]})
    assert get_error_detail(response).endswith(f"{detail} (at $.request_spec.{key}[0])")
    existing = "bm1.cloud" if key == "force_nodes" else "compute-01"
    read_capacity(sqlite_app, **{key: [existing]})


def test_capacity_of_a_host_with_more_than_64_bits_is_counted(sqlite_app):
    sqlite_app.post_json(NODES_PATH, [make_report("cn1")])
    path = f"/placement/resource_providers/{uuid_of('cn1')}/inventories"
    document = sqlite_app.get(path, headers=LATEST_HEADERS).json
    document["inventories"]["VCPU"] = {"total": 2**31 - 1, "allocation_ratio": 3e38}
    sqlite_app.put_json(path, document, headers=LATEST_HEADERS)
    assert read_capacity(sqlite_app)["capacity"] > 0
