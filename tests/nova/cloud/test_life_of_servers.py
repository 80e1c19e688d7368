# SPDX-License-Identifier: Apache-2.0
"""Servers of a real nova on our placement, first with nova-scheduler and then with ours."""

import pytest

from tests.nova.cloud.cloud import running_cloud
from tests.nova.cloud.life import STEPS, lived
from tests.nova.cloud.operating import operator_of

pytestmark = pytest.mark.system


@pytest.mark.timeout(1800)  # a minute or two by itself, with nine programs of nova and ours
def test_servers_live_the_same_life_under_nova_scheduler_and_under_ours(tmp_path):
    outcomes = {}
    with running_cloud(tmp_path, "mysql") as cloud, operator_of(cloud) as operator:
        operator.prepare()
        for scheduler in (cloud.nova_scheduler, cloud.our_scheduler):
            cloud.start_scheduler(scheduler)
            outcomes[scheduler.name] = dict(lived(operator))
            scheduler.stop()
    theirs, ours = outcomes.values()
    failed = [text for text in (*theirs.values(), *ours.values()) if "FAILED" in str(text)]
    assert not failed, "\n".join(failed)
    assert theirs == ours
    assert list(ours) == [step.__name__ for step in STEPS]
