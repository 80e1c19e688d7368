# SPDX-License-Identifier: Apache-2.0
"""Negotiation of microversions."""

import pytest

from placement_sched.api.placement.microversions import NEWEST


@pytest.mark.parametrize(
    ("requested", "status"),
    [
        ("1.0", 200),
        (str(NEWEST), 200),
        ("latest", 200),
        (f"1.{NEWEST.minor + 1}", 406),
        ("0.9", 406),
        ("x", 400),
    ],
)
def test_microversion_negotiation(app, requested, status):
    headers = {"OpenStack-API-Version": f"placement {requested}"}
    answer = app.get("/placement/", headers=headers, status=status)
    assert answer.headers["X-Openstack-Request-Id"].startswith("req-")
