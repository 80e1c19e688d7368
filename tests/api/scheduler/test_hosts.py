# SPDX-License-Identifier: Apache-2.0
"""Filters, pages and large numbers of the scheduler API of hosts."""

import pytest

from tests.api.scheduler.host_views import (
    HOSTS_PATH,
    index_hosts_by_name,
    list_host_names,
    list_hosts,
)
from tests.api.scheduler.host_views import cloud_app as cloud_app  # noqa: PLC0414 - a fixture
from tests.support.clouds import uuid_of
from tests.support.scheduling import make_report, make_uuid
from tests.support.versions import LATEST_HEADERS


def test_host_capacity_of_more_than_64_bits_is_shown(cloud_app):
    cloud_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1")])
    path = f"/placement/resource_providers/{uuid_of('cn1')}"
    document = cloud_app.get(f"{path}/inventories", headers=LATEST_HEADERS).json
    document["inventories"]["VCPU"] = {"total": 2**31 - 1, "allocation_ratio": 3e38}
    cloud_app.put_json(f"{path}/inventories", document, headers=LATEST_HEADERS)
    assert cloud_app.get(f"{HOSTS_PATH}/cn1").json


@pytest.mark.slow
def test_hosts_are_filtered_and_paged(cloud_app):
    for query, names in [
        ("?host=cn2", ["cn2"]),
        ("?host=CN2", []),
        ("?search=N3", ["cn3"]),
        ("?zone=az-east", ["cn1", "cn2"]),
        ("?zone=nova", ["cn3", "cn4"]),
        ("?aggregate=rack", ["cn1", "cn3"]),
        ("?state=up", ["cn1", "cn3"]),
        ("?state=disabled&state=down", ["cn2", "cn4"]),
        ("?trait=CUSTOM_A", ["cn1", "cn3"]),
        ("?trait=CUSTOM_A&trait=HW_NUMA_ROOT", ["cn1"]),
        ("?trait=custom_a", []),
        ("?trait=CUSTOM_A&zone=nova", ["cn3"]),
        ("?zone=elsewhere", []),
    ]:
        assert list_host_names(cloud_app, query) == names, query
    uuid = list_hosts(cloud_app)["aggregates"][1]["uuid"]
    assert list_host_names(cloud_app, f"?aggregate={uuid}") == ["cn1", "cn3"]
    # Shared values of a filtered list cover its hosts only.
    response = list_hosts(cloud_app, "?host=cn3")
    assert [aggregate["name"] for aggregate in response["aggregates"]] == ["rack"]
    assert response["traits"] == ["CUSTOM_A"]
    (host,) = response["hosts"]
    assert (host["aggregates"], host["traits"]) == ([0], [0])
    assert host["resources"] == index_hosts_by_name(list_hosts(cloud_app))["cn3"]["resources"]
    (error,) = cloud_app.get(f"{HOSTS_PATH}?marker={make_uuid(9)}", status=400).json["errors"]
    assert error["detail"] == f"marker [{make_uuid(9)}] not found"
    assert error["code"] == "scheduler.bad_value"
    cloud_app.get(f"{HOSTS_PATH}?state=up&state=sleeping", status=400)
    pages, path = [], f"{HOSTS_PATH}?limit=3"
    while path:
        response = cloud_app.get(path).json
        pages.append([host["host"] for host in response["hosts"]])
        path = response["links"][0]["href"] if response["links"] else None
    assert pages == [["cn1", "cn2", "cn3"], ["cn4"]]
