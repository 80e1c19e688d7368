# SPDX-License-Identifier: Apache-2.0
"""Commands of this extension for ``openstack scheduler``."""

from placement_sched.cli.openstack_client import ReportedList, define_command

_FOLDER = "placement_sched.extensions.what_if.cli"

HostEvacuate = define_command(
    ReportedList,
    "placement_sched.cli.scheduler.hosts",
    "host evacuate",
    "Show the new hosts of the instances of a host that is down.",
)
Capacity = define_command(
    ReportedList, f"{_FOLDER}.capacity", "capacity", "Count the instances that still fit."
)
Plan = define_command(
    ReportedList, f"{_FOLDER}.plan", "plan", "Show the moves that changes of the cloud cause."
)
Rebalance = define_command(
    ReportedList, f"{_FOLDER}.plan", "rebalance", "Propose moves of instances."
)
Violation = define_command(
    ReportedList, f"{_FOLDER}.violation", "violation list", "List servers that rules reject."
)
