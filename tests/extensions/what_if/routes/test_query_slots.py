# SPDX-License-Identifier: Apache-2.0
"""The number of concurrent queries about the whole cloud."""

import pytest

from tests.support.scheduling import make_spec
from tests.support.simulations import check_query_slots
from tests.support.simulations import cloud as cloud  # noqa: PLC0414 - a fixture


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("capacity", {"request_spec": make_spec()}),
        ("plan", {"changes": [{"drain": ["cn1"]}]}),
        ("rebalance", {"goal": "pack"}),
    ],
)
def test_number_of_concurrent_whole_cloud_queries_is_limited(cloud, route, body):
    check_query_slots(cloud, f"/scheduler/v1/{route}", body)
