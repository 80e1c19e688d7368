# SPDX-License-Identifier: Apache-2.0
"""The policy hint of a request, and the rule that allows it."""

import pytest

from tests.api.scheduler.policy_clouds import HINT_SELECTOR, POLICIES_CONFIG
from tests.api.scheduler.policy_clouds import make_policy_app as make_policy_app  # noqa: PLC0414
from tests.api.scheduler.policy_clouds import start_app as start_app  # noqa: PLC0414
from tests.support.scheduling import make_spec, make_uuid

pytestmark = pytest.mark.slow

POLICY_HINT_RULE = "scheduler:policies:hint"


@pytest.mark.parametrize("path", ["explain", "select_destinations"])
def test_policy_hint_is_403_without_permission(make_policy_app, tmp_path, path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(f'"{POLICY_HINT_RULE}": "!"\n')
    app = make_policy_app(
        HINT_SELECTOR, text=f"{POLICIES_CONFIG}[oslo_policy]\npolicy_file = {policy}\n"
    )
    request_spec = make_spec(make_uuid(1), scheduler_hints={"sched_policy": "low_cpu_density"})
    error = app.post_json(f"/scheduler/v1/{path}", {"request_spec": request_spec}, status=403).json
    assert POLICY_HINT_RULE in error["errors"][0]["detail"]
    without = make_spec(make_uuid(1))
    app.post_json(f"/scheduler/v1/{path}", {"request_spec": without}, status=200)
