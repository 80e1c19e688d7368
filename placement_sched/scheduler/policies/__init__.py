# SPDX-License-Identifier: Apache-2.0
"""Scheduling policies: named sets of options, selected per request.

A policy is a section of the configuration that overrides options. Aggregates name their policy with
``sched_policy``. A selector finds the aggregates that match a request. The request gets the policy
of these aggregates, and only their hosts. Source: "Multiple Active Scheduler
Configurations/Drivers/Policies", nova blueprint multiple-scheduler-drivers.
"""
