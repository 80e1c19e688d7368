"""The ports of synchronising on this service's own database."""

from collections.abc import Callable, Collection, Mapping
from functools import partial

from placement_sched.db.transaction import Connection, Database
from placement_sched.model.clock import Clock
from placement_sched.model.placement.sync import Changed, HostMap, ProviderTrait, TraitRecord
from placement_sched.operations.sync.ports import wanted_traits
from placement_sched.store import change_counters, synced_traits
from placement_sched.store.compute import host_aggregates
from placement_sched.store.placement import aggregates, resource_providers, traits


class DirectoryHere:
    """Host aggregates, hosts and nodes of the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self) -> HostMap:
        """Return them as they are now, in three statements."""
        with self._database.read() as connection:
            return host_aggregates.host_map(connection)


class PlacementHere:
    """Providers of the database; each batch is one transaction.

    With ``own_hosts``, the host aggregates that are followed are this database's. No other writer
    changes them while a batch is written, and what they do not ask for any more is left out.
    """

    #: A transaction of this size takes well under a second.
    batch = 2000
    remembers = True

    def __init__(self, database: Database, clock: Clock, *, own_hosts: bool) -> None:
        self._database, self._clock, self._own_hosts = database, clock, own_hosts

    def members(self, aggregates_: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the uuids of the providers in each of these aggregates."""
        with self._database.read() as connection:
            return aggregates.providers_in(connection, aggregates_)

    def join(self, aggregate: str, providers: Collection[str]) -> Changed:
        """Put providers into an aggregate."""
        return self._change_members(aggregate, providers, joining=True)

    def leave(self, aggregate: str, providers: Collection[str]) -> Changed:
        """Take providers out of an aggregate."""
        return self._change_members(aggregate, providers, joining=False)

    def _change_members(self, aggregate: str, uuids: Collection[str], *, joining: bool) -> Changed:
        def work(connection: Connection) -> Changed:
            concerned = set(uuids)
            if (hosts := self._held(connection)) is not None:
                found = hosts.by_uuid(aggregate)
                nodes = frozenset[str]() if found is None else hosts.nodes_in(found)
                concerned = concerned & nodes if joining else concerned - nodes
            change = aggregates.add_members if joining else aggregates.remove_members
            return _change(
                concerned,
                _ids(connection, concerned),
                lambda ids: change(connection, aggregate, ids, self._clock()),
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
            return traits.carriers(connection, names)

    def existing(self, providers: Collection[str]) -> frozenset[str]:
        """Return which of these providers there are."""
        with self._database.read() as connection:
            return frozenset(_ids(connection, providers))

    def put_on(self, trait: str, providers: Mapping[str, str]) -> Changed:
        """Add a trait to providers, and keep the record of those that lacked it."""

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
        """Remove a trait from providers, but from those recreated since, and from the record."""

        def work(connection: Connection) -> Changed:
            hosts = self._held(connection)
            unwanted = set(providers) - _asking(hosts, trait).keys() if hosts else set(providers)
            found = _ids(connection, unwanted)
            noted = synced_traits.provider_ids(connection, trait, unwanted)
            same = {uuid: id_ for uuid, id_ in found.items() if noted.get(uuid, id_) == id_}
            changed = _change(
                unwanted - (found.keys() - same.keys()),
                same,
                lambda ids: traits.take_off(connection, trait, ids, self._clock()),
            )
            synced_traits.forget(connection, [(uuid, trait) for uuid in unwanted])
            return changed

        return self._database.write(work)

    def put_there(self) -> TraitRecord:
        """Return the recorded traits; ids distinguish providers that were recreated."""
        with self._database.read() as connection:
            return synced_traits.read(connection)

    def settle(self, outlived: Collection[ProviderTrait]) -> None:
        """Remove the pairs of deleted providers from the record."""
        if outlived:
            self._database.write(partial(synced_traits.forget_outlived, pairs=outlived))

    def remember(self, pairs: Mapping[ProviderTrait, str]) -> None:
        """Record another aggregate for these pairs."""
        self._database.write(partial(synced_traits.rebind, pairs=pairs, now=self._clock()))

    def forget(self, pairs: Collection[ProviderTrait]) -> None:
        """Remove these pairs from the record."""
        self._database.write(partial(synced_traits.forget, pairs=pairs))

    def _held(self, connection: Connection) -> HostMap | None:
        """Return the own hosts as they will stay until the transaction ends, if they count."""
        if not self._own_hosts:
            return None
        change_counters.hold(connection, host_aggregates.SUBJECT)
        return host_aggregates.host_map(connection)


def _asking(hosts: HostMap, trait: str) -> Mapping[str, str]:
    pairs = wanted_traits(hosts).items()
    return {provider: aggregate for (provider, name), aggregate in pairs if name == trait}


def _ids(connection: Connection, providers: Collection[str]) -> dict[str, int]:
    found = resource_providers.by_uuids(connection, providers)
    return {uuid: provider.id for uuid, provider in found.items()}


def _change(
    providers: Collection[str],
    found: Mapping[str, int],
    change: Callable[[Collection[int]], Collection[int]],
) -> Changed:
    uuids = {number: uuid for uuid, number in found.items()}
    done = frozenset(uuids[number] for number in change(uuids.keys()))
    return Changed(done=done, missing=frozenset(providers) - found.keys())
