# SPDX-License-Identifier: Apache-2.0
"""Invalid requests for decisions are rejected with the path of the error."""

import pytest

from tests.api.scheduler.test_decisions import DECISIONS, post_selection
from tests.api.scheduler.test_decisions import cloud as cloud  # noqa: PLC0414 - a fixture
from tests.support.scheduling import instance


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("outcome=maybe", "outcome"),
        ("kind=Select", "kind"),
        ("kind=", "kind"),
        ("flavor=", "flavor"),
        ("policy=", "policy"),
        ("instance=cn1", "instance"),
        ("since=yesterday", "since"),
        ("limit=0", "limit"),
        ("marker=x", "marker"),
        ("nonsense=1", "nonsense"),
        ("host=", "host"),
        ("request_id=", "request_id"),
        ("global_request_id=", "global_request_id"),
    ],
)
def test_invalid_parameter_is_400_with_its_name(app, query, place):
    (error,) = app.get(f"{DECISIONS}?{query}", status=400).json["errors"]
    assert place in error["detail"]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"settings": "tomorrow"}, "$.settings"),
        ({"max_rejected": -1}, "$.max_rejected"),
        ({"hosts": []}, "hosts"),
    ],
)
def test_invalid_replay_body_is_400_with_the_path(cloud, body, place):
    uuid = post_selection(cloud, instance(1), claim=False)["decision"]
    (error,) = cloud.post_json(f"{DECISIONS}/{uuid}/replay", body, status=400).json["errors"]
    assert place in error["detail"]
