"""``placement sync_aggregates`` and ``placement sync_traits``."""

import argparse
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from placement_sched.cli.arguments import Commands, add_command, add_format
from placement_sched.cli.sync_places import add_places, opened_places
from placement_sched.cli.terminal import print_json, progressing
from placement_sched.model.host_map import HostMap
from placement_sched.model.sync import Problem
from placement_sched.operations.sync_aggregates import AggregatesSynced, sync_aggregates
from placement_sched.operations.sync_ports import Note, Pair
from placement_sched.operations.sync_traits import TraitsSynced, sync_traits

Json = dict[str, Any]

#: nova-manage's exit status for what it did not expect.
UNEXPECTED = 255

_CODES = """exit status, {as_nova}:
  0    all is done
{first}  2    placement failed, or answered as it should not
  3    the provider of a host could not be changed
  4    a host of an aggregate is known by nothing else
  5    a host has a service, but no compute node
  6    a host has no resource provider
{last}  255  anything else: the compute API or the database does not answer, for one
"""
_SEVERAL = "  1    a host has more than one compute node\n"
_REFUSED = (
    "  7    an aggregate asks for a trait that is not there and is not CUSTOM_\n"
    "  8    a trait stays that was put for an aggregate which is not in the list followed\n"
)

#: Of many names, how many are shown to people.
_SHOWN = 5


def register(group: Commands) -> None:
    """Add the commands to the group."""
    parser = add_command(
        group,
        "sync_aggregates",
        summary="make provider aggregates match host aggregates, as nova-manage does",
        epilog=_CODES.format(as_nova="as nova-manage's", first=_SEVERAL, last=""),
    )
    parser.add_argument(
        "--remove-stale",
        action="store_true",
        help="also take providers of compute nodes out of the aggregates that their host is not "
        "in; else they are only told",
    )
    _add_common(parser, run_aggregates)
    parser = add_command(
        group,
        "sync_traits",
        summary="put the traits that aggregates ask for (trait:X=required) on their hosts' "
        "providers",
        epilog=_CODES.format(as_nova="sync_aggregates' and one more", first="", last=_REFUSED),
    )
    parser.add_argument("--dry-run", action="store_true", help="tell what would be done, only")
    parser.add_argument("--aggregate", metavar="NAME", help="for this host aggregate alone")
    parser.add_argument(
        "--state",
        metavar="FILE",
        type=Path,
        help="with --url or --os-cloud: keep the record of what was put here, so that it can be "
        "taken off once nobody asks for it; without, nothing is taken off",
    )
    _add_common(parser, run_traits)


def _add_common(parser: argparse.ArgumentParser, run: Any) -> None:
    parser.add_argument("--verbose", action="store_true", help="tell each change")
    add_format(parser)
    add_places(parser)
    parser.set_defaults(run=run, failure=UNEXPECTED)


def run_aggregates(arguments: argparse.Namespace) -> int:
    """Synchronise, tell what was done, and return nova-manage's code."""
    with opened_places(arguments) as places, progressing("synchronising aggregates") as told:
        synced = sync_aggregates(
            places.directory,
            places.placement,
            remove_stale=arguments.remove_stale,
            note=_note(arguments),
            progress=told,
        )
    if arguments.format == "json":
        print_json(_aggregates_document(synced))
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _aggregates_lines(synced)))
    _complain(synced.problems)
    return int(synced.code)


def run_traits(arguments: argparse.Namespace) -> int:
    """Synchronise, tell what was done, and return the code."""
    with opened_places(arguments) as places, progressing("synchronising traits") as told:
        synced = sync_traits(
            places.directory,
            places.placement,
            aggregate=arguments.aggregate,
            dry_run=arguments.dry_run,
            note=_note(arguments),
            progress=told,
        )
    if arguments.format == "json":
        print_json(_traits_document(synced))
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _traits_lines(synced)))
    _complain(synced.problems)
    return int(synced.code)


def _note(arguments: argparse.Namespace) -> Note:
    """Return who is told each change: a person, and beside JSON on stderr."""
    if not arguments.verbose:
        return lambda _: None
    stream = sys.stderr if arguments.format == "json" else sys.stdout
    return lambda line: print(line, file=stream)


def _complain(problems: Iterable[Problem]) -> None:
    for problem in problems:
        sys.stderr.write(f"placement-sched: {problem.detail}\n")


def _aggregates_lines(synced: AggregatesSynced) -> Iterator[str]:
    for one in synced.aggregates:
        done = [
            f"{len(providers)} {what}{_names(synced.hosts, providers)}"
            for what, providers in (
                ("added", one.added),
                ("removed", one.removed),
                ("stale", one.stale),
            )
            if providers
        ]
        yield f"{one.aggregate.name}: {'; '.join(done)}"
    stale = sum(len(one.stale) for one in synced.aggregates)
    if stale:
        yield f"{stale} stale memberships are left; --remove-stale removes them"
    elif not synced.problems:
        yield f"{len(synced.hosts.aggregates)} host aggregates, all as in placement"


def _aggregates_document(synced: AggregatesSynced) -> Json:
    def providers(uuids: Collection[str]) -> list[Json]:
        named = [{"host": synced.hosts.host_of.get(uuid), "provider": uuid} for uuid in uuids]
        return sorted(named, key=lambda one: (one["host"] or "", one["provider"] or ""))

    return {
        "code": int(synced.code),
        "aggregates": [
            {
                "uuid": one.aggregate.uuid,
                "name": one.aggregate.name,
                "added": providers(one.added),
                "removed": providers(one.removed),
                "stale": providers(one.stale),
            }
            for one in synced.aggregates
        ],
        "problems": _problems(synced.problems),
    }


def _traits_lines(synced: TraitsSynced) -> Iterator[str]:
    would = "would be " if synced.dry_run else ""
    for trait in synced.created:
        yield f"{trait}: {would}created"
    for pairs, done in ((synced.put, "put on"), (synced.taken_off, "taken off")):
        for trait in sorted({trait for _, trait in pairs}):
            providers = [provider for provider, name in pairs if name == trait]
            yield f"{trait}: {would}{done} {len(providers)}{_names(synced.hosts, providers)}"
    if not (synced.created or synced.put or synced.taken_off or synced.problems):
        yield "all traits are where aggregates ask for them"
    if not synced.remembers:
        yield "nothing is taken off without a record of what was put; --state FILE keeps one"


def _traits_document(synced: TraitsSynced) -> Json:
    def pairs(some: Collection[Pair]) -> list[Json]:
        named = [
            {"trait": trait, "host": synced.hosts.host_of.get(uuid), "provider": uuid}
            for uuid, trait in some
        ]
        return sorted(named, key=lambda one: tuple(one[key] or "" for key in one))

    return {
        "code": int(synced.code),
        "dry_run": synced.dry_run,
        "remembers": synced.remembers,
        "created": list(synced.created),
        "put": pairs(synced.put),
        "taken_off": pairs(synced.taken_off),
        "problems": _problems(synced.problems),
    }


def _problems(problems: Iterable[Problem]) -> list[Json]:
    return [{"code": int(one.code), "about": one.about, "detail": one.detail} for one in problems]


def _names(hosts: HostMap, providers: Iterable[str]) -> str:
    names = sorted(hosts.host_of.get(uuid, uuid) for uuid in providers)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f" ({', '.join(names[:_SHOWN])}{more})"
