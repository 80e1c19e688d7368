# SPDX-License-Identifier: Apache-2.0
"""Capacity, failover capacity, plans, rebalancing and violations."""

from placement_sched.model.extension import Extension

_PACKAGE = "placement_sched.extensions.what_if"

EXTENSION = Extension(
    commands={
        f"{_PACKAGE}.cli.plan": {
            "plan": "show the effect of changes to the cloud and the moves of instances",
            "plan-run": "list plans that were carried out, or show a plan",
            "rebalance": (
                "propose moves that free capacity, empty hosts, balance the load or end violations"
            ),
        },
        f"{_PACKAGE}.cli.capacity": {"capacity": "count the instances of a flavor that still fit"},
        f"{_PACKAGE}.cli.violation": {"violation": "list servers that today's rules reject"},
    },
    subcommands={"host": f"{_PACKAGE}.cli.host_drain"},
    options=f"{_PACKAGE}.options:OPTIONS",
    server_options=f"{_PACKAGE}.options:SERVER_OPTIONS",
    blueprints=f"{_PACKAGE}.routes:BLUEPRINTS",
    policy_rules=f"{_PACKAGE}.routes:POLICY_RULES",
    periodic_tasks=f"{_PACKAGE}.failover.task:build_tasks",
    old_rows=f"{_PACKAGE}.store:purge",
    gauges=f"{_PACKAGE}.gauges:build_gauges",
)
