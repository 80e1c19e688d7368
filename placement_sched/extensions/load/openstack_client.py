# SPDX-License-Identifier: Apache-2.0
"""Commands of this extension for ``openstack scheduler``."""

from placement_sched.cli.openstack_client import ListCommand, ReportedList, define_command

_MODULE = "placement_sched.extensions.load.load_command"

LoadCheck = define_command(
    ReportedList, _MODULE, "load check", "Show the last results of the queries of load."
)
LoadList = define_command(ListCommand, _MODULE, "load list", "List the load of hosts.")
LoadShow = define_command(
    ListCommand, _MODULE, "load show", "Show the load of a host and of its servers."
)
