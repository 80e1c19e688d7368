# SPDX-License-Identifier: Apache-2.0
"""``placement heal_allocations``: creates missing allocations of instances."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from enum import IntEnum

from placement_sched.cli import arguments as shared
from placement_sched.cli.database import read_configuration
from placement_sched.cli.terminal import print_result, show_progress
from placement_sched.errors import Invalid
from placement_sched.model.clock import utcnow
from placement_sched.operations.repair import (
    Healer,
    Healing,
    HealOutcome,
    HealRequest,
    may_be_outdated,
)
from placement_sched.schemas import formats


class HealCode(IntEnum):
    """Exit status as in nova-manage, without 5 to 8 (neutron ports), plus 9."""

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
            "exit status, as of nova-manage:\n"
            "  0    allocations were created\n"
            "  1    --max-count was reached, and more instances need healing\n"
            "  2    the compute node of an instance was not found\n"
            "  3    the allocations of an instance could not be created\n"
            "  4    no failure and no created allocations (as always with --dry-run)\n"
            "  5-8  not used: statuses of nova-manage for ports of neutron\n"
            "  9    rejected: nova may have deleted recorded instances\n"
            "  127  wrong input\n"
            "  255  an unexpected error occurred"
        ),
        failure=HealCode.UNEXPECTED,
        wrong_input=HealCode.WRONG_INPUT,
    )
    parser.add_examples("--dry-run --verbose")
    count_help = "heal at most N instances (default: all)"
    parser.add_argument("--max-count", metavar="N", help=count_help)
    parser.add_argument("--verbose", action="store_true", help="report every instance")
    parser.add_argument("--dry-run", action="store_true", help="only report the changes")
    parser.add_argument("--instance", metavar="UUID", help="heal only this instance")
    parser.add_argument("--cell", metavar="UUID", help="heal instances on nodes of this cell")
    force_help = "with --instance: recreate existing allocations"
    parser.add_argument("--force", action="store_true", help=force_help)
    shared.add_all_recorded(parser)
    ports_help = "ignored: allocations of ports are never healed"
    parser.add_argument("--skip-port-allocations", action="store_true", help=ports_help)
    shared.add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Heal, print the result of each instance, and return nova-manage's exit status."""
    request = _heal_request(arguments)
    is_confirmed = arguments.instances_are_all_recorded or request.instance is not None
    healings: list[Healing] = []
    with read_configuration(arguments, there=True) as (settings, database):
        if not (is_confirmed or request.dry_run) and may_be_outdated(database):
            sys.stderr.write(
                "placement-sched: nothing was healed: OpenStack placement created this database, "
                "so nova may have deleted an instance without allocations since it was recorded "
                "here. Use --dry-run, heal a single instance with --instance or, if every "
                f"recorded instance exists, repeat the command with {shared.ALL_RECORDED}\n"
            )
            print_result(arguments, _document([], HealCode.OUTDATED), [])
            return HealCode.OUTDATED
        healer = Healer(
            database=database, clock=utcnow, no_owner=settings.unknown_owner, wanted=request
        )
        with show_progress("healing") as progress:
            total = healer.count()
            for healing in healer.heal():
                healings.append(healing)
                progress(len(healings), total)
        code = _code(healings, healer)
    lines = _lines(healings, verbose=arguments.verbose, dry_run=request.dry_run)
    print_result(arguments, _document(healings, code), lines)
    return code


def _heal_request(arguments: argparse.Namespace) -> HealRequest:
    """Build the request from the arguments.

    Raises :class:`Invalid` for contradicting options.
    """
    if arguments.instance is not None and arguments.cell is not None:
        raise Invalid("--instance and --cell exclude each other")
    if arguments.force and arguments.instance is None:
        raise Invalid("--force needs --instance")
    limit = None if arguments.max_count is None else _parse_count(arguments.max_count)
    return HealRequest(
        instance=_parse_uuid(arguments.instance, "--instance"),
        cell_uuid=_parse_uuid(arguments.cell, "--cell"),
        limit=limit if arguments.instance is None else None,
        force=arguments.force,
        dry_run=arguments.dry_run,
    )


def _parse_uuid(value: str | None, option: str) -> str | None:
    return None if value is None else formats.read(formats.uuid, value, option)


def _parse_count(value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 10 and int(value)):
        raise Invalid(f"--max-count: {value!r} is not a whole number of 1 or more")
    return int(value)


def _code(healings: list[Healing], healer: Healer) -> HealCode:
    for healing in healings:
        if healing.outcome in _FAILURES:
            return _FAILURES[healing.outcome]
    healed = sum(healing.done for healing in healings)
    if healer.wanted.dry_run or not healed:
        return HealCode.NOTHING
    if healed == healer.wanted.limit and healer.more(healings[-1].instance):
        return HealCode.MORE
    return HealCode.HEALED


def _document(healings: Sequence[Healing], code: HealCode) -> dict[str, object]:
    return {
        "code": int(code),
        "instances": [
            {
                "uuid": healing.instance,
                "outcome": healing.outcome.value,
                "allocations": healing.allocations,
                "reason": healing.reason,
            }
            for healing in healings
        ],
    }


def _lines(healings: Sequence[Healing], *, verbose: bool, dry_run: bool) -> Iterator[str]:
    would = "would be " * dry_run
    for healing in healings:
        if healing.allocations is not None:
            allocations = "; ".join(
                f"{', '.join(f'{amount} {name}' for name, amount in sorted(of.items()))} of {uuid}"
                for uuid, of in sorted(healing.allocations.items())
            )
            yield f"instance {healing.instance}: {would}{healing.outcome.value}: {allocations}"
        elif verbose or healing.outcome is not HealOutcome.SKIPPED:
            yield f"instance {healing.instance}: {healing.outcome.value}: {healing.reason}"
    failed, healed = (
        sum(healing.outcome in _FAILURES for healing in healings),
        sum(healing.done for healing in healings),
    )
    yield f"{healed} instances {would}healed, {failed} failed"
