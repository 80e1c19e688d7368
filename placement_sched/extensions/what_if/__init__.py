# SPDX-License-Identifier: Apache-2.0
"""Capacity, failover capacity, plans and rebalancing."""

from placement_sched.model.extension import Extension

EXTENSION = Extension(
    blueprints="placement_sched.extensions.what_if.routes.blueprints:BLUEPRINTS",
    policy_rules="placement_sched.extensions.what_if.routes.blueprints:POLICY_RULES",
)
