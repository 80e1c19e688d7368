# SPDX-License-Identifier: Apache-2.0
"""Request ids that a caller sends, and the form that they must have."""

import pytest

from tests.api.scheduler.test_decisions import DECISIONS, NOVAS, post_selection
from tests.api.scheduler.test_decisions import cloud as cloud  # noqa: PLC0414 - a fixture
from tests.support.scheduling import instance


@pytest.mark.parametrize(
    "header",
    ["nonsense", NOVAS[4:], NOVAS.upper(), f"{NOVAS}0", f"{NOVAS}\u00e9", f"x{NOVAS}", "req-"],
)
def test_id_of_another_form_is_ignored(cloud, header):
    post_selection(cloud, instance(1), sent=header)
    (expected,) = cloud.get(DECISIONS).json["decisions"]
    assert expected["global_request_id"] is None
    assert expected["request_id"].startswith("req-")
    assert expected["request_id"] != header
