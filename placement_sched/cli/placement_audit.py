"""``placement audit``: allocations of instances that are no more, and hosts under two policies."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from enum import IntEnum

from placement_sched.cli.arguments import (
    ALL_RECORDED,
    Commands,
    add_all_recorded,
    add_command,
    add_format,
    set_wrong_input,
)
from placement_sched.cli.database import open_database, refuse_absent_file
from placement_sched.cli.terminal import print_json, progressing
from placement_sched.model import shape
from placement_sched.model.clock import utcnow
from placement_sched.operations.audit import Audit, Auditor
from placement_sched.operations.known_instances import AllRecorded, Doubt, RecordedHere
from placement_sched.scheduler.loading import read_settings
from placement_sched.scheduler.policies.registry import policies_for


class Code(IntEnum):
    """The exit status, as nova-manage's; 5 and 6, of which nova has none, are ours."""

    CLEAN = 0
    UNEXPECTED = 1
    FOUND = 3
    DELETED = 4
    POLICIES = 5
    NOT_JUDGED = 6
    WRONG_INPUT = 127


#: Why consumers are not judged, in words.
_WHY: Mapping[Doubt, str] = {
    Doubt.ADOPTED: (
        "OpenStack placement made this database, so they may be instances that nova knows and "
        "that were never recorded here"
    ),
    Doubt.NOTHING_RECORDED: "no instance at all is recorded in this database",
    Doubt.NO_TYPE: (
        "they have no consumer type, as those that nova makes, and no instance is recorded on "
        "these hosts, so they may be instances or migrations of nova"
    ),
    Doubt.NOT_REPORTED: "these providers may be of a host that does not report to this service",
    Doubt.MORE_REPORTED: "these hosts report more instances than are recorded on them",
}
#: So many hosts are named in a line.
_NAMED = 5


def register(group: Commands) -> None:
    """Add the command."""
    parser = add_command(
        group,
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
            "  6    consumers could not be judged, because the instances of their hosts are not\n"
            "       known here; what they hold was not deleted\n"
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
    add_all_recorded(parser)
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
            known=AllRecorded() if arguments.instances_are_all_recorded else RecordedHere(),
        )
        audit = auditor.find()
        if arguments.delete:
            audit = auditor.delete(audit, told)
    code = _code(audit, delete=arguments.delete)
    if arguments.format == "json":
        print_json(_document(audit, code))
    else:
        sys.stdout.writelines(f"{line}\n" for line in _lines(audit, arguments, uuid))
    if arguments.delete and audit.doubtful:
        sys.stdout.flush()
        sys.stderr.write(
            f"placement-sched: not deleted: the allocations of {_consumers(len(audit.doubtful))}, "
            "which may be instances that are not recorded here. nova-manage placement audit "
            "judges nova's instances; if every instance of this cloud is recorded here, run the "
            f"command again with {ALL_RECORDED}\n"
        )
    return code


def _code(audit: Audit, *, delete: bool) -> Code:
    if audit.doubtful and delete:
        return Code.NOT_JUDGED
    if audit.policy_faults:
        return Code.POLICIES
    if audit.orphaned:
        return Code.DELETED if delete else Code.FOUND
    return Code.NOT_JUDGED if audit.doubtful else Code.CLEAN


def _document(audit: Audit, code: Code) -> dict[str, object]:
    told: dict[str, object] = {}
    if audit.policy_faults:
        told["policies"] = list(audit.policy_faults)
    if audit.doubtful:
        told["not_judged"] = [
            {"consumer": one.consumer, "reason": one.doubt.value, "about": list(one.about)}
            for one in audit.doubtful
        ]
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
    yield from _not_judged(audit, verbose=arguments.verbose)
    if not audit.orphaned and not audit.doubtful:
        yield "no orphaned allocations"
    elif audit.orphaned:
        found = f"orphaned: the allocations of {_consumers(len(audit.consumers))}"
        yield f"{found}; deleted those of {audit.deleted}" if arguments.delete else found


def _not_judged(audit: Audit, *, verbose: bool) -> Iterator[str]:
    """Yield which consumers could not be judged: each one if asked, else how many and why."""
    for doubt, why in _WHY.items():
        some = [one for one in audit.doubtful if one.doubt is doubt]
        if not some:
            continue
        if verbose:
            for one in some:
                yield f"consumer {one.consumer} cannot be judged ({', '.join(one.about)})"
        about = sorted({name for one in some for name in one.about})
        shown = ", ".join(about[:_NAMED])
        more = f" and {len(about) - _NAMED} more" if len(about) > _NAMED else ""
        yield f"not judged: {_consumers(len(some))} of {shown}{more}: {why}"


def _consumers(number: int) -> str:
    return f"{number} consumer{'s' * (number != 1)}"
