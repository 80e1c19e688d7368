# SPDX-License-Identifier: Apache-2.0
"""Servers of a real nova on our placement, first with nova-scheduler and then with ours."""

import pytest

from tests.nova.cloud.cloud import running_cloud
from tests.nova.cloud.life import STEPS, run_steps
from tests.nova.cloud.operating import running_operator

pytestmark = pytest.mark.system


@pytest.mark.timeout(1800)  # a minute or two by itself, with nine programs of nova and ours
def test_server_operations_have_equal_outcomes_under_both_schedulers(tmp_path):
    outcomes = {}
    with running_cloud(tmp_path, "mysql") as cloud, running_operator(cloud) as operator:
        operator.prepare()
        for scheduler in (cloud.nova_scheduler, cloud.our_scheduler):
            cloud.start_scheduler(scheduler)
            outcomes[scheduler.name] = dict(run_steps(operator))
            scheduler.stop()
    theirs, ours = outcomes.values()
    failed = [text for text in (*theirs.values(), *ours.values()) if "FAILED" in str(text)]
    assert not failed, "\n".join(failed)
    assert theirs == ours
    assert list(ours) == [step.__name__ for step in STEPS]
