# SPDX-License-Identifier: Apache-2.0
"""Load of hosts and servers, from PromQL queries to a Prometheus server."""

from placement_sched.model.extension import Extension

_PACKAGE = "placement_sched.extensions.load"

EXTENSION = Extension(
    commands={f"{_PACKAGE}.load_command": {"load": "show and check the load that Prometheus has"}},
    options=f"{_PACKAGE}.options:OPTIONS",
    config_check=f"{_PACKAGE}.options:check_options",
    blueprints=f"{_PACKAGE}.routes:BLUEPRINTS",
    policy_rules=f"{_PACKAGE}.routes:POLICY_RULES",
    periodic_tasks=f"{_PACKAGE}.collection:build_tasks",
)
