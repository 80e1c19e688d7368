"""Keeps every host under one policy at most, and its inventories at the ratios of that policy.

The document left the first to administrators and asked for its enforcement later ("Multiple Active
Scheduler Configurations/Drivers/Policies"). The callers have bumped the aggregates' change
counter: its lock makes writers take turns, so two of them cannot break together what each keeps.

A ratio that a policy's section sets stands over what the host reports; of what it does not set, and
of hosts under no policy, the report's own holds. Reports are kept as they came, so that a host that
leaves a policy has its own ratios again.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from threading import Lock, Thread
from typing import Any

from oslo_log import log

from placement_sched.db.failover import History, history_of
from placement_sched.db.sql import batches
from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import ConfigurationError, Conflict, Error
from placement_sched.model.aggregates import HostAggregate, Tag
from placement_sched.model.clock import Clock
from placement_sched.model.compute_node import RATIOS, ComputeNode
from placement_sched.model.names import in_short
from placement_sched.operations import Progress
from placement_sched.scheduler.policies.registry import (
    NO_RATIOS,
    Policies,
    policies_for,
    ratios_under,
)
from placement_sched.settings import Settings
from placement_sched.store import change_counters
from placement_sched.store.compute import compute_nodes, host_aggregates
from placement_sched.store.placement import inventories, resource_providers

LOG = log.getLogger(__name__)

#: How many hosts are written in one transaction: others wait for its locks.
BATCH = 500


def policies_in_use(settings: Settings) -> frozenset[str]:
    """Return the policies that aggregates name; none if the database does not answer."""
    database = Database(settings)
    try:
        with database.read() as connection:
            aggregates = host_aggregates.snapshot(connection)
    except Exception as failure:  # noqa: BLE001 - of a database in any state
        LOG.info("cannot read which policies are in use: %s", failure)
        return frozenset()
    finally:
        database.dispose()
    return frozenset(aggregate.policy for aggregate in aggregates if aggregate.policy)


def check(
    connection: Connection,
    aggregate: HostAggregate,
    policy: str,
    hosts: Collection[str],
    policies: Policies | None,
    refused: str,
) -> None:
    """Raise :class:`Conflict`, ``refused`` first, unless hosts may be under this policy."""
    about = f"{refused} {aggregate.id}: {aggregate.name}"
    if policies is not None:
        try:
            policies.get(policy)
        except ConfigurationError as wrong:
            what = f"{about} cannot use policy {policy!r}: {wrong.detail}."
            raise Conflict(what) from None
    others: dict[Tag, list[str]] = defaultdict(list)
    for host, tags in sorted(host_aggregates.tags_of_hosts(connection, hosts).items()):
        for tag in tags:
            if tag.aggregate_id != aggregate.id and tag.policy != policy:
                others[tag].append(host)
    if others:
        tag, theirs = next(iter(others.items()))
        raise Conflict(
            f"{about} names policy {policy!r}, but {_counted(theirs)} policy "
            f"{tag.policy!r} from aggregate {tag.aggregate_id} ({tag.aggregate_name})."
        )


def faults(aggregates: Sequence[HostAggregate], policies: Policies) -> Iterator[str]:
    """Yield what is wrong with the policies of these aggregates: unknown ones, hosts under two."""
    for one in aggregates:
        if one.policy is not None:
            try:
                policies.get(one.policy)
            except ConfigurationError as wrong:
                what = f"aggregate {one.id} ({one.name}) names policy {one.policy!r}"
                yield f"{what}: {wrong.detail}"
    tagged = {one.id: one for one in aggregates if one.policy}
    by_host: dict[str, list[int]] = defaultdict(list)
    for number, one in tagged.items():
        for host in one.hosts:
            by_host[host].append(number)
    alike: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for host, numbers in by_host.items():
        if len({tagged[number].policy for number in numbers}) > 1:
            alike[tuple(numbers)].append(host)
    for together, hosts in sorted(alike.items()):
        some = [tagged[number] for number in together]
        named = ", ".join(f"{one.policy!r} from aggregate {one.id} ({one.name})" for one in some)
        yield f"{_counted(hosts)} several policies: {named}"


def _counted(hosts: Sequence[str]) -> str:
    return f"host {hosts[0]} has" if len(hosts) == 1 else f"hosts {in_short(sorted(hosts))} have"


def under(
    connection: Connection, nodes: Sequence[ComputeNode], policies: Policies | None
) -> Sequence[ComputeNode]:
    """Return the nodes with the ratios of their hosts' policies in place of their own.

    No aggregate changes until the transaction ends; the caller must not have locked the providers
    yet, which a change of an aggregate locks after this.
    """
    if policies is None or not nodes or not policies.names:
        return nodes
    change_counters.hold(connection, host_aggregates.SUBJECT)
    return _with_policies(connection, nodes, policies)


def settle(
    connection: Connection, hosts: Collection[str], policies: Policies | None, now: datetime
) -> frozenset[int]:
    """Give what the hosts' providers have the ratios that hold now; return those that changed.

    The caller has bumped or holds the aggregates' change counter. Only ratios are written, and
    only into inventories that are there; a ratio may leave less than is allocated, as placement
    lets everybody lower one. Without policies nothing is done.
    """
    if policies is None:
        return frozenset()
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
    providers = resource_providers.by_uuids(connection, [node.uuid for node in nodes])
    wanted = {
        provider.id: {name: getattr(node, ratio) for name, ratio in RATIOS.items()}
        for node in _with_policies(connection, nodes, policies)
        if (provider := providers.get(node.uuid)) is not None and provider.id in locked
    }
    changed = inventories.set_ratios(connection, wanted, now)
    resource_providers.bump_generations(connection, changed, now)
    return changed


def apply(
    database: Database,
    policies: Policies,
    clock: Clock,
    progress: Progress = lambda _done, _all: None,
) -> tuple[int, int]:
    """Bring the hosts of all aggregates with a policy to its ratios, batch by batch.

    Returns how many hosts there are, and the inventories of how many providers changed. Stopped, it
    starts again: what is done stays, and is not written again.
    """

    def settle_batch(connection: Connection, hosts: Sequence[str]) -> frozenset[int]:
        change_counters.hold(connection, host_aggregates.SUBJECT)
        return settle(connection, hosts, policies, clock())

    with database.read() as connection:
        hosts = host_aggregates.tagged_hosts(connection)
    done = changed = 0
    for batch in batches(hosts, BATCH):
        changed += len(database.write(partial(settle_batch, hosts=batch)))
        done += len(batch)
        progress(done, len(hosts))
    return len(hosts), changed


def _with_policies(
    connection: Connection, nodes: Sequence[ComputeNode], policies: Policies
) -> list[ComputeNode]:
    tags = host_aggregates.tags_of_hosts(connection, {node.host for node in nodes})
    ratios = {host: ratios_under((tag.policy for tag in of), policies) for host, of in tags.items()}
    return [with_ratios(node, ratios.get(node.host, NO_RATIOS)) for node in nodes]


def with_ratios(node: ComputeNode, ratios: Mapping[str, Any]) -> ComputeNode:
    """Return a node with these ratios, by name, in place of its own."""
    return replace(node, **ratios) if ratios else node


class PolicyUpkeep:
    """Brings inventories to the ratios of policies at the start, and whenever settings change.

    And where another server of the database has taken over, which may lack what was written last.
    Called before every request, it costs one look at the settings. What is to be done at the start
    is done before the call returns, and raises :class:`Unavailable` where the database does not
    answer. Later it is done beside the requests; where it fails, the next request tries again.
    """

    def __init__(self, database: Database, settings: Callable[[], Settings], clock: Clock) -> None:
        self._database, self._settings, self._clock = database, settings, clock
        self._turn = Lock()
        self._done: Settings | None = None
        self._history: History = None

    def __call__(self) -> None:
        """See to it that inventories have the ratios of the settings in effect now."""
        settings = self._settings()
        done = settings is self._done and self._database.history == self._history
        if done or not self._turn.acquire(blocking=False):
            return
        if self._done is None:
            self._apply(settings)
        else:
            Thread(target=self._again, args=(settings,), name="policy ratios", daemon=True).start()

    def _again(self, settings: Settings) -> None:
        try:
            self._apply(settings)
        except Error as failure:
            LOG.warning("allocation ratios of policies: %s; will be retried", failure.detail)

    def _apply(self, settings: Settings) -> None:
        try:
            policies = policies_for(settings, self._clock)
            with self._database.read() as connection:
                history = history_of(connection)
                found = host_aggregates.snapshot(connection) if policies.imaginable else ()
            # Their hosts are under the default policy.
            for fault in faults(found, policies):
                LOG.warning("%s", fault)
            hosts, changed = apply(self._database, policies, self._clock)
            self._done, self._history = settings, history
        finally:
            self._turn.release()
        if changed:
            LOG.info(
                "allocation ratios of policies: the inventories of %d providers were updated; "
                "%d hosts are in aggregates with a policy",
                changed,
                hosts,
            )
