# SPDX-License-Identifier: Apache-2.0
"""Invalid capacity requests are rejected with the path of the error."""

from tests.support.api_clouds import cloud as cloud  # noqa: PLC0414 - a fixture
from tests.support.api_clouds import store_flavor
from tests.support.placements import get_error_detail


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
