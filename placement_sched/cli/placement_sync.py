# SPDX-License-Identifier: Apache-2.0
"""``placement sync_aggregates`` and ``placement sync_traits``."""

import argparse
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path

from placement_sched.cli.arguments import Commands, add_command, add_format
from placement_sched.cli.database import check_file_exists
from placement_sched.cli.login import add_login_arguments, make_adapters
from placement_sched.cli.terminal import count_noun, print_result, show_progress
from placement_sched.clients.placement import RemotePlacement, open_trait_file, read_remote_hosts
from placement_sched.clients.session import MICROVERSIONS, RemoteService, silence_library_logs
from placement_sched.db.transaction import Database
from placement_sched.errors import Invalid
from placement_sched.model.aggregates import HostMap
from placement_sched.model.clock import utcnow
from placement_sched.model.document import Json
from placement_sched.model.names import shorten_names
from placement_sched.operations.provider_sync import (
    OwnPlacement,
    Placement,
    SyncRun,
    by_name,
    read_own_hosts,
    sync_aggregates,
    sync_traits,
)
from placement_sched.scheduler.plugins import read_settings


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--verbose", action="store_true", help="report each change")
    add_format(parser)
    services = parser.add_argument_group(
        "services",
        "Without these options, the configured database is used for both. With a single address,\n"
        "the database is still used for the other service.",
    )
    services.add_argument(
        "--url",
        metavar="URL",
        help="the placement API to change (http://controller/placement), "
        "of OpenStack placement or of this service; microversion "
        f"{MICROVERSIONS['placement'][0]} or newer",
    )
    services.add_argument(
        "--compute-url",
        metavar="URL",
        help="the compute API to read host aggregates from (http://controller:8774/v2.1), of "
        f"nova or of this service; microversion {MICROVERSIONS['compute'][0]} or newer",
    )
    add_login_arguments(services)


#: Exit status of nova-manage for an unexpected failure.
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

_SEVERAL = "  1    a host has several compute nodes\n"
_REFUSED = (
    "  7    an aggregate requires a trait that does not exist and is not CUSTOM_\n"
    "  8    a trait added for an aggregate that is not in the list remains\n"
)


def register(group: Commands) -> None:
    """Add the commands to the group."""
    parser = add_command(
        group,
        "sync_aggregates",
        "make provider aggregates match host aggregates, as nova-manage does",
        _run_aggregates,
        epilog=_CODES.format(as_nova="as of nova-manage", first=_SEVERAL, last=""),
        failure=_UNEXPECTED,
    )
    parser.add_examples("--verbose", "--os-cloud mycloud")
    parser.add_argument(
        "--remove-stale",
        action="store_true",
        help="also remove providers of compute nodes from aggregates without their host; "
        "otherwise such providers are only reported",
    )
    _add_common(parser)
    as_nova = "as of sync_aggregates, and two more"
    parser = add_command(
        group,
        "sync_traits",
        "add the traits that aggregates require (trait:X=required) to the providers of their hosts",
        _run_traits,
        epilog=_CODES.format(as_nova=as_nova, first="", last=_REFUSED),
        failure=_UNEXPECTED,
    )
    parser.add_examples("--dry-run")
    parser.add_argument("--dry-run", action="store_true", help="only report the changes")
    parser.add_argument("--aggregate", metavar="NAME", help="only for this host aggregate")
    parser.add_argument(
        "--state",
        metavar="FILE",
        type=Path,
        help="with --url or --os-cloud: record added traits in this file, so that they can be "
        "removed when no aggregate requires them; without the file, traits are not removed",
    )
    _add_common(parser)


def _run_aggregates(arguments: argparse.Namespace) -> int:
    run = _synchronise(arguments, sync_aggregates, remove_stale=arguments.remove_stale)
    providers = {
        "added": by_name(run.added),
        "removed": by_name(run.removed),
        "stale": by_name(run.stale),
    }
    lines, documents = [], []
    for aggregate in run.hosts.aggregates:
        changes = {change: uuids[aggregate.uuid] for change, uuids in providers.items()}
        if not any(changes.values()):
            continue
        entries = {change: _entries(run.hosts, uuids) for change, uuids in changes.items()}
        documents.append({"uuid": aggregate.uuid, "name": aggregate.name, **entries})
        counts = [
            f"{len(uuids)} {change}{_names(run.hosts, uuids)}"
            for change, uuids in changes.items()
            if uuids
        ]
        lines.append(f"{aggregate.name}: {'; '.join(counts)}")
    if run.stale:
        lines.append(f"{len(run.stale)} stale memberships remain; --remove-stale removes them")
    elif not run.problems:
        number = count_noun(len(run.hosts.aggregates), "host aggregate")
        lines.append(f"{number}, no differences in placement")
    return _report(arguments, run, {"aggregates": documents}, lines)


def _run_traits(arguments: argparse.Namespace) -> int:
    options = {"aggregate": arguments.aggregate, "dry_run": arguments.dry_run}
    run = _synchronise(arguments, sync_traits, **options)
    has_record, would = run.placement.has_record, "would be " if run.dry_run else ""
    document = {"dry_run": run.dry_run, "remembers": has_record, "created": run.created}
    lines = [f"{trait}: {would}created" for trait in run.created]
    for key, verb, pairs in (
        ("put", "added to", run.added),
        ("taken_off", "removed from", run.removed),
    ):
        entries: list[Json] = []
        for trait, uuids in sorted(by_name(pairs).items()):
            entries += _entries(run.hosts, uuids, trait=trait)
            count = count_noun(len(uuids), "provider")
            lines.append(f"{trait}: {would}{verb} {count}{_names(run.hosts, uuids)}")
        document[key] = entries
    if not (lines or run.problems):
        lines.append("all providers have the traits that aggregates require")
    if not has_record:
        lines.append(
            "traits are not removed without a record of added traits; --state FILE creates a record"
        )
    return _report(arguments, run, document, lines)


def _synchronise(
    arguments: argparse.Namespace, sync: Callable[..., SyncRun], **options: str | bool | None
) -> SyncRun:
    """Run the sync with the services or the database that the arguments name."""
    state: Path | None = getattr(arguments, "state", None)

    def note(line: str) -> None:
        if arguments.verbose:
            print(line, file=sys.stderr if arguments.format == "json" else sys.stdout)

    with silence_library_logs(), ExitStack() as stack:
        urls = {
            "placement": ("--url", arguments.url),
            "compute": ("--compute-url", arguments.compute_url),
        }
        # APIs in the database have no service.
        adapters = make_adapters(arguments, urls)
        services = {kind: RemoteService(adapter, kind) for kind, adapter in adapters.items()}
        compute, remote = services.get("compute"), services.get("placement")
        if state is not None and remote is None:
            raise Invalid("--state is only valid with a remote placement (--url, --os-cloud)")
        if compute is None or remote is None:
            database = stack.enter_context(Database(read_settings(arguments.config_file)))
            check_file_exists(database, "--url, --compute-url and --os-cloud use services")
        read_hosts = (
            partial(read_remote_hosts, compute) if compute else partial(read_own_hosts, database)
        )
        placement: Placement
        if remote is None:
            placement = OwnPlacement(database, utcnow, own_hosts=compute is None)
        else:
            record = stack.enter_context(open_trait_file(state, remote.place)) if state else None
            placement = RemotePlacement(remote, record)
        noun = sync.__name__.removeprefix("sync_")
        progress = stack.enter_context(show_progress(f"synchronising {noun}"))
        return sync(read_hosts, placement, note=note, progress=progress, **options)


def _report(arguments: argparse.Namespace, run: SyncRun, document: Json, lines: list[str]) -> int:
    """Print the changes and problems, and return the exit status."""
    problems = [asdict(problem) for problem in run.problems]
    print_result(arguments, {"code": run.code, **document, "problems": problems}, lines)
    sys.stderr.writelines(f"placement-sched: {problem.detail}\n" for problem in run.problems)
    return run.code


def _entries(hosts: HostMap, uuids: Iterable[str], **first: str) -> list[Json]:
    """Build JSON entries for providers, sorted by host and uuid."""
    named = sorted((hosts.host_of.get(uuid) or "", uuid) for uuid in uuids)
    return [{**first, "host": host or None, "provider": uuid} for host, uuid in named]


def _names(hosts: HostMap, providers: Iterable[str]) -> str:
    return f" ({shorten_names(sorted(hosts.host_of.get(uuid, uuid) for uuid in providers))})"
