"""``placement sync_aggregates`` and ``placement sync_traits``."""

import argparse
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import cache
from pathlib import Path
from types import ModuleType

from keystoneauth1.adapter import Adapter

from placement_sched.cli.arguments import Commands, add_command, add_format
from placement_sched.cli.database import open_database, refuse_absent_file
from placement_sched.cli.scheduler.scheduler_access import add_token, check_address, check_token
from placement_sched.cli.terminal import print_result, progressing
from placement_sched.db.transaction import Database
from placement_sched.errors import Invalid
from placement_sched.model.clock import utcnow
from placement_sched.model.document import Json
from placement_sched.model.naming import in_short
from placement_sched.model.placement.sync import HostMap, ProviderTrait
from placement_sched.operations.sync.aggregates import AggregatesSynced, sync_aggregates
from placement_sched.operations.sync.here import DirectoryHere, PlacementHere
from placement_sched.operations.sync.ports import Directory, Note, Placement
from placement_sched.operations.sync.traits import TraitsSynced, sync_traits
from placement_sched.remote import directory as compute_api
from placement_sched.remote import placement as placement_api
from placement_sched.remote.directory import RemoteDirectory
from placement_sched.remote.placement import RemotePlacement
from placement_sched.remote.service import RemoteService, by_cloud, by_token, library_logs_silenced
from placement_sched.remote.trait_file import opened
from placement_sched.scheduler.loading import read_settings


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--verbose", action="store_true", help="report each change")
    add_format(parser)
    where = parser.add_argument_group(
        "services",
        "Without these options, both are in the configured database. With one address, the other\n"
        "is still in the database.",
    )
    where.add_argument(
        "--url",
        metavar="URL",
        help="the placement API to change (http://controller/placement), OpenStack's or ours; "
        f"microversion {placement_api.VERSION} or newer",
    )
    where.add_argument(
        "--compute-url",
        metavar="URL",
        help="the compute API to read host aggregates from (http://controller:8774/v2.1), nova's "
        f"or ours; microversion {compute_api.VERSION} or newer",
    )
    add_token(where, "these addresses")
    cloud_help = "use the addresses and credentials of this cloud in clouds.yaml for both"
    where.add_argument("--os-cloud", metavar="NAME", help=cloud_help)


@contextmanager
def _opened_places(arguments: argparse.Namespace) -> Iterator[tuple[Directory, Placement]]:
    """Give where to read aggregates, and where to change providers, as the arguments say."""
    state: Path | None = getattr(arguments, "state", None)
    with ExitStack() as stack:
        stack.enter_context(library_logs_silenced())
        adapters = _adapters(arguments)
        if state is not None and "placement" not in adapters:
            raise Invalid("--state is only valid with a remote placement (--url, --os-cloud)")

        @cache
        def database() -> Database:
            opened = stack.enter_context(open_database(read_settings(arguments.config_file)))
            refuse_absent_file(opened, "--url, --compute-url and --os-cloud use services")
            return opened

        def remote(kind: str, api: ModuleType) -> RemoteService | None:
            adapter = adapters.get(kind)
            if adapter is None:
                return None
            return RemoteService(adapter, kind, version=api.VERSION, since=api.SINCE)

        compute, placement = remote("compute", compute_api), remote("placement", placement_api)
        directory = RemoteDirectory(compute) if compute else DirectoryHere(database())
        if placement is None:
            yield directory, PlacementHere(database(), utcnow, own_hosts=compute is None)
        else:
            record = None if state is None else stack.enter_context(opened(state, placement.place))
            yield directory, RemotePlacement(placement, record)


def _adapters(arguments: argparse.Namespace) -> dict[str, Adapter]:
    """Return the adapters of placement and the compute API by kind, but one in the database."""
    for flag, url in (("--url", arguments.url), ("--compute-url", arguments.compute_url)):
        if url is not None:
            check_address(flag, url)
    urls = {"placement": arguments.url, "compute": arguments.compute_url}
    if arguments.os_cloud is None:
        check_token(arguments.token)
        return {kind: by_token(url, arguments.token) for kind, url in urls.items() if url}
    adapters = by_cloud(arguments.os_cloud, urls)
    for kind, url in urls.items():
        if url is not None:
            adapters[kind].endpoint_override = url
    return adapters


#: nova-manage's exit status for an unexpected failure.
_UNEXPECTED = 255
_CODES = """exit status, {as_nova}:
  0    done
{first}  2    placement failed, or sent an unexpected response
  3    the provider of a host could not be changed
  4    a host of an aggregate has no service and no compute node
  5    a host has a service, but no compute node
  6    a host has no resource provider
{last}  255  any other failure, such as no answer from the compute API or the database
"""

_SEVERAL = "  1    a host has more than one compute node\n"
_REFUSED = (
    "  7    an aggregate requires a trait that does not exist and is not CUSTOM_\n"
    "  8    a trait was added for an aggregate that is not in the list, and is kept\n"
)


def register(group: Commands) -> None:
    """Add the commands to the group."""
    parser = add_command(
        group,
        "sync_aggregates",
        "make provider aggregates match host aggregates, as nova-manage does",
        _run_aggregates,
        epilog=_CODES.format(as_nova="as nova-manage's", first=_SEVERAL, last=""),
        failure=_UNEXPECTED,
    )
    parser.add_argument(
        "--remove-stale",
        action="store_true",
        help="also remove providers of compute nodes from aggregates that do not have their host; "
        "otherwise these are only reported",
    )
    _add_common(parser)
    as_nova = "those of sync_aggregates and two more"
    parser = add_command(
        group,
        "sync_traits",
        "add the traits that aggregates require (trait:X=required) to the providers of their hosts",
        _run_traits,
        epilog=_CODES.format(as_nova=as_nova, first="", last=_REFUSED),
        failure=_UNEXPECTED,
    )
    parser.add_argument("--dry-run", action="store_true", help="only report what would be done")
    parser.add_argument("--aggregate", metavar="NAME", help="only for this host aggregate")
    parser.add_argument(
        "--state",
        metavar="FILE",
        type=Path,
        help="with --url or --os-cloud: record added traits in this file, so that they can be "
        "removed when no aggregate requires them; without it, none is removed",
    )
    _add_common(parser)


def _run_aggregates(arguments: argparse.Namespace) -> int:
    with _opened_places(arguments) as places, progressing("synchronising aggregates") as progress:
        synced = sync_aggregates(
            *places, remove_stale=arguments.remove_stale, note=_note(arguments), progress=progress
        )
    return _report(arguments, synced, _aggregates_document(synced), _aggregates_lines(synced))


def _run_traits(arguments: argparse.Namespace) -> int:
    with _opened_places(arguments) as places, progressing("synchronising traits") as progress:
        synced = sync_traits(
            *places,
            aggregate=arguments.aggregate,
            dry_run=arguments.dry_run,
            note=_note(arguments),
            progress=progress,
        )
    return _report(arguments, synced, _traits_document(synced), _traits_lines(synced))


def _report(
    arguments: argparse.Namespace,
    synced: AggregatesSynced | TraitsSynced,
    document: Json,
    lines: Iterable[str],
) -> int:
    """Print what was done in the format asked for, and what could not be; return the code."""
    problems = [asdict(one) for one in synced.problems]
    print_result(arguments, {"code": synced.code, **document, "problems": problems}, lines)
    sys.stderr.writelines(f"placement-sched: {one.detail}\n" for one in synced.problems)
    return synced.code


def _note(arguments: argparse.Namespace) -> Note:
    """Return a function that prints each change: to stdout, or to stderr beside JSON."""
    if not arguments.verbose:
        return lambda _: None
    stream = sys.stderr if arguments.format == "json" else sys.stdout
    return lambda line: print(line, file=stream)


def _aggregates_lines(synced: AggregatesSynced) -> Iterator[str]:
    for one in synced.aggregates:
        changes = {"added": one.added, "removed": one.removed, "stale": one.stale}
        done = [
            f"{len(providers)} {what}{_names(synced.hosts, providers)}"
            for what, providers in changes.items()
            if providers
        ]
        yield f"{one.aggregate.name}: {'; '.join(done)}"
    stale = sum(len(one.stale) for one in synced.aggregates)
    if stale:
        yield f"{stale} stale memberships remain; --remove-stale removes them"
    elif not synced.problems:
        number = len(synced.hosts.aggregates)
        yield f"{number} host aggregate{'s'[: number != 1]}, no differences in placement"


def _aggregates_document(synced: AggregatesSynced) -> Json:
    def providers(uuids: Collection[str]) -> list[Json]:
        named = [{"host": synced.hosts.host_of.get(uuid), "provider": uuid} for uuid in uuids]
        return sorted(named, key=lambda one: (one["host"] or "", one["provider"] or ""))

    return {
        "aggregates": [
            {
                "uuid": one.aggregate.uuid,
                "name": one.aggregate.name,
                "added": providers(one.added),
                "removed": providers(one.removed),
                "stale": providers(one.stale),
            }
            for one in synced.aggregates
        ]
    }


def _traits_lines(synced: TraitsSynced) -> Iterator[str]:
    would = "would be " if synced.dry_run else ""
    for trait in synced.created:
        yield f"{trait}: {would}created"
    for pairs, done in ((synced.put, "added to"), (synced.taken_off, "removed from")):
        for trait in sorted({trait for _, trait in pairs}):
            providers = [provider for provider, name in pairs if name == trait]
            count = f"{len(providers)} provider{'s'[: len(providers) > 1]}"
            yield f"{trait}: {would}{done} {count}{_names(synced.hosts, providers)}"
    if not (synced.created or synced.put or synced.taken_off or synced.problems):
        yield "all providers have the traits that aggregates require"
    if not synced.remembers:
        yield "no traits are removed without a record of those added; --state FILE keeps one"


def _traits_document(synced: TraitsSynced) -> Json:
    def pairs(some: Collection[ProviderTrait]) -> list[Json]:
        named = [
            {"trait": trait, "host": synced.hosts.host_of.get(uuid), "provider": uuid}
            for uuid, trait in some
        ]
        return sorted(named, key=lambda one: tuple(one[key] or "" for key in one))

    return {
        "dry_run": synced.dry_run,
        "remembers": synced.remembers,
        "created": list(synced.created),
        "put": pairs(synced.put),
        "taken_off": pairs(synced.taken_off),
    }


def _names(hosts: HostMap, providers: Iterable[str]) -> str:
    return f" ({in_short(sorted(hosts.host_of.get(uuid, uuid) for uuid in providers))})"
