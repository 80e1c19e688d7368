"""``placement heal_allocations``: create the missing allocations of recorded instances."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from enum import IntEnum

from placement_sched.cli import arguments as shared
from placement_sched.cli.database import configured
from placement_sched.cli.terminal import print_json, print_result, progressing
from placement_sched.errors import Invalid
from placement_sched.model.clock import utcnow
from placement_sched.operations.repair import (
    BATCH,
    Healer,
    Healing,
    HealOutcome,
    HealRequest,
    may_be_outdated,
)
from placement_sched.schemas import formats


class HealCode(IntEnum):
    """The exit status: nova-manage's, but its 5 to 8 for neutron's ports, and 9 of ours."""

    HEALED = 0
    MORE = 1
    NO_NODE = 2
    FAILED = 3
    NOTHING = 4
    OUTDATED = 9
    WRONG_INPUT = 127
    UNEXPECTED = 255


_FAILURES = {HealOutcome.NO_NODE: HealCode.NO_NODE, HealOutcome.FAILED: HealCode.FAILED}


def register(group: shared.Commands) -> None:
    """Add the command."""
    parser = shared.add_command(
        group,
        "heal_allocations",
        "create the missing allocations of recorded instances from their flavors",
        run,
        epilog=(
            "exit status, as nova-manage's:\n"
            "  0    allocations were created\n"
            "  1    --max-count was reached, and there are more instances to be healed\n"
            "  2    the compute node of an instance was not found\n"
            "  3    the allocations of an instance could not be created\n"
            "  4    no failure and no allocations were created (--dry-run never creates any)\n"
            "  5-8  never used: nova-manage's statuses for ports of neutron\n"
            "  9    rejected: nova may have deleted recorded instances\n"
            "  127  wrong input\n"
            "  255  an unexpected error occurred"
        ),
        failure=HealCode.UNEXPECTED,
        wrong_input=HealCode.WRONG_INPUT,
    )
    count_help = f"heal at most N instances (default: all, in batches of {BATCH})"
    parser.add_argument("--max-count", metavar="N", help=count_help)
    parser.add_argument("--verbose", action="store_true", help="report every instance")
    parser.add_argument("--dry-run", action="store_true", help="only report what would be done")
    parser.add_argument("--instance", metavar="UUID", help="heal only this instance")
    parser.add_argument("--cell", metavar="UUID", help="heal instances on nodes of this cell")
    force_help = "with --instance: recreate its allocations even if it has some"
    parser.add_argument("--force", action="store_true", help=force_help)
    shared.add_all_recorded(parser)
    ports_help = "accepted without effect: allocations of ports are never healed"
    parser.add_argument("--skip-port-allocations", action="store_true", help=ports_help)
    shared.add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Heal, print the result for each instance, and return nova-manage's code."""
    wanted = _wanted(arguments)
    vouched = arguments.instances_are_all_recorded or wanted.instance is not None
    found: list[Healing] = []
    with configured(arguments, there=True) as (settings, database):
        if not (vouched or wanted.dry_run) and may_be_outdated(database):
            sys.stderr.write(
                "placement-sched: nothing was healed: OpenStack placement made this database, so "
                "an instance without allocations may have been deleted by nova since it was "
                "recorded here. Use --dry-run, heal one with --instance, or, if every recorded "
                f"instance exists, run the command again with {shared.ALL_RECORDED}\n"
            )
            if arguments.format == "json":
                print_json(_document([], HealCode.OUTDATED))
            return HealCode.OUTDATED
        healer = Healer(
            database=database, clock=utcnow, no_owner=settings.unknown_owner, wanted=wanted
        )
        with progressing("healing") as progress:
            total = healer.to_look_at()
            for one in healer.heal():
                found.append(one)
                progress(len(found), total)
        code = _code(found, healer)
    lines = _lines(found, verbose=arguments.verbose, dry_run=wanted.dry_run)
    print_result(arguments, _document(found, code), lines)
    return code


def _wanted(arguments: argparse.Namespace) -> HealRequest:
    """Return what is wanted; raises :class:`Invalid` for options that do not go together."""
    if arguments.instance is not None and arguments.cell is not None:
        raise Invalid("--instance and --cell exclude each other")
    if arguments.force and arguments.instance is None:
        raise Invalid("--force needs --instance")
    most = None if arguments.max_count is None else _count(arguments.max_count)
    return HealRequest(
        instance=_uuid(arguments.instance, "--instance"),
        cell_uuid=_uuid(arguments.cell, "--cell"),
        most=most if arguments.instance is None else None,
        force=arguments.force,
        dry_run=arguments.dry_run,
    )


def _uuid(given: str | None, option: str) -> str | None:
    return None if given is None else formats.read(formats.uuid, given, option)


def _count(given: str) -> int:
    if not (given.isascii() and given.isdigit() and len(given) < 10 and int(given)):
        raise Invalid(f"--max-count: {given!r} is not a whole number of 1 or more")
    return int(given)


def _code(found: list[Healing], healer: Healer) -> HealCode:
    for one in found:
        if one.outcome in _FAILURES:
            return _FAILURES[one.outcome]
    healed = sum(one.done for one in found)
    if healer.wanted.dry_run or not healed:
        return HealCode.NOTHING
    if healed == healer.wanted.most and healer.more(found[-1].instance):
        return HealCode.MORE
    return HealCode.HEALED


def _document(found: Sequence[Healing], code: HealCode) -> dict[str, object]:
    return {
        "code": int(code),
        "instances": [
            {
                "uuid": one.instance,
                "outcome": one.outcome.value,
                "allocations": one.allocations,
                "reason": one.reason,
            }
            for one in found
        ],
    }


def _lines(found: Sequence[Healing], *, verbose: bool, dry_run: bool) -> Iterator[str]:
    would = "would be " * dry_run
    for one in found:
        if one.allocations is not None:
            held = "; ".join(
                f"{', '.join(f'{amount} {name}' for name, amount in sorted(of.items()))} of {uuid}"
                for uuid, of in sorted(one.allocations.items())
            )
            yield f"instance {one.instance}: {would}{one.outcome.value}: {held}"
        elif verbose or one.outcome is not HealOutcome.SKIPPED:
            yield f"instance {one.instance}: {one.outcome.value}: {one.reason}"
    failed, healed = sum(one.outcome in _FAILURES for one in found), sum(one.done for one in found)
    yield f"{healed} instances {would}healed, {failed} failed"
