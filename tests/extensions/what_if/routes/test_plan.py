# SPDX-License-Identifier: Apache-2.0
"""Invalid requests for plans and moves are rejected with the path of the error."""

import pytest

from tests.extensions.what_if.plan_clouds import build_request_with_memory, make_filled_hosts
from tests.extensions.what_if.plan_clouds import cloud as cloud  # noqa: PLC0414 - a fixture


def test_invalid_plan_is_400_with_the_path_of_the_error(cloud):
    for body, words in [
        ({}, "'changes' is a required property"),
        ({"changes": [], "flavor": "m1"}, "'flavor' was unexpected"),
        ({"changes": [], "overrides": {"filter_scheduler.nope": 1}}, "there is no option"),
        ({"changes": [], "overrides": ["a"]}, "(at $.overrides)"),
        ({"changes": [{"drain": ["cn4"]}]}, "(at $.changes[0].drain[0])"),
        ({"changes": [{"remove": ["cn1", "cx"]}]}, "(at $.changes[0].remove[1])"),
        ({"changes": [{"remove": ["cn1"]}, {"drain": ["cn1"]}]}, "(at $.changes[1].drain[0])"),
    ]:
        response = cloud.post_json("/scheduler/v1/plan", body, status=400)
        assert words in response.json["errors"][0]["detail"], words


@pytest.mark.slow
def test_invalid_advice_request_is_400_with_the_path_of_the_error(app):
    make_filled_hosts(app, {"cn1": 8})
    for body, words in [
        ({"goal": "fti"}, "'fti' is not one of"),
        ({"goal": "fit"}, "the goal fit requires a request_spec (at $.goal)"),
        (
            {"goal": "pack", "request_spec": build_request_with_memory(1)},
            "the goal pack does not allow a request_spec",
        ),
        ({"goal": "pack", "moves": 0}, "(at $.moves)"),
        (
            {
                "goal": "fit",
                "request_spec": {**build_request_with_memory(1), "availability_zone": "nowa"},
            },
            "Did you mean 'nova'? (at $.request_spec.availability_zone)",
        ),
    ]:
        response = app.post_json("/scheduler/v1/rebalance", body, status=400)
        assert words in response.json["errors"][0]["detail"], words
