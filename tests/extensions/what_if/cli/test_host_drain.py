# SPDX-License-Identifier: Apache-2.0
"""``host drain`` without execution."""

import pytest

from tests.support.clouds import uuid_of
from tests.support.scheduling import make_report, make_uuid
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.slow


def test_host_drain_names_other_consumers(run_cli, sqlite_app):
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1")])
    body = {
        "allocations": {uuid_of("cn1"): {"resources": {"VCPU": 2}}},
        "project_id": "p2",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "CONTAINER",
    }
    sqlite_app.put_json(f"/placement/allocations/{make_uuid(70)}", body, headers=LATEST_HEADERS)
    status, printed, _ = run_cli("host", "drain", "cn1")
    assert status == 0
    assert "1 other consumer stays on cn1, by type 1 CONTAINER: end or move them" in printed
