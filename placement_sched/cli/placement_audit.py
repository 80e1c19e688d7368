"""``placement audit``: allocations of instances that are no more, and hosts under two policies."""

import argparse
import sys
from collections.abc import Iterator
from enum import IntEnum

from placement_sched.cli.arguments import Commands, add_command, add_format, set_wrong_input
from placement_sched.cli.database import open_database, refuse_absent_file
from placement_sched.cli.terminal import print_json, progressing
from placement_sched.model import shape
from placement_sched.model.clock import utcnow
from placement_sched.operations.audit import Audit, Auditor
from placement_sched.scheduler.loading import read_settings
from placement_sched.scheduler.policies.registry import policies_for


class Code(IntEnum):
    """The exit status, as nova-manage's; that of policies, of which nova has none, is ours."""

    CLEAN = 0
    UNEXPECTED = 1
    FOUND = 3
    DELETED = 4
    POLICIES = 5
    WRONG_INPUT = 127


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "audit",
        summary="find allocations whose consumer is no recorded instance, and delete them if asked",
        epilog=(
            "exit status, as nova-manage's:\n"
            "  0    no orphaned allocations were found\n"
            "  1    an unexpected error occurred\n"
            "  3    orphaned allocations were found\n"
            "  4    all orphaned allocations that were found have been deleted\n"
            "  5    an aggregate names a policy that is not there, or a host is under several;\n"
            "       orphaned allocations are told, and deleted, all the same\n"
            "  127  the input is wrong"
        ),
    )
    parser.add_argument("--delete", action="store_true", help="delete what is found")
    parser.add_argument(
        "--resource_provider",
        "--resource-provider",
        metavar="UUID",
        help="look at this provider alone (default: at every compute node's)",
    )
    parser.add_argument("--verbose", action="store_true", help="tell what was looked at, too")
    add_format(parser)
    set_wrong_input(parser, Code.WRONG_INPUT)
    parser.set_defaults(run=run, failure=Code.UNEXPECTED)


def run(arguments: argparse.Namespace) -> int:
    """Print what is orphaned, delete it if asked, and return nova-manage's code."""
    settings = read_settings(arguments.config_file)
    given = arguments.resource_provider
    uuid = None if given is None else shape.read(shape.uuid, given, "--resource_provider")
    with open_database(settings) as database, progressing("deleting") as told:
        refuse_absent_file(database)
        options = settings.placement
        auditor = Auditor(
            database=database,
            clock=utcnow,
            nobody=(options.incomplete_consumer_project_id, options.incomplete_consumer_user_id),
            provider_uuid=uuid,
            # Who asks for one provider asks for what is held there.
            policies=policies_for(settings) if uuid is None else None,
        )
        audit = auditor.find()
        if arguments.delete:
            audit = auditor.delete(audit, told)
    code = _code(audit, delete=arguments.delete)
    if arguments.format == "json":
        print_json(_document(audit, code))
    else:
        sys.stdout.writelines(f"{line}\n" for line in _lines(audit, arguments, uuid))
    return code


def _code(audit: Audit, *, delete: bool) -> Code:
    if audit.policy_faults:
        return Code.POLICIES
    if not audit.orphaned:
        return Code.CLEAN
    return Code.DELETED if delete else Code.FOUND


def _document(audit: Audit, code: Code) -> dict[str, object]:
    told = {"policies": list(audit.policy_faults)} if audit.policy_faults else {}
    return {
        "code": int(code),
        "orphaned": [
            {
                "consumer": one.consumer,
                "resource_provider": one.provider_uuid,
                "resource_provider_name": one.provider_name,
                "resources": one.resources,
            }
            for one in audit.orphaned
        ],
        "consumers": len(audit.consumers),
        "deleted": audit.deleted,
        **told,
    }


def _lines(audit: Audit, arguments: argparse.Namespace, uuid: str | None) -> Iterator[str]:
    if arguments.verbose:
        yield f"looked at {'every compute node' if uuid is None else f'resource provider {uuid}'}"
    yield from audit.policy_faults
    for one in audit.orphaned:
        held = ", ".join(f"{amount} {name}" for name, amount in sorted(one.resources.items()))
        yield (
            f"consumer {one.consumer} is no recorded instance and holds {held} of "
            f"{one.provider_name} ({one.provider_uuid})"
        )
    if not audit.orphaned:
        yield "no orphaned allocations"
        return
    count = len(audit.consumers)
    found = f"orphaned: the allocations of {count} consumer{'s' * (count != 1)}"
    yield f"{found}; deleted those of {audit.deleted}" if arguments.delete else found
