"""Host aggregates and providers of this service's own database, to synchronise them."""

from collections import defaultdict
from collections.abc import Collection, Mapping

from placement_sched.db.transaction import Connection, Database
from placement_sched.model.clock import Clock
from placement_sched.model.provider_sync import (
    Changed,
    HostMap,
    ProviderChange,
    ProviderTrait,
    SyncedAttribute,
    TraitRecord,
)
from placement_sched.store import change_counters, synced_traits
from placement_sched.store.compute import host_aggregates
from placement_sched.store.placement import aggregates, resource_providers, traits

_ASSOCIATIONS = {"aggregates": aggregates.MEMBERS, "traits": traits.CARRIED}


def read_own_hosts(database: Database) -> HostMap:
    """Return host aggregates, hosts and nodes as they are now, in three statements."""
    with database.read() as connection:
        return host_aggregates.host_map(connection)


def required_pairs(hosts: HostMap, attribute: SyncedAttribute) -> dict[tuple[str, str], list[str]]:
    """Return the uuids of the aggregates that require each trait or aggregate on each provider."""
    required: dict[tuple[str, str], list[str]] = defaultdict(list)
    for aggregate in hosts.aggregates:
        is_trait, nodes = attribute == "traits", hosts.nodes_in(aggregate)
        for name in aggregate.reserving_traits if is_trait else [aggregate.uuid]:
            for node in nodes:
                required[node, name].append(aggregate.uuid)
    return dict(required)


class OwnPlacement:
    """Providers of the database, changed in one transaction per batch, with a record of traits.

    With ``own_hosts``, the host aggregates are of this database too. No other writer changes them
    while a batch is written, and changes that they no longer require are left out.
    """

    #: A transaction of this size takes well under a second.
    batch = 2000
    has_record = True

    def __init__(self, database: Database, clock: Clock, *, own_hosts: bool) -> None:
        self._database, self._clock, self._own_hosts = database, clock, own_hosts

    def providers_with(
        self, attribute: SyncedAttribute, names: Collection[str]
    ) -> Mapping[str, frozenset[str]]:
        """Return the uuids of the providers that have each aggregate (a uuid) or trait."""
        with self._database.read() as connection:
            return _ASSOCIATIONS[attribute].providers_of(connection, names)

    def known_traits(self, names: Collection[str]) -> frozenset[str]:
        """Return the names of traits that exist."""
        with self._database.read() as connection:
            return frozenset(trait.name for trait in traits.by_names(connection, names))

    def create_trait(self, name: str) -> None:
        """Create a trait if it does not exist."""
        self._database.write(
            lambda connection: traits.add_missing(connection, [name], self._clock())
        )

    def existing(self, providers: Collection[str]) -> frozenset[str]:
        """Return the uuids of providers that exist."""
        with self._database.read() as connection:
            return frozenset(resource_providers.by_uuids(connection, providers))

    def change(self, change: ProviderChange) -> Changed:
        """Add an aggregate or trait to providers, or remove it, and update the record of traits.

        A trait is only recorded for providers that lacked it, and is not removed from a provider
        that was recreated after the record.
        """

        def work(connection: Connection) -> Changed:
            attribute, name, providers, adding = change
            if self._own_hosts:
                change_counters.hold(connection, host_aggregates.SUBJECT)
                required = required_pairs(host_aggregates.host_map(connection), attribute)
                providers = {
                    uuid: required.get((uuid, name), [aggregate])[0]
                    for uuid, aggregate in providers.items()
                    if ((uuid, name) in required) is adding
                }
            existing = resource_providers.by_uuids(connection, providers)
            ids = {uuid: provider.id for uuid, provider in existing.items()}
            recorded = {}
            if attribute == "traits" and not adding:
                recorded = synced_traits.provider_ids(connection, name, providers)
            uuids = {id_: uuid for uuid, id_ in ids.items() if recorded.get(uuid, id_) == id_}
            association = _ASSOCIATIONS[attribute]
            write = association.add if adding else association.remove
            done = frozenset(uuids[id_] for id_ in write(connection, name, uuids, self._clock()))
            if attribute == "traits" and adding:
                pairs = {(uuid, name): providers[uuid] for uuid in done}
                synced_traits.remember(connection, pairs, ids, self._clock())
            elif attribute == "traits":
                synced_traits.forget(connection, [(uuid, name) for uuid in providers])
            return Changed(done, missing=frozenset(providers.keys() - ids.keys()))

        return self._database.write(work)

    def read_record(self) -> TraitRecord:
        """Return the recorded traits; ids distinguish providers that were recreated."""
        with self._database.read() as connection:
            return synced_traits.read(connection)

    def update_record(
        self,
        outlived: Collection[ProviderTrait],
        rebound: Mapping[ProviderTrait, str],
        forgotten: Collection[ProviderTrait],
    ) -> None:
        """Record another aggregate for some pairs, and remove others from the record.

        Outlived pairs are removed only if no other run has put the trait on a new provider.
        """

        def work(connection: Connection) -> None:
            synced_traits.forget_outlived(connection, outlived)
            synced_traits.rebind(connection, rebound, self._clock())
            synced_traits.forget(connection, forgotten)

        if outlived or rebound or forgotten:
            self._database.write(work)
