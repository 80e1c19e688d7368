# SPDX-License-Identifier: Apache-2.0
"""Races between the deletion of a service and claims on its host or reports of it."""

import pytest

from tests.support.concurrency import run_concurrently
from tests.support.reports import node_uuid
from tests.support.scheduling import make_uuid
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.all_databases

SMALL_FLAVOR = {"name": "small", "vcpus": 1, "memory_mb": 512, "root_gb": 1}


def select_destination_and_get_status(host_api, number):
    spec = {"project_id": "shop", "flavor": SMALL_FLAVOR, "instance_uuids": [make_uuid(number)]}
    body = {"request_spec": spec}
    return host_api.app.post_json("/scheduler/v1/select_destinations", body, status="*").status_int


def test_concurrent_service_deletion_and_claim_never_both_succeed(host_api):
    for number in range(2):
        host_api.report_host(1)
        uuid = host_api.read_service()["id"]
        deleted, placed = run_concurrently(
            lambda uuid=uuid: (
                host_api.request("DELETE", f"/os-services/{uuid}", status="*").status_int
            ),
            lambda number=number: select_destination_and_get_status(host_api, number),
        )
        assert (deleted, placed) in {(204, 409), (409, 200)}
        providers = host_api.app.get("/placement/resource_providers", headers=LATEST_HEADERS).json
        assert (
            len(providers["resource_providers"])
            == len(host_api.list_services())
            == (deleted == 409)
        )
        assert len(host_api.list_hypervisors()) == (deleted == 409)
        if placed == 200:
            host_api.app.delete(f"/scheduler/v1/instances/{make_uuid(number)}")


def test_concurrent_service_deletion_and_report_leave_a_complete_host_or_none(host_api):
    for _ in range(2):
        host_api.report_host(1)
        uuid = host_api.read_service()["id"]
        deleted, _ = run_concurrently(
            lambda uuid=uuid: (
                host_api.request("DELETE", f"/os-services/{uuid}", status="*").status_int
            ),
            lambda: host_api.report_host(1, vcpus=16),
        )
        assert deleted == 204
        providers = host_api.app.get("/placement/resource_providers", headers=LATEST_HEADERS).json
        uuids = [provider["uuid"] for provider in providers["resource_providers"]]
        assert uuids in ([], [node_uuid(1)])
        assert len(host_api.list_services()) == len(host_api.list_hypervisors()) == len(uuids)
