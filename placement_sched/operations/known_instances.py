"""Tells which consumers are instances that are gone, from what is known of instances.

That an instance is not recorded here proves nothing by itself: nova, or another program, may have
made it and hold its allocations. So a consumer counts as gone only where the records of its hosts
can be relied on; of every other one it is said why it cannot be judged.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby
from typing import Protocol

from placement_sched.db import openstack_schema
from placement_sched.db.connection import Connection
from placement_sched.db.transaction import Database
from placement_sched.model.allocation import INSTANCE_TYPE, Allocation
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.provider import Provider
from placement_sched.store import compute_nodes, instances, memberships, resource_providers

#: Carried by providers that share what they have with others: they are not hosts (os-traits).
_SHARING_TRAIT = "MISC_SHARES_VIA_AGGREGATE"


class Doubt(Enum):
    """Why a consumer without a record may be an instance all the same."""

    ADOPTED = "adopted_database"
    NOTHING_RECORDED = "no_instance_recorded"
    NO_TYPE = "no_consumer_type"
    NOT_REPORTED = "provider_not_reported"
    MORE_REPORTED = "host_reports_more"


@dataclass(frozen=True, slots=True)
class Doubtful:
    """A consumer that cannot be judged, why, and the providers (by name) or hosts of which."""

    consumer: str
    doubt: Doubt
    about: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """Which consumers are instances that are gone, and which cannot be judged, by uuid.

    A consumer that is in neither is an instance that exists.
    """

    gone: frozenset[str] = frozenset()
    doubtful: Mapping[str, Doubtful] = field(default_factory=dict)


class KnownInstances(Protocol):
    """Where it is known which instances there are."""

    def judge(self, connection: Connection, held: Sequence[Allocation]) -> Judged:
        """Judge the consumers of these allocations, of which none is a recorded instance.

        ``held`` is all that these consumers hold.
        """
        ...


class AllRecorded:
    """All instances are recorded here: the operator says so."""

    def judge(self, _connection: Connection, held: Sequence[Allocation]) -> Judged:
        """Return all consumers as gone."""
        return Judged(gone=frozenset(one.consumer.uuid for one in held))


class RecordedHere:
    """The instances that are recorded in this database, as far as they can be relied on.

    Nowhere in a database that OpenStack placement made, whose clients know instances that were
    never recorded here; nowhere while no instance is recorded; nor on a host that reports more
    instances than are recorded on it, nor on a provider of a host that does not report here. A
    consumer without a type was not claimed here, and nova gives none: it is judged only where each
    of its hosts has recorded instances.
    """

    def judge(self, connection: Connection, held: Sequence[Allocation]) -> Judged:
        """Return which consumers are gone; the number of statements depends on batches alone."""
        known = _Known.of_holders(connection, held)
        gone: set[str] = set()
        doubtful: dict[str, Doubtful] = {}
        for uuid, some in groupby(sorted(held, key=_consumer), _consumer):
            doubt = known.doubt(uuid, tuple(some))
            if doubt is None:
                gone.add(uuid)
            else:
                doubtful[uuid] = doubt
        return Judged(frozenset(gone), doubtful)


def may_be_outdated(database: Database) -> bool:
    """Return whether instances that are recorded here may be gone without this service knowing.

    In a database that OpenStack placement made, nova frees what an instance holds, and the record
    of it stays here.
    """
    with database.read() as connection:
        return openstack_schema.is_recorded(connection)


def _consumer(held: Allocation) -> str:
    return held.consumer.uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What is known here of the hosts that some consumers hold something of.

    ``nodes`` are compute nodes by the uuid of their root provider, ``recorded`` how many instances
    are recorded on a host and node.
    """

    of_all: Doubt | None
    providers: Mapping[str, Provider]
    nodes: Mapping[str, ComputeNode]
    sharing: frozenset[str]
    recorded: Mapping[tuple[str, str | None], int]

    @classmethod
    def of_holders(cls, connection: Connection, held: Sequence[Allocation]) -> "_Known":
        """Return it for the consumers of these allocations."""
        providers = resource_providers.by_uuids(connection, {one.provider_uuid for one in held})
        roots = {one.root_uuid for one in providers.values()}
        nodes = {one.uuid: one for one in compute_nodes.by_uuids(connection, roots)}
        return cls(
            of_all=_doubt_of_database(connection),
            providers=providers,
            nodes=nodes,
            sharing=memberships.carriers(connection, [_SHARING_TRAIT]).get(
                _SHARING_TRAIT, frozenset()
            ),
            recorded=instances.counts_on_hosts(connection, {one.host for one in nodes.values()}),
        )

    def doubt(self, consumer: str, held: Sequence[Allocation]) -> Doubtful | None:
        """Return why a consumer that holds this cannot be judged, or None where it can."""
        uuids = {one.provider_uuid for one in held}
        if self.of_all is not None:
            return Doubtful(consumer, self.of_all, self._named(uuids))
        if unreported := {uuid for uuid in uuids if self._is_not_reported(uuid)}:
            return Doubtful(consumer, Doubt.NOT_REPORTED, self._named(unreported))
        empty = {uuid for uuid in uuids if self._recorded_beside(uuid) == 0}
        if empty and held[0].consumer.consumer_type != INSTANCE_TYPE:
            return Doubtful(consumer, Doubt.NO_TYPE, self._named(empty))
        if beyond := {uuid for uuid in uuids if self._reports_more(uuid)}:
            return Doubtful(consumer, Doubt.MORE_REPORTED, self._named(beyond))
        return None

    def _node(self, provider: str) -> ComputeNode | None:
        found = self.providers.get(provider)
        return None if found is None else self.nodes.get(found.root_uuid)

    def _named(self, providers: Iterable[str]) -> tuple[str, ...]:
        """Return the hosts of providers; of those without a host their own names."""
        return tuple(sorted({self._name(uuid) for uuid in providers}))

    def _name(self, provider: str) -> str:
        if (node := self._node(provider)) is not None:
            return node.host
        return self.providers[provider].name if provider in self.providers else provider

    def _is_not_reported(self, provider: str) -> bool:
        """Return whether a provider may be that of a host that does not report here."""
        return self._node(provider) is None and provider not in self.sharing

    def _recorded_beside(self, provider: str) -> int | None:
        """Return how many instances are recorded on the node of a provider, None without one."""
        node = self._node(provider)
        if node is None:
            return None
        # An instance may be recorded on a host without its node.
        here = (node.hypervisor_hostname, None)
        return sum(self.recorded.get((node.host, name), 0) for name in here)

    def _reports_more(self, provider: str) -> bool:
        """Return whether the node of a provider reports more instances than are recorded on it."""
        node = self._node(provider)
        recorded = self._recorded_beside(provider)
        if node is None or recorded is None:
            return False
        return int(node.stats.get("num_instances", 0)) > recorded


def _doubt_of_database(connection: Connection) -> Doubt | None:
    """Return why no consumer of the database can be judged, or None."""
    if openstack_schema.is_recorded(connection):
        return Doubt.ADOPTED
    return None if instances.is_any(connection) else Doubt.NOTHING_RECORDED
