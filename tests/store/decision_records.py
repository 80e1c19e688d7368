# SPDX-License-Identifier: Apache-2.0
"""Decisions of the scheduler."""

from placement_sched.model.decision import Decision, PlacedInstance
from tests.support.scheduling import make_uuid


def build_decision(moment, number=0):
    return Decision(
        uuid=make_uuid(1000 + number),
        outcome="selected",
        project_id=None,
        digest="",
        request={},
        result={},
        instances=(PlacedInstance(make_uuid(number), "cn1"),),
        created_at=moment,
    )
