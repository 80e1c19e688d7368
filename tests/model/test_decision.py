# SPDX-License-Identifier: Apache-2.0
"""Limits of a chosen host as JSON."""

import json

import orjson
import pytest

from placement_sched.model.decision import Selection


class UnserializableObject:
    def __str__(self):
        return "odd"


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (4.0, 4.0),
        (None, None),
        ({"cells": [1]}, {"cells": [1]}),
        ({7}, "{7}"),
        (UnserializableObject(), "odd"),
    ],
)
def test_limit_of_a_selection_is_json_or_text(limit, text):
    chosen = Selection(
        service_host="cn1",
        nodename="cn1",
        compute_node_uuid="uuid",
        cell_uuid=None,
        availability_zone="nova",
        weight=1.0,
        allocation_request=None,
        limits={"vcpu": limit},
    )
    assert json.loads(orjson.dumps(chosen.as_json()))["limits"] == {"vcpu": text}
