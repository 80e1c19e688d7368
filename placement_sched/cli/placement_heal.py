"""``placement heal_allocations``: the allocations that recorded instances lack."""

import argparse
import sys
from collections.abc import Iterable
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
from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.errors import Invalid
from placement_sched.model import shape
from placement_sched.model.clock import utcnow
from placement_sched.operations.heal import BATCH, Healer, Healing, Outcome, Wanted
from placement_sched.operations.known_instances import may_be_outdated
from placement_sched.scheduler.loading import read_settings


class Code(IntEnum):
    """The exit status, as nova-manage's; its 5 to 8 are of neutron's ports, and never left with.

    9 is ours.
    """

    HEALED = 0
    MORE = 1
    NO_NODE = 2
    FAILED = 3
    NOTHING = 4
    OUTDATED = 9
    WRONG_INPUT = 127
    UNEXPECTED = 255


_FAILURES = {Outcome.NO_NODE: Code.NO_NODE, Outcome.FAILED: Code.FAILED}


def register(group: Commands) -> None:
    """Add the command."""
    parser = add_command(
        group,
        "heal_allocations",
        summary="create the allocations that recorded instances lack, as their flavors ask",
        epilog=(
            "exit status, as nova-manage's:\n"
            "  0    allocations were created\n"
            "  1    --max-count was reached, and there are more instances to be healed\n"
            "  2    the compute node of an instance was not found\n"
            "  3    the allocations of an instance could not be created\n"
            "  4    all went well and no allocations were created (--dry-run never creates any)\n"
            "  5-8  never: nova-manage's for neutron's ports\n"
            "  9    refused: recorded instances may be gone, as nova may have deleted them\n"
            "  127  the input is wrong\n"
            "  255  an unexpected error occurred"
        ),
    )
    parser.add_argument(
        "--max-count",
        metavar="N",
        help=f"heal at most so many instances (default: all, in batches of {BATCH})",
    )
    parser.add_argument("--verbose", action="store_true", help="tell of every instance")
    parser.add_argument("--dry-run", action="store_true", help="tell what would be done, only")
    parser.add_argument("--instance", metavar="UUID", help="heal this instance alone")
    parser.add_argument("--cell", metavar="UUID", help="heal instances on nodes of this cell")
    parser.add_argument(
        "--force",
        action="store_true",
        help="with --instance: write its allocations anew, whatever it holds",
    )
    add_all_recorded(parser)
    parser.add_argument(
        "--skip-port-allocations",
        action="store_true",
        help="accepted, and without effect: ports' allocations are never healed",
    )
    add_format(parser)
    set_wrong_input(parser, Code.WRONG_INPUT)
    parser.set_defaults(run=run, failure=Code.UNEXPECTED)


def run(arguments: argparse.Namespace) -> int:
    """Heal, tell what became of which instance, and return nova-manage's code."""
    wanted = _wanted(arguments)
    settings = read_settings(arguments.config_file)
    with open_database(settings) as database:
        refuse_absent_file(database)
        if not _may_heal(database, wanted, arguments):
            sys.stderr.write(
                "placement-sched: nothing was healed: OpenStack placement made this database, so "
                "an instance that holds nothing may be one that nova has deleted since it was "
                "recorded here. See --dry-run, heal one with --instance, or, if every recorded "
                f"instance exists, run the command again with {ALL_RECORDED}\n"
            )
            if arguments.format == "json":
                print_json(_document([], Code.OUTDATED))
            return Code.OUTDATED
        healer = _healer(database, settings, wanted)
        found = _heal(healer)
        code = _code(found, healer)
    if arguments.format == "json":
        print_json(_document(found, code))
        return code
    for one in found:
        if arguments.verbose or one.outcome is not Outcome.SKIPPED:
            sys.stdout.write(f"instance {one.instance}: {_told(one, dry_run=wanted.dry_run)}\n")
    sys.stdout.write(f"{_summary(found, dry_run=wanted.dry_run)}\n")
    return code


def _may_heal(database: Database, wanted: Wanted, arguments: argparse.Namespace) -> bool:
    """Return whether allocations may be created for what is recorded: it is vouched for, or so."""
    vouched = arguments.instances_are_all_recorded or wanted.instance is not None
    return vouched or wanted.dry_run or not may_be_outdated(database)


def _wanted(arguments: argparse.Namespace) -> Wanted:
    """Return what is wanted; raises :class:`Invalid` for options that do not go together."""
    if arguments.instance is not None and arguments.cell is not None:
        raise Invalid("--instance and --cell exclude each other")
    if arguments.force and arguments.instance is None:
        raise Invalid("--force needs --instance")
    most = None if arguments.max_count is None else _count(arguments.max_count)
    return Wanted(
        instance=_uuid(arguments.instance, "--instance"),
        cell_uuid=_uuid(arguments.cell, "--cell"),
        most=most if arguments.instance is None else None,
        force=arguments.force,
        dry_run=arguments.dry_run,
    )


def _uuid(given: str | None, option: str) -> str | None:
    return None if given is None else shape.read(shape.uuid, given, option)


def _count(given: str) -> int:
    if not (given.isascii() and given.isdigit() and len(given) < 10 and int(given)):
        raise Invalid(f"--max-count: {given!r} is not a whole number of 1 or more")
    return int(given)


def _healer(database: Database, settings: Settings, wanted: Wanted) -> Healer:
    options = settings.placement
    return Healer(
        database=database,
        clock=utcnow,
        nobody=(options.incomplete_consumer_project_id, options.incomplete_consumer_user_id),
        wanted=wanted,
    )


def _heal(healer: Healer) -> list[Healing]:
    found: list[Healing] = []
    with progressing("healing") as told:
        total = healer.to_look_at()
        for one in healer.heal():
            found.append(one)
            told(len(found), total)
    return found


def _code(found: list[Healing], healer: Healer) -> Code:
    failed = next((code for one in found if (code := _FAILURES.get(one.outcome))), None)
    healed = sum(one.done for one in found)
    if failed is not None:
        return failed
    if healer.wanted.dry_run or not healed:
        return Code.NOTHING
    if healed == healer.wanted.most and healer.more(found[-1].instance):
        return Code.MORE
    return Code.HEALED


def _document(found: Iterable[Healing], code: Code) -> dict[str, object]:
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


def _told(one: Healing, *, dry_run: bool) -> str:
    if one.allocations is None:
        return f"{one.outcome.value}: {one.reason}"
    held = "; ".join(
        f"{', '.join(f'{amount} {name}' for name, amount in sorted(amounts.items()))} of {uuid}"
        for uuid, amounts in sorted(one.allocations.items())
    )
    return f"{'would be ' * dry_run}{one.outcome.value}: {held}"


def _summary(found: list[Healing], *, dry_run: bool) -> str:
    failed = sum(one.outcome in _FAILURES for one in found)
    healed = sum(one.done for one in found)
    would = "would be " * dry_run
    return f"{healed} instance(s) {would}healed, {failed} failed"
