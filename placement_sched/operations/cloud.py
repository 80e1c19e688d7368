"""A whole cloud as one value, and loading it by the same operations that live hosts go through."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from placement_sched.config.settings import Settings
from placement_sched.db.connection import Connection
from placement_sched.model.allocation import ConsumerClaim
from placement_sched.model.instance import Instance
from placement_sched.model.inventory import Inventory
from placement_sched.operations import host_aggregates, reports, services
from placement_sched.store import allocations, instances, inventories, resource_providers, traits

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """A host aggregate; with ``availability_zone`` in its metadata it is a zone."""

    uuid: str
    name: str
    hosts: tuple[str, ...]
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """An instance that is there already: on which node, whose, and what it holds by class."""

    uuid: str
    host: str
    project_id: str
    user_id: str
    flavor: Mapping[str, Any]
    resources: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """What hosts report, and what operators and users have made of them.

    ``reports`` are what hosts send (contract §4), one node to a host. ``traits`` gives the traits
    of hosts' root providers, ``inventories`` what these have beyond what reports tell, and
    ``disabled`` the reasons for which compute services are disabled; all three are by host.
    """

    reports: tuple[Json, ...]
    traits: Mapping[str, Collection[str]] = field(default_factory=dict)
    inventories: Mapping[str, tuple[Inventory, ...]] = field(default_factory=dict)
    aggregates: tuple[Aggregate, ...] = ()
    running: tuple[Running, ...] = ()
    disabled: Mapping[str, str] = field(default_factory=dict)


def load(connection: Connection, cloud: Cloud, settings: Settings, now: datetime) -> None:
    """Make a cloud within the caller's write transaction.

    Raises what the operations raise: :class:`Invalid`, :class:`Duplicate`, :class:`NotFound`,
    :class:`Conflict`.
    """
    parsed = reports.parse_reports(cloud.reports, settings, now)
    reports.record_reports(connection, parsed, now)
    node_uuids = {report.node.host: report.node.uuid for report in parsed}
    found = resource_providers.by_uuids(connection, node_uuids.values())
    provider_ids = {host: found[uuid].id for host, uuid in node_uuids.items()}
    _put_traits(connection, cloud.traits, provider_ids, now)
    _add_inventories(connection, cloud.inventories, provider_ids, now)
    # Zones come before instances, because no host changes its zone under instances.
    _make_aggregates(connection, cloud.aggregates, now)
    _run(connection, cloud.running, node_uuids, now)
    for host, reason in cloud.disabled.items():
        services.disable(connection, [host], reason, now)


def _put_traits(
    connection: Connection,
    by_host: Mapping[str, Collection[str]],
    provider_ids: Mapping[str, int],
    now: datetime,
) -> None:
    carriers: dict[str, list[int]] = defaultdict(list)
    for host, names in by_host.items():
        for name in names:
            carriers[name].append(provider_ids[host])
    for name, ids in sorted(carriers.items()):
        traits.put_on(connection, name, ids, now)


def _add_inventories(
    connection: Connection,
    by_host: Mapping[str, tuple[Inventory, ...]],
    provider_ids: Mapping[str, int],
    now: datetime,
) -> None:
    wanted = {provider_ids[host]: stocks for host, stocks in by_host.items()}
    resource_providers.lock(connection, wanted)
    changed = inventories.replace_many(connection, wanted, now)
    resource_providers.bump_generations(connection, changed, now)


def _make_aggregates(
    connection: Connection, aggregates: Collection[Aggregate], now: datetime
) -> None:
    for aggregate in aggregates:
        number = host_aggregates.create(connection, aggregate.uuid, aggregate.name, None, now).id
        host_aggregates.set_metadata(connection, number, dict(aggregate.metadata), now)
        host_aggregates.add_hosts(connection, number, aggregate.hosts, now)


def _run(
    connection: Connection,
    running: Collection[Running],
    node_uuids: Mapping[str, str],
    now: datetime,
) -> None:
    claims = [
        ConsumerClaim(
            consumer=one.uuid,
            allocations={node_uuids[one.host]: one.resources},
            project_id=one.project_id,
            user_id=one.user_id,
            consumer_type="INSTANCE",
            generation=None,
        )
        for one in running
    ]
    allocations.replace(connection, claims, now)
    instances.record(connection, [_instance(one) for one in running], now)


def _instance(one: Running) -> Instance:
    return Instance(
        uuid=one.uuid,
        host=one.host,
        node=one.host,
        project_id=one.project_id,
        user_id=one.user_id,
        display_name=f"{one.flavor['name']}-{one.uuid[:8]}",
        vm_state="active",
        task_state=None,
        flavor=one.flavor,
        image=None,
        server_group=None,
        decision_uuid=None,
    )
