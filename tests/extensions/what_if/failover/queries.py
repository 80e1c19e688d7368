# SPDX-License-Identifier: Apache-2.0
"""Queries of the failover capacity."""

FAILOVER_CAPACITY_PATH = "/scheduler/v1/failover_capacity"


def compute_failover(app, status=200, **body):
    """Compute without further instances, which takes longer."""
    return app.post_json(FAILOVER_CAPACITY_PATH, {"remaining": False, **body}, status=status).json
