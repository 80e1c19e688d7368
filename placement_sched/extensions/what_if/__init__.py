# SPDX-License-Identifier: Apache-2.0
"""Capacity, failover capacity, plans and rebalancing."""

from placement_sched.model.extension import Extension

_PACKAGE = "placement_sched.extensions.what_if"

EXTENSION = Extension(
    options=f"{_PACKAGE}.options:OPTIONS",
    server_options=f"{_PACKAGE}.options:SERVER_OPTIONS",
    blueprints=f"{_PACKAGE}.routes.blueprints:BLUEPRINTS",
    policy_rules=f"{_PACKAGE}.routes.blueprints:POLICY_RULES",
    periodic_tasks=f"{_PACKAGE}.failover.task:build_tasks",
    old_rows=f"{_PACKAGE}.store:purge",
    gauges=f"{_PACKAGE}.gauges:build_gauges",
)
