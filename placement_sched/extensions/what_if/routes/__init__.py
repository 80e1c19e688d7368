# SPDX-License-Identifier: Apache-2.0
"""Routes of capacity, failover capacity, plans, plan runs and violations."""

from placement_sched.api.policy import ADMIN, ADMIN_OR_SERVICE, Rule
from placement_sched.extensions.what_if.routes import capacity, plan_runs, plans, violations

BLUEPRINTS = (
    *(capacity.blueprint, capacity.failover_blueprint, plans.blueprint, plan_runs.blueprint),
    violations.blueprint,
)
POLICY_RULES = (
    *(
        Rule(name, ADMIN_OR_SERVICE, description)
        for name, description in (
            ("scheduler:plan", "Plan changes of the cloud and the moves that they need."),
            ("scheduler:evacuation", "Plan the new hosts of the instances of a host that is down."),
            ("scheduler:rebalance", "Suggest moves that free capacity or balance the load."),
            ("scheduler:plan_runs:list", "List plans that were carried out."),
            ("scheduler:plan_runs:show", "Show a plan that was carried out, with its moves."),
            ("scheduler:capacity", "Count how many more instances fit."),
            ("scheduler:failover_capacity", "Show whether instances of failed hosts find places."),
            ("scheduler:violations", "List or find servers that today's rules reject."),
        )
    ),
    Rule("scheduler:plan_runs:execute", ADMIN, "Carry out a plan and record its moves."),
)
