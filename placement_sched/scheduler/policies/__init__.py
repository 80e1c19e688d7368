"""Several ways of scheduling in one service: named policies, one of which each request is under.

A policy is a section of the configuration that overrides options. Aggregates name theirs by
``sched_policy``; a request comes under the policy of the aggregates that it is meant for, and is
confined to them. Source: "Multiple Active Scheduler Configurations/Drivers/Policies", nova
blueprint multiple-scheduler-drivers.

    sections (of the configuration) -> registry (which policies there are, which is the request's)
"""
