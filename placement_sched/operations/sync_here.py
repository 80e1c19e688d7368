"""The ports of synchronising on this service's own database."""

from collections.abc import Callable, Collection, Mapping

from placement_sched.db.connection import Connection
from placement_sched.db.transaction import Database
from placement_sched.model.clock import Clock
from placement_sched.model.host_map import HostMap
from placement_sched.model.sync import Changed, TraitRecord
from placement_sched.operations.sync_ports import Pair
from placement_sched.operations.wanted_traits import wanted_traits
from placement_sched.store import (
    aggregates,
    change_counters,
    host_aggregates,
    host_map,
    memberships,
    resource_providers,
    synced_traits,
    traits,
)


class DirectoryHere:
    """Host aggregates, hosts and nodes of the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self) -> HostMap:
        """Return them as they are now, in three statements."""
        with self._database.read() as connection:
            return host_map.read(connection)


class PlacementHere:
    """Providers of the database; each batch is one transaction.

    With ``own_hosts``, the host aggregates that are followed are this database's. No other writer
    changes them while a batch is written, and what they do not ask for any more is left out.
    """

    #: A transaction of this size takes well under a second.
    batch = 2000
    remembers = True

    def __init__(self, database: Database, clock: Clock, *, own_hosts: bool) -> None:
        self._database = database
        self._clock = clock
        self._own_hosts = own_hosts

    def members(self, aggregates_: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the uuids of the providers in each of these aggregates."""
        with self._database.read() as connection:
            return memberships.members(connection, aggregates_)

    def join(self, aggregate: str, providers: Collection[str]) -> Changed:
        """Put providers into an aggregate."""

        def work(connection: Connection) -> Changed:
            hosts = self._held(connection)
            wanted = set(providers) & _nodes_in(hosts, aggregate) if hosts else set(providers)
            return _change(
                wanted,
                _ids(connection, wanted),
                lambda ids: aggregates.add_members(connection, aggregate, ids, self._clock()),
            )

        return self._database.write(work)

    def leave(self, aggregate: str, providers: Collection[str]) -> Changed:
        """Take providers out of an aggregate."""

        def work(connection: Connection) -> Changed:
            hosts = self._held(connection)
            unwanted = set(providers) - _nodes_in(hosts, aggregate) if hosts else set(providers)
            return _change(
                unwanted,
                _ids(connection, unwanted),
                lambda ids: aggregates.remove_members(connection, aggregate, ids, self._clock()),
            )

        return self._database.write(work)

    def known_traits(self, names: Collection[str]) -> frozenset[str]:
        """Return which of these traits there are."""
        with self._database.read() as connection:
            return frozenset(trait.name for trait in traits.by_names(connection, names))

    def create_trait(self, name: str) -> None:
        """Make a trait, unless it is there."""
        self._database.write(
            lambda connection: traits.add_missing(connection, [name], self._clock())
        )

    def carriers(self, names: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the uuids of the providers that have each of these traits."""
        with self._database.read() as connection:
            return memberships.carriers(connection, names)

    def existing(self, providers: Collection[str]) -> frozenset[str]:
        """Return which of these providers there are."""
        with self._database.read() as connection:
            return frozenset(_ids(connection, providers))

    def put_on(self, trait: str, providers: Mapping[str, str]) -> Changed:
        """Put a trait on providers, and keep the record of those that lacked it."""

        def work(connection: Connection) -> Changed:
            hosts = self._held(connection)
            asked = _asking(hosts, trait) if hosts else providers
            wanted = providers.keys() & asked.keys()
            found = _ids(connection, wanted)
            changed = _change(
                wanted, found, lambda ids: traits.put_on(connection, trait, ids, self._clock())
            )
            pairs = {(uuid, trait): asked[uuid] for uuid in changed.done}
            synced_traits.remember(connection, pairs, found, self._clock())
            return changed

        return self._database.write(work)

    def take_off(self, trait: str, providers: Collection[str]) -> Changed:
        """Take a trait from providers, and forget that it was put there.

        It stays on those that were made anew since.
        """

        def work(connection: Connection) -> Changed:
            hosts = self._held(connection)
            unwanted = set(providers) - _asking(hosts, trait).keys() if hosts else set(providers)
            found = _ids(connection, unwanted)
            noted = synced_traits.provider_ids(connection, trait, unwanted)
            anew = {uuid for uuid, number in found.items() if noted.get(uuid, number) != number}
            changed = _change(
                unwanted - anew,
                {uuid: number for uuid, number in found.items() if uuid not in anew},
                lambda ids: traits.take_off(connection, trait, ids, self._clock()),
            )
            synced_traits.forget(connection, [(uuid, trait) for uuid in unwanted])
            return changed

        return self._database.write(work)

    def put_there(self) -> TraitRecord:
        """Return what was put where, told by the providers' ids from what they were made anew."""
        with self._database.read() as connection:
            return synced_traits.read(connection)

    def settle(self, outlived: Collection[Pair]) -> None:
        """Take out of the record what its providers are gone of."""
        if outlived:
            self._database.write(
                lambda connection: synced_traits.forget_outlived(connection, outlived)
            )

    def remember(self, pairs: Mapping[Pair, str]) -> None:
        """Note for these pairs of the record another aggregate."""
        self._database.write(
            lambda connection: synced_traits.rebind(connection, pairs, self._clock())
        )

    def forget(self, pairs: Collection[Pair]) -> None:
        """Take these pairs out of the record."""
        self._database.write(lambda connection: synced_traits.forget(connection, pairs))

    def _held(self, connection: Connection) -> HostMap | None:
        """Return the own hosts as they will stay until the transaction ends, if they count."""
        if not self._own_hosts:
            return None
        change_counters.hold(connection, host_aggregates.SUBJECT)
        return host_map.read(connection)


def _nodes_in(hosts: HostMap, aggregate: str) -> frozenset[str]:
    found = hosts.by_uuid(aggregate)
    return frozenset() if found is None else hosts.nodes_in(found)


def _asking(hosts: HostMap, trait: str) -> Mapping[str, str]:
    """Return the uuid of the aggregate that asks for a trait, by provider."""
    pairs = wanted_traits(hosts).items()
    return {provider: aggregate for (provider, name), aggregate in pairs if name == trait}


def _ids(connection: Connection, providers: Collection[str]) -> dict[str, int]:
    """Return the ids of the providers that are there, by uuid."""
    found = resource_providers.by_uuids(connection, providers)
    return {uuid: provider.id for uuid, provider in found.items()}


def _change(
    providers: Collection[str],
    found: Mapping[str, int],
    change: Callable[[Collection[int]], Collection[int]],
) -> Changed:
    """Change the providers that were found, all at once, and return which were changed."""
    uuids = {number: uuid for uuid, number in found.items()}
    done = frozenset(uuids[number] for number in change(uuids.keys()))
    return Changed(done=done, missing=frozenset(providers) - found.keys())
