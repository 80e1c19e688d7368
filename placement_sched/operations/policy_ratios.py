"""Keeps the inventories of hosts at the allocation ratios of the policies that the hosts are under.

A ratio that a policy's section sets stands over what the host reports; of what it does not set, and
of hosts under no policy, the report's own holds. Reports are kept as they came, so that a host that
leaves a policy has its own ratios again.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from placement_sched.db.batches import batches
from placement_sched.db.connection import Connection
from placement_sched.db.transaction import Database
from placement_sched.model.clock import Clock
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.node_report import RATIOS
from placement_sched.scheduler.policies.ratios import NONE, Ratios, ratios_under
from placement_sched.scheduler.policies.registry import Policies
from placement_sched.store import (
    change_counters,
    compute_nodes,
    host_aggregates,
    inventories,
    resource_providers,
)

#: So many hosts are brought to their ratios in one transaction, so that nobody waits long.
BATCH = 500

#: Told how many hosts are done, and of how many.
Told = Callable[[int, int | None], None]


def under(
    connection: Connection, nodes: Sequence[ComputeNode], policies: Policies
) -> Sequence[ComputeNode]:
    """Return the nodes with the ratios of their hosts' policies in place of their own.

    No aggregate changes until the transaction ends; the caller has not locked the providers yet,
    which whoever changes an aggregate locks after this. Where no policies are configured nothing
    is asked.
    """
    if not nodes or not policies.names:
        return nodes
    change_counters.hold(connection, host_aggregates.SUBJECT)
    ratios = _by_host(connection, {node.host for node in nodes}, policies)
    return [with_ratios(node, ratios.get(node.host, NONE)) for node in nodes]


def settle(
    connection: Connection, hosts: Collection[str], policies: Policies, now: datetime
) -> frozenset[int]:
    """Give what the hosts' providers have the ratios that hold now; return those that changed.

    The caller has bumped or holds the aggregates' change counter. Only ratios are written, and
    only into inventories that are there; a ratio may leave less than is allocated, as placement
    lets everybody lower one.
    """
    ids = host_aggregates.provider_ids_of_hosts(connection, hosts)
    # Before the nodes are read: a report locks them, too, before it writes its own ratios.
    locked = resource_providers.lock(connection, ids)
    if not locked:
        return frozenset()
    nodes = [
        node
        for batch in batches(sorted(hosts))
        for node in compute_nodes.named(connection, hosts=batch, nodes=())
    ]
    ratios = _by_host(connection, hosts, policies)
    providers = resource_providers.by_uuids(connection, [node.uuid for node in nodes])
    wanted = {
        provider.id: _by_class(node, ratios.get(node.host, NONE))
        for node in nodes
        if (provider := providers.get(node.uuid)) is not None and provider.id in locked
    }
    changed = inventories.set_ratios(connection, wanted, now)
    resource_providers.bump_generations(connection, changed, now)
    return changed


def apply(
    database: Database, policies: Policies, clock: Clock, told: Told = lambda _done, _all: None
) -> tuple[int, int]:
    """Bring the hosts of all aggregates with a policy to its ratios, batch by batch.

    Returns how many hosts there are, and the inventories of how many providers changed. Stopped, it
    goes on anew: what is done stays, and done again changes nothing.
    """
    with database.read() as connection:
        hosts = host_aggregates.tagged_hosts(connection)
    done = changed = 0
    for batch in batches(hosts, BATCH):
        changed += len(database.write(partial(_settle, hosts=batch, policies=policies, at=clock)))
        done += len(batch)
        told(done, len(hosts))
    return len(hosts), changed


def _settle(
    connection: Connection, hosts: Sequence[str], policies: Policies, at: Clock
) -> frozenset[int]:
    change_counters.hold(connection, host_aggregates.SUBJECT)
    return settle(connection, hosts, policies, at())


def _by_host(
    connection: Connection, hosts: Collection[str], policies: Policies
) -> dict[str, Ratios]:
    return {
        host: ratios_under((tag.policy for tag in tags), policies)
        for host, tags in host_aggregates.tags_of_hosts(connection, hosts).items()
    }


def with_ratios(node: ComputeNode, ratios: Mapping[str, Any]) -> ComputeNode:
    """Return a node with these ratios, by name, in place of its own."""
    return replace(node, **ratios) if ratios else node


def _by_class(node: ComputeNode, ratios: Ratios) -> dict[str, float]:
    return {name: ratios.get(ratio, getattr(node, ratio)) for name, ratio in RATIOS.items()}
