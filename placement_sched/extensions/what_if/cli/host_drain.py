# SPDX-License-Identifier: Apache-2.0
"""``host drain``, ``host undrain`` and ``host evacuate``: empty a host."""

import argparse
import sys
from operator import itemgetter

from placement_sched.cli.arguments import Commands, WrongArguments, add_command
from placement_sched.cli.output import Column, Output, is_report, print_output, show_waiting
from placement_sched.cli.scheduler.request_options import replace_json_paths
from placement_sched.cli.scheduler.scheduler_client import (
    SchedulerClient,
    add_common_arguments,
    open_scheduler,
)
from placement_sched.errors import Error, NotFound
from placement_sched.extensions.what_if.cli.execution import (
    add_execution_arguments,
    add_nova_url,
    check_execution_arguments,
    execute_plan,
    open_nova,
    set_evacuation_version,
)
from placement_sched.extensions.what_if.cli.plan_output import print_line, print_plan
from placement_sched.extensions.what_if.evacuation import HOST_IS_UP
from placement_sched.extensions.what_if.nova_api import ComputeService, Nova
from placement_sched.model.document import Json
from placement_sched.model.names import shorten_names, suggest_name
from placement_sched.model.plan_run import DRAIN, EVACUATION

#: Default reason of a drained host.
_DRAINED = "drained by placement-sched"
_UP_IN_NOVA = (
    "host {host} is up in nova, which evacuates only hosts that are down. If it is dead, force it "
    "down: openstack compute service set --down {host} nova-compute"
)


def register(group: Commands) -> None:
    """Add the commands to the group ``host``."""
    summary = "show the moves that empty a host for maintenance, or disable and empty it"
    parser = add_command(group, "drain", summary, run_drain)
    parser.add_examples("cn1", "cn1 --execute --reason 'replacing a DIMM'")
    parser.add_argument("host", metavar="HOST", type=_read_host, help="name of the host")
    parser.add_argument(
        "--reason",
        metavar="TEXT",
        help=f"reason of the disabled compute service (default: {_DRAINED!r}, or its reason if it "
        "is already disabled)",
    )
    add_execution_arguments(parser, resumes=False)
    add_common_arguments(parser, reads_cloud=True)
    summary = "enable the compute service of a drained host"
    parser = add_command(group, "undrain", summary, run_undrain).add_examples("cn1")
    parser.add_argument("host", metavar="HOST", type=_read_host, help="name of the host")
    add_nova_url(parser.add_argument_group("execution"))
    add_common_arguments(parser)
    summary = "show the new hosts of the instances of a host that is down, or evacuate it"
    parser = add_command(group, "evacuate", summary, run_evacuate)
    parser.add_examples("cn1", "cn1 --execute --fenced")
    parser.add_argument("host", metavar="HOST", type=_read_host, help="name of the host")
    add_execution_arguments(parser, resumes=False, evacuates=True)
    add_common_arguments(parser, reads_cloud=True)


def _read_host(text: str) -> str:
    if text.strip():
        return text
    raise argparse.ArgumentTypeError(f"expected the name of a host, not {text!r}")


def run_drain(arguments: argparse.Namespace) -> int:
    """Print the moves that drain a host or, with ``--execute``, drain it."""
    body = {"changes": [{"drain": [arguments.host]}], "flavors": []}

    def plan_moves(scheduler: SchedulerClient) -> Json:
        with show_waiting("planning"), replace_json_paths(lambda *_: "HOST"):
            return scheduler.post("plan", body=body)

    check_execution_arguments(arguments)
    with open_scheduler(arguments) as scheduler:
        if not arguments.execute:
            print_plan(arguments, plan_moves(scheduler), scheduler.map_aggregate_names())
            if is_report(arguments):
                print_line("nothing was changed: --execute disables the host and moves instances")
            return 0
        with open_nova(arguments) as nova:
            plan_moves(scheduler)  # an invalid host is rejected before anything is disabled
            _disable(nova, arguments)
            plan = plan_moves(scheduler)  # with instances that arrived before the disabling
            if not plan["moves"]:
                print_plan(arguments, plan, scheduler.map_aggregate_names())
                status = 1 if plan["stuck"] else 0
            else:
                status = execute_plan(arguments, scheduler, nova, DRAIN, body, plan)
            return status or _report_remaining_instances(nova, arguments.host)


def _disable(nova: Nova, arguments: argparse.Namespace) -> None:
    service = _find_service(nova, arguments.host)
    reason = arguments.reason or service.disabled_reason or _DRAINED
    if not service.is_disabled or reason != service.disabled_reason:
        nova.disable(service, reason)
    if is_report(arguments):
        print_line(f"host {arguments.host} is disabled: {reason}")


def _report_remaining_instances(nova: Nova, host: str) -> int:
    """Report instances that nova still has on a host, and return the status."""
    remaining = [server.uuid for server in nova.list_servers_on(host)]
    if not remaining:
        return 0
    number = "1 instance remains" if len(remaining) == 1 else f"{len(remaining)} instances remain"
    sys.stderr.write(f"placement-sched: {number} on {host} in nova: {shorten_names(remaining)}\n")
    return 1


def run_undrain(arguments: argparse.Namespace) -> int:
    """Enable the compute service of a host, and print why it was disabled."""
    with open_nova(arguments) as nova:
        service = _find_service(nova, arguments.host)
        if service.is_disabled:
            nova.enable(service)
    row = {"host": arguments.host, "was_disabled": service.is_disabled}
    row["disabled_reason"] = service.disabled_reason if service.is_disabled else None
    columns = (
        Column("Host", itemgetter("host")),
        Column("State", lambda _: "enabled"),
        Column("Former reason", itemgetter("disabled_reason")),
    )
    print_output(arguments, Output(row, columns, [row], is_show=True))
    return 0


def _find_service(nova: Nova, host: str) -> ComputeService:
    service = nova.find_compute_service(host)
    if service is None:
        suggestion = suggest_name(
            "host", host, {compute_service.host for compute_service in nova.list_compute_services()}
        )
        raise NotFound(f"nova has no compute service on host {host!r}{suggestion}")
    return service


def run_evacuate(arguments: argparse.Namespace) -> int:
    """Print new hosts for a host's instances or, with ``--execute``, evacuate."""
    body = {"host": arguments.host}
    check_execution_arguments(arguments)
    if arguments.execute and not arguments.fenced:
        raise WrongArguments(
            f"--execute needs --fenced: switch {arguments.host} off, or cut it off from storage "
            "and networks, since a disk with two writers is lost"
        )
    with open_scheduler(arguments) as scheduler:
        plan = _plan_evacuation(scheduler, body)
        if not arguments.execute:
            print_plan(arguments, plan, scheduler.map_aggregate_names())
            if is_report(arguments):
                print_line("nothing was changed: --execute --fenced evacuates the instances")
            return 0
        request = {**body, "fenced": True, "running": arguments.running}
        with open_nova(arguments) as client:
            nova = set_evacuation_version(client, request)
            if _find_service(nova, arguments.host).is_up:
                raise WrongArguments(_UP_IN_NOVA.format(host=arguments.host))
            _separate_instances_with_shares(nova, plan)
            if not plan["moves"]:
                print_plan(arguments, plan, scheduler.map_aggregate_names())
                status = 1 if plan["stuck"] else 0
            else:
                if is_report(arguments) and not arguments.running:
                    print_line("active instances arrive stopped: start them afterwards")
                status = execute_plan(arguments, scheduler, nova, EVACUATION, request, plan)
            return status or _report_remaining_instances(nova, arguments.host)


def _plan_evacuation(scheduler: SchedulerClient, body: Json) -> Json:
    try:
        with show_waiting("planning"), replace_json_paths(lambda *_: "HOST"):
            return scheduler.post("evacuation", body=body)
    except Error as failure:
        if failure.code == HOST_IS_UP:
            raise WrongArguments(failure.detail) from None
        raise


def _separate_instances_with_shares(nova: Nova, plan: Json) -> None:
    """Change moves of instances with file shares into stuck instances."""
    shared = set(nova.list_with_shares(move["instance"] for move in plan["moves"]))
    reason = "it has file shares, which nova does not evacuate: wait until its host is back"
    for move in plan["moves"]:
        if move["instance"] in shared:
            stuck = {"instance": move["instance"], "host": move["from"], "reason": reason}
            plan["stuck"].append({**stuck, "name": move["name"]})
    plan["moves"] = [move for move in plan["moves"] if move["instance"] not in shared]
