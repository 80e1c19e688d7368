# SPDX-License-Identifier: Apache-2.0
"""Slots of requests."""

from placement_sched.candidates.request import Slot
from placement_sched.model.candidates_query import RequestGroup


def build_request_slot(suffix, *amounts):
    return Slot(group=RequestGroup(suffix=suffix), amounts=amounts)
