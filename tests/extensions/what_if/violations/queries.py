# SPDX-License-Identifier: Apache-2.0
"""Computation of violations over HTTP."""

from placement_sched.extensions.what_if.violations.task import VIOLATION_THREAD
from tests.support.concurrency import join_threads

VIOLATIONS_PATH = "/scheduler/v1/violations"


def compute_violations(app):
    """Compute the violations in the background, and wait for the result."""
    response = app.post_json(VIOLATIONS_PATH, {}, status=202).json
    join_threads(VIOLATION_THREAD)
    return response
