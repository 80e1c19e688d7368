"""Scheduling policies: named sets of options, selected per request.

A policy is a section of the configuration that overrides options. Aggregates name their policy with
``sched_policy``. A request gets the policy of the aggregates that a selector finds for it, and is
confined to them. Source: "Multiple Active Scheduler Configurations/Drivers/Policies", nova
blueprint multiple-scheduler-drivers.
"""
