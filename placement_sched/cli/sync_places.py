"""Where the ``placement sync_*`` commands find host aggregates and placement: here or elsewhere."""

import argparse
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from keystoneauth1.adapter import Adapter

from placement_sched.cli.addresses import check_address, check_token
from placement_sched.cli.database import open_database, refuse_absent_file
from placement_sched.db.transaction import Database
from placement_sched.errors import Invalid
from placement_sched.model.clock import utcnow
from placement_sched.operations.sync_here import DirectoryHere, PlacementHere
from placement_sched.operations.sync_ports import Directory, Placement
from placement_sched.remote import directory as compute_api
from placement_sched.remote import placement as placement_api
from placement_sched.remote.access import Cloud, by_token, one_voice
from placement_sched.remote.directory import RemoteDirectory
from placement_sched.remote.placement import RemotePlacement
from placement_sched.remote.service import Service
from placement_sched.remote.trait_file import opened
from placement_sched.scheduler.loading import read_settings


@dataclass(frozen=True, slots=True)
class Places:
    """Where host aggregates are read, and where providers are changed."""

    directory: Directory
    placement: Placement


def add_places(parser: argparse.ArgumentParser) -> None:
    """Add the options that tell where; without any it is the configured database."""
    where = parser.add_argument_group(
        "where",
        "Without these options, both are in the configured database. Each address alone leaves "
        "the other there.",
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
    where.add_argument(
        "--token",
        default=os.environ.get("OS_TOKEN", "admin"),
        help="token for these addresses (default: $OS_TOKEN, else admin)",
    )
    where.add_argument(
        "--os-cloud",
        metavar="NAME",
        help="take addresses and credentials of both from this cloud of clouds.yaml",
    )


@contextmanager
def opened_places(arguments: argparse.Namespace) -> Iterator[Places]:
    """Give where to read and where to write, as the arguments tell.

    Raises :class:`Invalid` for arguments that contradict, :class:`Unavailable` without a database.
    """
    state: Path | None = getattr(arguments, "state", None)
    with ExitStack() as stack:
        stack.enter_context(one_voice())
        placement, compute = _adapters(arguments)
        if state is not None and placement is None:
            raise Invalid("--state is for another placement; of the own one the database keeps it")

        @cache
        def database() -> Database:
            opened = stack.enter_context(open_database(read_settings(arguments.config_file)))
            refuse_absent_file(opened, "--url, --compute-url and --os-cloud ask services")
            return opened

        yield Places(
            directory=DirectoryHere(database()) if compute is None else _directory(compute),
            placement=PlacementHere(database(), utcnow, own_hosts=compute is None)
            if placement is None
            else _placement(placement, state, stack),
        )


def _adapters(arguments: argparse.Namespace) -> tuple[Adapter | None, Adapter | None]:
    """Return who asks placement and the compute API, None for what is in the database."""
    urls = {"placement": arguments.url, "compute": arguments.compute_url}
    for flag, url in (("--url", arguments.url), ("--compute-url", arguments.compute_url)):
        if url is not None:
            check_address(flag, url)
    if arguments.os_cloud is None:
        check_token(arguments.token)
        placement, compute = (
            None if url is None else by_token(url, arguments.token) for url in urls.values()
        )
        return placement, compute
    cloud = Cloud(arguments.os_cloud)
    found = {kind: cloud.adapter(kind) for kind in urls}
    for kind, url in urls.items():
        if url is not None:
            found[kind].endpoint_override = url
    return found["placement"], found["compute"]


def _directory(adapter: Adapter) -> Directory:
    return RemoteDirectory(
        Service(adapter, "compute", version=compute_api.VERSION, since=compute_api.SINCE)
    )


def _placement(adapter: Adapter, state: Path | None, stack: ExitStack) -> Placement:
    service = Service(
        adapter, "placement", version=placement_api.VERSION, since=placement_api.SINCE
    )
    if state is None:
        return RemotePlacement(service)
    return RemotePlacement(service, stack.enter_context(opened(state, service.place)))
