"""``placement audit``: allocations of instances that are no more, and hosts under two policies.

With ``--invariants`` it verifies instead what must always hold (``invariants``).
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from enum import IntEnum

from placement_sched.cli import arguments as shared
from placement_sched.cli.arguments import ALL_RECORDED
from placement_sched.cli.database import configured
from placement_sched.cli.terminal import print_result, progressing, waiting
from placement_sched.errors import Invalid
from placement_sched.model.checks import Verified, Violation
from placement_sched.model.clock import utcnow
from placement_sched.model.names import in_short
from placement_sched.operations import repair
from placement_sched.operations.invariants import MOST, verify
from placement_sched.operations.repair import Audit, Auditor, Doubt, Doubtful
from placement_sched.scheduler.policies.registry import policies_for
from placement_sched.schemas import formats


def verified(arguments: argparse.Namespace) -> bool:
    """Print what is violated in the configured database; return whether all invariants hold.

    Raises :class:`Invalid` for options of an audit that have no meaning here.
    """
    options = {
        "--delete": arguments.delete,
        "--resource_provider": arguments.resource_provider is not None,
        "--consumer": bool(arguments.consumer),
        ALL_RECORDED: arguments.instances_are_all_recorded,
    }
    for option, given in options.items():
        if given:
            raise Invalid(f"--invariants and {option} exclude each other")
    with configured(arguments, there=True) as (_, database), waiting("verifying"):
        found = verify(database)
    print_result(
        arguments, _invariants_document(found), _invariants_lines(found, verbose=arguments.verbose)
    )
    return not found.violations


def _invariants_document(found: Verified) -> dict[str, object]:
    return {
        "code": 7 if found.violations else 0,
        "checked": dict(found.checked),
        "violations": _listed(found.violations),
        "allowed": _listed(found.allowed),
        "more_of": sorted(found.cut),
    }


def _listed(some: Sequence[Violation]) -> list[dict[str, str]]:
    return [{"invariant": one.invariant.value, "detail": one.detail} for one in some]


def _invariants_lines(found: Verified, *, verbose: bool) -> Iterator[str]:
    if verbose:
        counts = (f"{number} {name}" for name, number in found.checked.items())
        yield f"checked in one snapshot: {', '.join(counts)}"
    for one in found.violations:
        yield f"{one.invariant}: {one.detail}"
    for one in found.allowed:
        yield f"allowed: {one.invariant}: {one.detail}"
    for invariant in sorted(found.cut):
        yield f"{invariant}: there are more; the first {MOST} are named"
    if not found.violations:
        yield "all invariants hold"
        return
    number = len(found.violations)
    plus = "+" * bool(found.cut)
    kinds = len({one.invariant for one in found.violations})
    yield f"{number}{plus} violation{'s'[: number != 1]} of {kinds} invariant{'s'[: kinds != 1]}"


class AuditCode(IntEnum):
    """The exit status, as nova-manage's; nova does not have 5 to 7."""

    CLEAN = 0
    UNEXPECTED = 1
    FOUND = 3
    DELETED = 4
    POLICIES = 5
    NOT_JUDGED = 6
    VIOLATED = 7
    WRONG_INPUT = 127


#: Why consumers are not judged, in words.
_WHY = {
    Doubt.ADOPTED: (
        "OpenStack placement made this database, so they may be instances that nova knows and "
        "that were never recorded here"
    ),
    Doubt.NOTHING_RECORDED: "no instance is recorded in this database",
    Doubt.NO_TYPE: (
        "they have no consumer type, like the consumers of nova, so they may be nova's instances "
        "or migrations, for example a resize that is not confirmed yet"
    ),
    Doubt.NOT_REPORTED: "these providers may be of a host that does not report to this service",
    Doubt.MORE_REPORTED: "these hosts report more instances than are recorded on them",
}


def register(group: shared.Commands) -> None:
    """Add the command."""
    parser = shared.add_command(
        group,
        "audit",
        "find allocations of consumers that are not recorded instances",
        run,
        epilog=(
            "exit status, as nova-manage's:\n"
            "  0    no orphaned allocations were found\n"
            "  1    an unexpected error occurred\n"
            "  3    orphaned allocations were found\n"
            "  4    all orphaned allocations that were found have been deleted\n"
            "  5    an aggregate names an unknown policy, or a host has several;\n"
            "       orphaned allocations are reported and deleted all the same\n"
            "  6    some consumers could not be judged, because the instances of their hosts are\n"
            "       not recorded here; their allocations were not deleted\n"
            "  7    with --invariants: an invariant is violated (0: all hold)\n"
            "  127  wrong input"
        ),
        failure=AuditCode.UNEXPECTED,
        wrong_input=AuditCode.WRONG_INPUT,
    )
    parser.add_argument("--delete", action="store_true", help="delete the orphaned allocations")
    parser.add_argument(
        "--resource_provider",
        "--resource-provider",
        metavar="UUID",
        help="check only this provider (default: the providers of all compute nodes)",
    )
    shared.add_all_recorded(parser)
    parser.add_argument(
        "--consumer",
        metavar="UUID",
        action="append",
        default=[],
        help="a consumer to treat as orphaned if it is not a recorded instance, although it "
        "could not be judged; may be repeated",
    )
    parser.add_argument(
        "--invariants",
        action="store_true",
        help="verify instead what must always hold of allocations, providers, server groups and "
        "decisions, in one snapshot; nothing is changed",
    )
    parser.add_argument("--verbose", action="store_true", help="also report what was checked")
    shared.add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the orphaned allocations, delete them if asked, and return nova-manage's code."""
    if arguments.invariants:
        return AuditCode.CLEAN if verified(arguments) else AuditCode.VIOLATED
    given = arguments.resource_provider
    uuid = None if given is None else formats.read(formats.uuid, given, "--resource_provider")
    arguments.consumer = [
        formats.read(formats.uuid, one, "--consumer") for one in arguments.consumer
    ]
    with configured(arguments, there=True) as (settings, database), progressing("deleting") as show:
        auditor = Auditor(
            database=database,
            clock=utcnow,
            no_owner=settings.unknown_owner,
            provider_uuid=uuid,
            # For one provider the question is what is held there.
            policies=policies_for(settings) if uuid is None else None,
            judge=repair.judge_all_recorded
            if arguments.instances_are_all_recorded
            else repair.judge_recorded_here,
            named=frozenset(arguments.consumer),
            down_time=settings.DEFAULT.service_down_time,
        )
        audit = auditor.find()
        if arguments.delete:
            audit = auditor.delete(audit, show)
    code = _code(audit, delete=arguments.delete)
    print_result(arguments, _document(audit, code), _lines(audit, arguments, uuid))
    if arguments.delete and audit.doubtful:
        sys.stdout.flush()
        sys.stderr.write(_hint(audit.doubtful))
    return code


def _hint(doubtful: Sequence[Doubtful]) -> str:
    hint = (
        f"placement-sched: not deleted: the allocations of {_consumers(len(doubtful))}, which may "
        "be instances or migrations that are not recorded here. nova-manage placement audit "
        "judges those of nova; to delete the allocations of a consumer all the same, name it "
        "with --consumer"
    )
    if any(one.has_type for one in doubtful):
        hint += (
            f". If every instance of this cloud is recorded here, {shared.ALL_RECORDED} judges "
            "all consumers of the type INSTANCE"
        )
    return f"{hint}\n"


def _code(audit: Audit, *, delete: bool) -> AuditCode:
    if audit.doubtful and delete:
        return AuditCode.NOT_JUDGED
    if audit.policy_faults:
        return AuditCode.POLICIES
    if audit.orphaned:
        return AuditCode.DELETED if delete else AuditCode.FOUND
    return AuditCode.NOT_JUDGED if audit.doubtful else AuditCode.CLEAN


def _document(audit: Audit, code: AuditCode) -> dict[str, object]:
    doubtful = [
        {"consumer": one.consumer, "reason": one.doubt.value, "about": one.about}
        for one in audit.doubtful
    ]
    more = {"policies": audit.policy_faults, "not_judged": doubtful}
    return {
        "code": int(code),
        "orphaned": [
            {
                "consumer": one.consumer,
                "resource_provider": one.provider_uuid,
                "resource_provider_name": one.provider_name,
                "resources": one.resources,
                **({"runs_on": one.runs_on} if one.runs_on else {}),
            }
            for one in audit.orphaned
        ],
        "consumers": len(audit.consumers),
        "deleted": audit.deleted,
        **{key: found for key, found in more.items() if found},
    }


def _lines(audit: Audit, arguments: argparse.Namespace, uuid: str | None) -> Iterator[str]:
    if arguments.verbose:
        yield f"checked {'every compute node' if uuid is None else f'resource provider {uuid}'}"
    yield from audit.policy_faults
    for one in audit.orphaned:
        held = ", ".join(f"{amount} {name}" for name, amount in sorted(one.resources.items()))
        subject = (
            f"instance {one.consumer} is on {one.runs_on} now"
            if one.runs_on
            else f"consumer {one.consumer} is not a recorded instance"
        )
        yield f"{subject} and holds {held} of {one.provider_name} ({one.provider_uuid})"
    for consumer in sorted(set(arguments.consumer) - audit.consumers):
        yield f"consumer {consumer} is a recorded instance, of another type, or has no allocations"
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
        about = in_short(sorted({name for one in some for name in one.about}))
        yield f"not judged: {_consumers(len(some))} of {about}: {why}"


def _consumers(number: int) -> str:
    return f"{number} consumer{'s' * (number != 1)}"
