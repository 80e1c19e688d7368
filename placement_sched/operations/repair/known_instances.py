"""Finds the consumers that are instances which are gone, from what is known of instances.

That an instance is not recorded here proves nothing by itself: nova, or another program, may have
made it and hold its allocations. So a consumer counts as gone only where the records of its hosts
can be relied on; the others are reported with the reason.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby

from placement_sched.db import migrate
from placement_sched.db.transaction import Connection, Database
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.provider import INSTANCE_TYPE, Allocation
from placement_sched.store.compute import compute_nodes, instances
from placement_sched.store.placement import resource_providers, traits

#: Carried by providers that share what they have with others: they are not hosts (os-traits).
_SHARING = "MISC_SHARES_VIA_AGGREGATE"


class Doubt(Enum):
    """Why a consumer without a record may still be an instance."""

    ADOPTED = "adopted_database"
    NOTHING_RECORDED = "no_instance_recorded"
    NO_TYPE = "no_consumer_type"
    NOT_REPORTED = "provider_not_reported"
    MORE_REPORTED = "host_reports_more"


@dataclass(frozen=True, slots=True)
class Doubtful:
    """A consumer that cannot be judged, the reason, and its hosts or providers (by name).

    ``has_type`` is whether its allocations name a consumer type, as this service's do.
    """

    consumer: str
    doubt: Doubt
    about: tuple[str, ...]
    has_type: bool = True


#: Judges consumers, of which none is a recorded instance, by all allocations that they hold: gives
#: for each why it cannot be judged, or None where it is an instance that is gone.
Judge = Callable[[Connection, Sequence[Allocation]], dict[str, Doubtful | None]]


def judge_all_recorded(
    connection: Connection, held: Sequence[Allocation]
) -> dict[str, Doubtful | None]:
    """Judge by the operator's word that all instances are recorded here.

    A consumer without a type may still be a migration of nova.
    """
    names = resource_providers.names_of(connection, {one.provider_uuid for one in held})
    doubts: dict[str, Doubtful | None] = {}
    for uuid, some in by_consumer(held).items():
        about = {names.get(one.provider_uuid, one.provider_uuid) for one in some}
        doubt = Doubtful(uuid, Doubt.NO_TYPE, tuple(sorted(about)), has_type=False)
        doubts[uuid] = None if _has_type(some) else doubt
    return doubts


def judge_recorded_here(
    connection: Connection, held: Sequence[Allocation]
) -> dict[str, Doubtful | None]:
    """Judge by the instances that are recorded in this database, where they can be relied on.

    Nowhere in a database that OpenStack placement made, whose clients know instances that were
    never recorded here; nowhere while no instance is recorded; nor on a host that reports more
    instances than are recorded on it, nor on a provider of a host that does not report here. A
    consumer without a type was not claimed here: nova gives none to its instances and migrations.
    The number of statements depends on batches alone.
    """
    known = _Known(connection, held)
    return {uuid: known.doubt(uuid, some) for uuid, some in by_consumer(held).items()}


def by_consumer(held: Iterable[Allocation]) -> dict[str, list[Allocation]]:
    """Return allocations by the uuid of their consumer, in order of these."""
    ordered = sorted(held, key=lambda one: one.consumer.uuid)
    return {uuid: list(some) for uuid, some in groupby(ordered, lambda one: one.consumer.uuid)}


def amounts_by_provider(held: Iterable[Allocation]) -> dict[str, dict[str, int]]:
    """Return what one consumer holds: amounts by resource class, by provider uuid."""
    found: dict[str, dict[str, int]] = {}
    for one in held:
        found.setdefault(one.provider_uuid, {})[one.resource_class] = one.used
    return found


def _has_type(held: Sequence[Allocation]) -> bool:
    return held[0].consumer.consumer_type == INSTANCE_TYPE


def may_be_outdated(database: Database) -> bool:
    """Return whether instances that are recorded here may be gone without this service knowing.

    In a database that OpenStack placement made, nova frees what an instance holds, and the record
    of it stays here.
    """
    with database.read() as connection:
        return migrate.is_recorded(connection)


class _Known:
    """What is known here of the hosts that the consumers of some allocations hold something of."""

    def __init__(self, connection: Connection, held: Sequence[Allocation]) -> None:
        #: Why no consumer of the database can be judged, or None.
        self._of_all: Doubt | None = None
        if migrate.is_recorded(connection):
            self._of_all = Doubt.ADOPTED
        elif not instances.is_any(connection):
            self._of_all = Doubt.NOTHING_RECORDED
        uuids = {one.provider_uuid for one in held}
        found = resource_providers.by_uuids(connection, uuids)
        roots = {one.root_uuid for one in found.values()}
        nodes = {one.uuid: one for one in compute_nodes.by_uuids(connection, roots)}
        self._nodes = {
            uuid: nodes[one.root_uuid] for uuid, one in found.items() if one.root_uuid in nodes
        }
        #: The hosts of providers; of those without a host their own names.
        self._names = {uuid: one.name for uuid, one in found.items()}
        self._names |= {uuid: node.host for uuid, node in self._nodes.items()}
        self._sharing = traits.carriers(connection, [_SHARING]).get(_SHARING, frozenset())
        hosts = {one.host for one in nodes.values()}
        self._recorded = instances.counts_on_hosts(connection, hosts)

    def doubt(self, consumer: str, held: Sequence[Allocation]) -> Doubtful | None:
        """Return why a consumer that holds this cannot be judged, or None if it can."""
        uuids = {one.provider_uuid for one in held}
        has_type = _has_type(held)
        if self._of_all is not None:
            return Doubtful(consumer, self._of_all, self._named(uuids), has_type)
        if not has_type:
            return Doubtful(consumer, Doubt.NO_TYPE, self._named(uuids), has_type)
        # Those that may be of a host that does not report here.
        unreported = uuids - self._nodes.keys() - self._sharing
        if unreported:
            return Doubtful(consumer, Doubt.NOT_REPORTED, self._named(unreported))
        on_nodes = {uuid: self._nodes[uuid] for uuid in uuids & self._nodes.keys()}
        recorded = {uuid: self._recorded_on(node) for uuid, node in on_nodes.items()}
        beyond = {
            uuid
            for uuid, node in on_nodes.items()
            if int(node.stats.get("num_instances", 0)) > recorded[uuid]
        }
        return Doubtful(consumer, Doubt.MORE_REPORTED, self._named(beyond)) if beyond else None

    def _recorded_on(self, node: ComputeNode) -> int:
        # An instance may be recorded on a host without its node.
        names = (node.hypervisor_hostname, None)
        return sum(self._recorded.get((node.host, name), 0) for name in names)

    def _named(self, providers: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted({self._names.get(uuid, uuid) for uuid in providers}))
