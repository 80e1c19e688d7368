# SPDX-License-Identifier: Apache-2.0
"""Compute nodes of reports."""

from datetime import timedelta

from placement_sched.schemas.node_report import Defaults, parse
from tests.support.reports import NOW, build_report

HALF_MINUTE_LATER = NOW + timedelta(seconds=30)


def build_reported_node(number=1, now=NOW, **changes):
    return parse(build_report(number, **changes), Defaults(now=now)).node
