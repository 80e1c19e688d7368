# SPDX-License-Identifier: Apache-2.0
"""Writing of the cloud in a fleet file, within a single transaction.

The operations are the same as for reports of hosts and requests of operators. All objects of a kind
are written together.

Names that the collation of the database does not distinguish are rejected. MariaDB, for example,
does not distinguish ``p``, ``P`` and ``"p "``.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from placement_sched.db.transaction import Connection
from placement_sched.errors import ConcurrentUpdate, Conflict, Duplicate, Invalid, NotFound
from placement_sched.model.aggregates import POLICY_KEY, ZONE_KEY, HostAggregate
from placement_sched.model.provider import ConsumerClaim, Provider
from placement_sched.operations import aggregates as aggregate_ops
from placement_sched.operations import reports
from placement_sched.operations.fleet import cloud
from placement_sched.operations.fleet.cloud import MergeState, ProviderState, changed_entries
from placement_sched.operations.fleet.yaml_file import EntryError
from placement_sched.schemas.node_report import NodeReport
from placement_sched.store import change_counters, images
from placement_sched.store.compute import flavors, instances, server_groups, services
from placement_sched.store.compute import host_aggregates as aggregate_rows
from placement_sched.store.placement import (
    aggregates,
    allocations,
    consumers,
    inventories,
    provider_trees,
    resource_classes,
    resource_providers,
    traits,
)
from placement_sched.store.placement.consumers import PROJECT, USER
from placement_sched.store.placement.resource_providers import NewProvider

#: Callback with the name of the section that is being written.
StepProgress = Callable[[str], None]


@contextmanager
def _locate_errors(label: str, *keys: str | int) -> Iterator[None]:
    """Raise errors as :class:`EntryError` with the keys of the entry.

    A concurrent update is not caused by an entry, and is raised unchanged.
    """
    try:
        yield
    except ConcurrentUpdate:
        raise
    except (Conflict, Invalid, NotFound) as error:
        raise EntryError(error, f"{label}: {error.detail}", *keys) from None


def apply(connection: Connection, draft: MergeState, progress: StepProgress) -> None:
    """Write the changes of a draft that was read in the same transaction.

    Raises :class:`EntryError` for an error that is caused by an entry, and other errors of the
    operations unchanged.
    """
    before, after, now = draft.before, draft.after, draft.now
    progress("resource classes and traits")
    for name in sorted(after.resource_classes - before.resource_classes):
        resource_classes.add(connection, name, now)
    traits.add_missing(connection, sorted(after.traits - before.traits), now)
    progress("flavors, images and server groups")
    _write_flavors(connection, draft)
    _write_images(connection, draft)
    groups = changed_entries(before.server_groups, after.server_groups)
    server_groups.put(connection, list(groups.values()), now)
    # Every write of a member locks its group, so that the group is not deleted concurrently.
    joined = {item.server_group for item in after.instances.values() if item.server_group}
    server_groups.lock_many(connection, joined & after.server_groups.keys())
    progress("hosts")
    _write_nodes(connection, draft)
    progress("aggregates")
    _write_aggregates(connection, draft)
    progress("providers")
    superfluous = _write_providers(connection, draft)
    progress("allocations")
    _write_allocations(connection, draft)
    inventories.remove(connection, superfluous)
    progress("instances")
    _write_instances(connection, draft)


def _write_flavors(connection: Connection, draft: MergeState) -> None:
    differing = changed_entries(draft.before.flavors, draft.after.flavors)
    if not differing:
        return
    change_counters.bump(connection, flavors.SUBJECT)
    new = [
        item.flavor for flavorid, item in differing.items() if flavorid not in draft.before.flavors
    ]
    flavors.add_many(connection, new, draft.now)
    ids = flavors.ids_by_flavorid(connection)
    for flavorid in differing.keys() & draft.before.flavors.keys():
        flavors.change(connection, ids[flavorid], differing[flavorid].flavor, draft.now)
    projects = {ids[flavorid]: state.projects for flavorid, state in differing.items()}
    flavors.replace_projects(connection, projects, draft.now)


def _write_images(connection: Connection, draft: MergeState) -> None:
    differing = changed_entries(draft.before.images, draft.after.images)
    new = [image for uuid, image in differing.items() if uuid not in draft.before.images]
    images.add_many(
        connection, [replace(image, created_at=draft.now, updated_at=draft.now) for image in new]
    )
    for uuid in differing.keys() & draft.before.images.keys():
        old = images.by_uuid(connection, uuid, lock=True)
        if old is not None:
            image = replace(differing[uuid], created_at=old.created_at, updated_at=draft.now)
            images.change(connection, old, image)


def _write_nodes(connection: Connection, draft: MergeState) -> None:
    differing = changed_entries(draft.before.nodes, draft.after.nodes).values()
    # Inventories are written with the providers.
    reported = [NodeReport(node=node, inventories=False) for node in differing]
    reports.record_reports(connection, reported, draft.now)
    hosts = {node.host for node in differing}
    rows = [
        # The id and the time of the change are set by the store.
        {key: value for key, value in service._asdict().items() if key not in {"id", "updated_at"}}
        | {"disabled": int(service.disabled), "forced_down": int(service.forced_down)}
        for key, service in draft.after.services.items()
        # A report has created the service or set its heartbeat, which may differ from the file.
        if draft.before.services.get(key) != service or service.host in hosts
    ]
    services.put(connection, rows, draft.now)


def _write_aggregates(connection: Connection, draft: MergeState) -> None:
    triples = _create_aggregates(connection, draft)
    # All hosts leave before any host joins, so that no host is in two zones.
    for number, previous, aggregate in triples:
        for host in sorted(previous.hosts - aggregate.hosts):
            with _aggregate_errors(aggregate, draft, "hosts"):
                aggregate_ops.remove_host(connection, number, host, draft.now, draft.policies)
    for number, previous, aggregate in triples:
        if previous.name != aggregate.name:
            with _aggregate_errors(aggregate, draft, ZONE_KEY):
                aggregate_ops.update(connection, number, {"name": aggregate.name}, draft.now)
        for key, changes in _metadata_changes(previous, aggregate):
            with _aggregate_errors(aggregate, draft, key):
                aggregate_ops.set_metadata(connection, number, changes, draft.now, draft.policies)
    for number, previous, aggregate in triples:
        if joining := aggregate.hosts - previous.hosts:
            with _aggregate_errors(aggregate, draft, "hosts"):
                aggregate_ops.add_hosts(connection, number, joining, draft.now, draft.policies)


def _create_aggregates(
    connection: Connection, draft: MergeState
) -> list[tuple[int, HostAggregate, HostAggregate]]:
    """Create aggregates and return id, old and new state of each changed aggregate."""
    differing = changed_entries(draft.before.aggregates, draft.after.aggregates)
    ids = {item.uuid: item.id for item in aggregate_rows.snapshot(connection)} if differing else {}
    for uuid, aggregate in differing.items():
        if uuid not in draft.before.aggregates:
            with _aggregate_errors(aggregate, draft, "name"):
                ids[uuid] = aggregate_ops.create(
                    connection, uuid, aggregate.name, None, draft.now
                ).id
    return [
        (ids[uuid], draft.before.aggregates.get(uuid) or cloud.new_aggregate(uuid, item.name), item)
        for uuid, item in differing.items()
    ]


def _metadata_changes(
    previous: HostAggregate, aggregate: HostAggregate
) -> Iterator[tuple[str, dict[str, str | None]]]:
    """Yield changes of metadata with the key of the entry that is named in an error."""
    metadata: dict[str, str | None] = dict.fromkeys(previous.metadata.keys() - aggregate.metadata)
    metadata |= changed_entries(previous.metadata, aggregate.metadata)
    policy = {key: metadata.pop(key) for key in (POLICY_KEY,) if key in metadata}
    if metadata:
        yield ZONE_KEY, metadata
    if policy:
        yield "metadata", policy


def _aggregate_errors(
    aggregate: HostAggregate, draft: MergeState, key: str
) -> AbstractContextManager[None]:
    return _locate_errors(
        f"aggregate {aggregate.name}", *draft.entry_of("aggregate", aggregate.uuid), key
    )


def _write_providers(connection: Connection, draft: MergeState) -> Mapping[int, frozenset[str]]:
    """Write the changed providers and return their superfluous inventories.

    They are returned by provider id, and must be deleted later, after their allocations. Raises
    :class:`EntryError` if a name is in use, or a provider would be its own descendant.
    """
    written = _select_providers(draft)
    if not written:
        return {}
    # Read again, because reports and aggregates have just changed providers.
    present = cloud.read_providers(connection)
    wanted = {
        uuid: provider
        for uuid, provider in changed_entries(present, draft.after.providers).items()
        if uuid in written
    }
    existing = {uuid: state for uuid, state in wanted.items() if uuid in present}
    _create_providers(connection, [wanted[uuid] for uuid in wanted if uuid not in existing], draft)
    stored = resource_providers.by_uuids(connection, wanted)

    def rename(states: list[ProviderState]) -> None:
        names = {stored[state.uuid].id: state.name for state in states}
        resource_providers.rename_many(connection, names, draft.now)

    renamed = [item for uuid, item in existing.items() if present[uuid].name != item.name]
    _write_named(connection, renamed, rename, draft)
    for uuid, state in existing.items():
        if present[uuid].parent != state.parent:
            parent = draft.after.providers.get(state.parent or "")
            below = "" if parent is None else f" below {parent.name}"
            with _locate_errors(f"provider {state.name}{below}", *draft.entry_of("provider", uuid)):
                provider_trees.move(connection, uuid, state.parent, anywhere=True, now=draft.now)
    resource_providers.lock(connection, [state.id for state in stored.values()])
    by_id = {stored[uuid].id: state for uuid, state in wanted.items()}
    rows = {number: tuple(state.inventories.values()) for number, state in by_id.items()}
    of_traits = {number: state.traits for number, state in by_id.items()}
    joined = {number: state.aggregates for number, state in by_id.items()}
    differing = inventories.replace_many(connection, rows, draft.now)
    differing |= traits.replace_many(connection, of_traits, draft.now)
    differing |= aggregates.replace_many(connection, joined, draft.now)
    superfluous = {
        stored[uuid].id: frozenset(gone)
        for uuid, state in existing.items()
        if (gone := present[uuid].inventories.keys() - state.inventories.keys())
    }
    resource_providers.bump_generations(connection, differing | superfluous.keys(), draft.now)
    return superfluous


def _select_providers(draft: MergeState) -> set[str]:
    """Return the providers that the file or a write of hosts changes.

    Concurrent changes of all other providers remain.
    """
    before, after = draft.before, draft.after
    hosts = {service.host for service in changed_entries(before.services, after.services).values()}
    for uuid, aggregate in changed_entries(before.aggregates, after.aggregates).items():
        former = before.aggregates.get(uuid)
        hosts |= aggregate.hosts | (former.hosts if former else frozenset())
    nodes = changed_entries(before.nodes, after.nodes).keys() | {
        uuid for uuid, node in after.nodes.items() if node.host in hosts
    }
    return nodes | changed_entries(before.providers, after.providers).keys()


def _create_providers(connection: Connection, new: list[ProviderState], draft: MergeState) -> None:
    while new:
        uuids = {state.uuid for state in new}
        ready = [state for state in new if state.parent not in uuids]
        above = {state.parent for state in ready if state.parent is not None}
        parents = resource_providers.by_uuids(connection, above)
        if not ready or len(parents) < len(above):
            raise Invalid("a provider has a parent that does not exist")

        def create(states: list[ProviderState], parents: Mapping[str, Provider] = parents) -> None:
            rows = [
                NewProvider(state.uuid, state.name, parents.get(state.parent or ""))
                for state in states
            ]
            resource_providers.create_many(connection, rows, draft.now)

        _write_named(connection, ready, create, draft)
        new = [state for state in new if state.parent in uuids]


def _write_named(
    connection: Connection,
    wanted: list[ProviderState],
    write: Callable[[list[ProviderState]], None],
    draft: MergeState,
) -> None:
    if not wanted:
        return
    try:
        with connection.begin_nested():
            write(wanted)
    except Duplicate:
        if len(wanted) > 1:
            for state in wanted:
                _write_named(connection, [state], write, draft)
            return
        (provider,) = wanted
        names = {row.name for row in resource_providers.by_names(connection, [provider.name])}
        message = f"another provider already has its {'name' if names else 'uuid'}"
        if spelt := names - {provider.name}:
            message = f"the database does not distinguish its name from {_quote(min(spelt))}"
        message = f"provider {_quote(provider.name)}: {message}"
        raise EntryError(
            Duplicate(message), message, *draft.entry_of("provider", provider.uuid)
        ) from None


def _write_allocations(connection: Connection, draft: MergeState) -> None:
    claims = list(changed_entries(draft.before.consumers, draft.after.consumers).values())
    gone = [
        claim for uuid, claim in draft.before.consumers.items() if uuid not in draft.after.consumers
    ]
    claims += [replace(claim, consumer_type=None, allocations={}) for claim in gone]
    # The generations reject concurrent writes.
    claims = [
        replace(claim, generation=draft.before.generations.get(claim.consumer)) for claim in claims
    ]
    if claims:
        # The file describes existing allocations, which may exceed a host that has shrunk.
        allocations.replace(connection, claims, draft.now, recorded=True)
        _check_owners(connection, claims, draft)


def _check_owners(connection: Connection, claims: list[ConsumerClaim], draft: MergeState) -> None:
    """Raise :class:`EntryError` if an owner was stored in another spelling."""
    writing = [claim for claim in claims if claim.allocations]
    owner_names = consumers.owner_names(writing)
    stored_ids = consumers.ids_of(connection, {kind: owner_names[kind] for kind in (PROJECT, USER)})
    for claim in writing:
        for kind, name in ((PROJECT, claim.project_id), (USER, claim.user_id)):
            if (kind, name) in stored_ids:
                continue
            stored_name = consumers.stored_name(connection, kind, name) or ""
            message = f"the database does not distinguish its name from {_quote(stored_name)}"
            message = f"{kind} {_quote(name)}: {message}"
            raise EntryError(Duplicate(message), message, *draft.entry_of_consumer(claim.consumer))


def _quote(name: str) -> str:
    """Return a name, in quotation marks if it begins or ends with a blank."""
    return name if name and name == name.strip() else repr(name)


def _write_instances(connection: Connection, draft: MergeState) -> None:
    differing = changed_entries(draft.before.instances, draft.after.instances).values()
    ids = flavors.ids_by_flavorid(connection) if differing else {}

    def with_row(flavor: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        if flavor is None or flavor.get("id") != cloud.FLAVOR_ROW:
            return flavor
        return {**flavor, "id": ids.get(str(flavor.get("flavorid")))}

    rows = [replace(instance, flavor=with_row(instance.flavor)) for instance in differing]
    instances.record(connection, rows, draft.now, with_metadata=True)
