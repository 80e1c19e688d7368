# SPDX-License-Identifier: Apache-2.0
"""Hosts without instances, as an extension of placement_sched."""

from placement_sched.model.extension import Extension

EXTENSION = Extension(
    commands={"acme_free.command": {"free-hosts": "list the hosts without instances"}},
    blueprints="acme_free.routes:BLUEPRINTS",
    policy_rules="acme_free.routes:RULES",
)
