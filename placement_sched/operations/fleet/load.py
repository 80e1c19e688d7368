# SPDX-License-Identifier: Apache-2.0
"""Loads of fleet files in a single transaction, with lists of changes.

The writes are the same as for reports of hosts and requests of operators. All objects of a kind are
written together.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import ConcurrentUpdate, Conflict, Invalid, NotFound
from placement_sched.model.aggregates import ZONE_KEY, HostAggregate
from placement_sched.model.clock import Clock
from placement_sched.model.compute_node import COMPUTE_BINARY, RATIOS, Service
from placement_sched.model.document import Json
from placement_sched.model.provider import ConsumerClaim, Inventory
from placement_sched.model.retry import call_with_retries
from placement_sched.operations import aggregates as aggregate_ops
from placement_sched.operations import reports
from placement_sched.operations.fleet import cloud
from placement_sched.operations.fleet.cloud import (
    FlavorState,
    MergeState,
    ProviderState,
    State,
    read_state,
    select_changed,
)
from placement_sched.operations.fleet.dump import build_document
from placement_sched.operations.fleet.merge import merge
from placement_sched.operations.nova_cloud import check_sections
from placement_sched.scheduler.policies.registry import NO_RATIOS
from placement_sched.schemas.formats import DocumentError
from placement_sched.schemas.node_report import NodeReport
from placement_sched.schemas.yaml_file import YamlFile, to_yaml
from placement_sched.store import change_counters, images
from placement_sched.store.compute import flavors, instances, server_groups, services
from placement_sched.store.compute import host_aggregates as aggregate_rows
from placement_sched.store.placement import (
    aggregates,
    allocations,
    inventories,
    resource_classes,
    resource_providers,
    traits,
)

NEW, CHANGED, GONE = "new", "changed", "gone"

#: Fields that are omitted from differences.
_HIDDEN = frozenset({"uuid", "generation", "version", "created_at", "updated_at", "id"})
#: The change counter whose row serializes loads.
SUBJECT = "fleet"


@contextmanager
def _locate_errors(
    merge_state: MergeState, kind: str, uuid: str, name: str, *keys: str
) -> Iterator[None]:
    """Convert errors of an object's write to errors at its entry in the file.

    ``keys`` are the path from the entry to the value that is written. Errors about concurrent
    updates are raised unchanged.
    """
    try:
        yield
    except ConcurrentUpdate:
        raise
    except (Conflict, Invalid, NotFound) as error:
        place = (*merge_state.entries.get((kind, uuid), ()), *keys)
        raise DocumentError(f"{kind} {name}: {error.detail}", *place) from None


def apply(connection: Connection, merge_state: MergeState) -> None:
    """Write a merge of the same transaction, or raise DocumentError."""
    before, after, now = merge_state.before, merge_state.after, merge_state.now
    for name in sorted(after.resource_classes - before.resource_classes):
        resource_classes.add(connection, name, now)
    traits.add_missing(connection, sorted(after.traits - before.traits), now)
    _write_flavors(connection, merge_state)
    _write_images(connection, merge_state)
    groups = select_changed(before.server_groups, after.server_groups)
    server_groups.put(connection, list(groups.values()), now)
    # Every write of a member locks its group, so that the group is not deleted concurrently.
    joined = {item.server_group for item in after.instances.values() if item.server_group}
    server_groups.lock_many(connection, joined & after.server_groups.keys())
    _write_nodes(connection, merge_state)
    _write_aggregates(connection, merge_state)
    superfluous = _write_providers(connection, merge_state)
    _write_allocations(connection, merge_state)
    inventories.remove(connection, superfluous)
    _write_instances(connection, merge_state)


def _write_flavors(connection: Connection, merge_state: MergeState) -> None:
    former = merge_state.before.flavors
    differing = select_changed(former, merge_state.after.flavors)
    if not differing:
        return
    change_counters.bump(connection, flavors.SUBJECT)
    new = [item.flavor for flavorid, item in differing.items() if flavorid not in former]
    flavors.add_many(connection, new, merge_state.now)
    ids = flavors.map_ids_by_flavorid(connection)
    for flavorid in differing.keys() & former.keys():
        flavors.change(connection, ids[flavorid], differing[flavorid].flavor, merge_state.now)
    projects = {ids[flavorid]: state.projects for flavorid, state in differing.items()}
    flavors.replace_projects(connection, projects, merge_state.now)


def _write_images(connection: Connection, merge_state: MergeState) -> None:
    former, now = merge_state.before.images, merge_state.now
    differing = select_changed(former, merge_state.after.images)
    new = [image for uuid, image in differing.items() if uuid not in former]
    images.add_many(connection, [replace(item, created_at=now, updated_at=now) for item in new])
    for uuid in differing.keys() & former.keys():
        old = images.find_by_uuid(connection, uuid, lock=True)
        if old is not None:
            image = replace(differing[uuid], created_at=old.created_at, updated_at=now)
            images.change(connection, old, image)


def _write_nodes(connection: Connection, merge_state: MergeState) -> None:
    former, after, now = merge_state.before, merge_state.after, merge_state.now
    differing = select_changed(former.nodes, after.nodes).values()
    # Inventories are written with the providers.
    reported = [NodeReport(node=node, inventories=False) for node in differing]
    reports.record_reports(connection, reported, now)
    hosts = {node.host for node in differing}
    changed_services = [
        service
        for key, service in after.services.items()
        # A report has created the service or set its heartbeat, which may differ from the file.
        if former.services.get(key) != service or service.host in hosts
    ]
    services.put(connection, changed_services, now)
    old, new = former.find_disabled_hosts(), after.find_disabled_hosts()
    for disabled, changed in ((True, new - old), (False, old - new)):
        uuids = [uuid for uuid, node in after.nodes.items() if node.host in changed]
        reports.mark_disabled(connection, uuids, disabled=disabled, now=now)


def _write_aggregates(connection: Connection, merge_state: MergeState) -> None:
    now, policies = merge_state.now, merge_state.policies
    triples = _create_aggregates(connection, merge_state)
    # All hosts leave before any host joins, so that no host is in two zones.
    for number, previous, aggregate in triples:
        for host in sorted(previous.hosts - aggregate.hosts):
            with _locate_errors(merge_state, "aggregate", aggregate.uuid, aggregate.name, "hosts"):
                aggregate_ops.remove_host(connection, number, host, now, policies)
    for number, previous, aggregate in triples:
        removed = previous.metadata.keys() - aggregate.metadata
        changes: dict[str, str | None] = dict.fromkeys(removed)
        changes |= select_changed(previous.metadata, aggregate.metadata)
        key = ZONE_KEY if ZONE_KEY in changes else "metadata"
        with _locate_errors(merge_state, "aggregate", aggregate.uuid, aggregate.name, key):
            if previous.name != aggregate.name:
                aggregate_ops.update(connection, number, {"name": aggregate.name}, now)
            if changes:
                aggregate_ops.set_metadata(connection, number, changes, now, policies)
    for number, previous, aggregate in triples:
        if joining := aggregate.hosts - previous.hosts:
            with _locate_errors(merge_state, "aggregate", aggregate.uuid, aggregate.name, "hosts"):
                aggregate_ops.add_hosts(connection, number, joining, now, policies)


def _create_aggregates(
    connection: Connection, merge_state: MergeState
) -> list[tuple[int, HostAggregate, HostAggregate]]:
    """Create new aggregates, and list all aggregates that the merge changes.

    The result has the database id of each, and the aggregate before and after the merge. A new
    aggregate begins without hosts and metadata.
    """
    former = merge_state.before.aggregates
    changed = select_changed(former, merge_state.after.aggregates)
    for uuid, aggregate in changed.items():
        if uuid not in former:
            with _locate_errors(merge_state, "aggregate", uuid, aggregate.name, "name"):
                aggregate_ops.create(connection, uuid, aggregate.name, None, merge_state.now)
    ids = {item.uuid: item.id for item in aggregate_rows.read_snapshot(connection)}
    return [
        (ids[uuid], former.get(uuid) or HostAggregate(id=0, uuid=uuid, name=after.name), after)
        for uuid, after in changed.items()
    ]


def _write_providers(
    connection: Connection, merge_state: MergeState
) -> Mapping[int, frozenset[str]]:
    """Write the changed providers, and return inventories to delete later.

    The result maps provider ids to classes. These inventories are deleted after their allocations.
    Raises :class:`Duplicate` if a name is in use, and :class:`DocumentError` if a provider would be
    its own descendant.
    """
    # Lists in the file replace the effects of the hosts and aggregates, which are already written.
    after, now = merge_state.after.providers, merge_state.now
    written = select_changed(merge_state.before.providers, after).keys() | merge_state.given_lists
    present = cloud.read_providers(connection)
    _complete_roots(merge_state, present)
    changed = select_changed(present, after)
    written_providers = {uuid: provider for uuid, provider in changed.items() if uuid in written}
    if not written_providers:
        return {}
    existing = {uuid: state for uuid, state in written_providers.items() if uuid in present}
    new = [
        (uuid, item.name, item.parent)
        for uuid, item in written_providers.items()
        if uuid not in present
    ]
    resource_providers.create_trees(connection, new, now)
    stored = resource_providers.map_by_uuid(connection, written_providers)
    names = {uuid: state.name for uuid, state in existing.items()}
    renamed = {stored[uuid].id: name for uuid, name in names.items() if present[uuid].name != name}
    resource_providers.rename_many(connection, renamed, now)
    for uuid, state in existing.items():
        if present[uuid].parent != state.parent:
            parent = after.get(state.parent or "")
            below = "" if parent is None else f" below {parent.name}"
            with _locate_errors(merge_state, "provider", uuid, f"{state.name}{below}"):
                resource_providers.move(connection, uuid, state.parent, anywhere=True, now=now)
    resource_providers.lock(connection, [state.id for state in stored.values()])
    by_id = {stored[uuid].id: state for uuid, state in written_providers.items()}
    rows = {number: tuple(state.inventories.values()) for number, state in by_id.items()}
    of_traits = {number: state.traits for number, state in by_id.items()}
    joined = {number: state.aggregates for number, state in by_id.items()}
    differing = inventories.put(connection, rows, now)
    differing |= traits.replace_many(connection, of_traits, now)
    differing |= aggregates.replace_many(connection, joined, now)
    superfluous = {
        stored[uuid].id: frozenset(removed)
        for uuid, state in existing.items()
        if (removed := present[uuid].inventories.keys() - state.inventories.keys())
    }
    resource_providers.bump_generations(connection, differing | superfluous.keys(), now)
    return superfluous


def _complete_roots(merge_state: MergeState, present: Mapping[str, ProviderState]) -> None:
    # The writes of hosts and aggregates have changed providers. Only the lists and ratios in the
    # file replace these changes.
    after = merge_state.after
    joined, disabled_hosts = after.map_aggregates_by_host(), after.find_disabled_hosts()
    ratios_by_host = after.map_ratios_by_host(merge_state.policies)
    for uuid, node in after.nodes.items():
        if (provider := after.providers.get(uuid)) is None:
            continue
        current, former = present.get(uuid), merge_state.before.providers.get(uuid)
        members, traits_of_root = provider.aggregates, provider.traits
        given_lists = merge_state.given_lists.get(uuid, ())
        if "aggregates" not in given_lists:
            members = current.aggregates if current else joined.get(node.host, frozenset())
        if current and "traits" not in given_lists:
            traits_of_root = current.traits
        elif node.host in disabled_hosts:
            traits_of_root |= {reports.DISABLED_TRAIT}
        ratios = ratios_by_host.get(node.host, NO_RATIOS)
        old, new = (state.inventories if state else {} for state in (former, current))
        inventories_of_root = {
            name: _with_ratio(item, ratios.get(RATIOS.get(name, "")), old.get(name), new.get(name))
            for name, item in provider.inventories.items()
        }
        after.providers[uuid] = replace(
            provider, aggregates=members, traits=traits_of_root, inventories=inventories_of_root
        )


def _with_ratio(
    item: Inventory, ratio: float | None, former: Inventory | None, current: Inventory | None
) -> Inventory:
    is_unchanged = former is not None and former.allocation_ratio == item.allocation_ratio
    if ratio is None and is_unchanged and current:
        ratio = current.allocation_ratio
    return item if ratio is None else replace(item, allocation_ratio=ratio)


def _write_allocations(connection: Connection, merge_state: MergeState) -> None:
    before = merge_state.before.consumers
    emptied = {
        uuid: replace(claim, consumer_type=None, allocations={}) for uuid, claim in before.items()
    }
    changed = select_changed(before, {**emptied, **merge_state.after.consumers})
    # The generations reject concurrent writes.
    claims = [
        replace(claim, generation=merge_state.before.generations.get(uuid))
        for uuid, claim in changed.items()
    ]
    if claims:
        # The file describes existing allocations, which may exceed a host that has shrunk.
        allocations.replace(connection, claims, merge_state.now, skip_capacity_check=True)


def _write_instances(connection: Connection, merge_state: MergeState) -> None:
    differing = select_changed(merge_state.before.instances, merge_state.after.instances).values()
    ids = flavors.map_ids_by_flavorid(connection) if differing else {}

    def with_row_id(flavor: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        row_id = ids.get(str(flavor.get("flavorid"))) if flavor else None
        return flavor if flavor is None or row_id is None else {**flavor, "id": row_id}

    rows = [replace(instance, flavor=with_row_id(instance.flavor)) for instance in differing]
    instances.record(connection, rows, merge_state.now, with_metadata=True)


@dataclass(frozen=True, slots=True)
class Difference:
    """An object that is new, changed or gone.

    ``action`` is :data:`NEW`, :data:`CHANGED` or :data:`GONE`, ``kind`` the kind of object. For a
    changed object, ``details`` has the field, old and new value of each change.
    """

    action: str
    kind: str
    name: str
    details: tuple[tuple[str, Any, Any], ...] = ()


#: Fields of the state, with the noun and the name of an object, in the order of sections.
_KINDS: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "flavors": ("flavor", lambda thing: thing.name),
    "images": ("image", lambda thing: thing.name or thing.uuid),
    "server_groups": ("server group", lambda thing: thing.name),
    "nodes": ("host", lambda thing: thing.hypervisor_hostname),
    "services": ("service", lambda thing: f"{thing.binary} of {thing.host}"),
    "providers": ("provider", lambda thing: thing.name),
    "aggregates": ("aggregate", lambda thing: thing.name),
    "instances": ("instance", lambda thing: thing.display_name),
}


def list_differences(before: State, after: State) -> tuple[Difference, ...]:
    """List differences of two clouds, without objects implied by new hosts."""
    classes = sorted(after.resource_classes - before.resource_classes)
    changes = [Difference(NEW, "resource class", name) for name in classes]
    changes += [Difference(NEW, "trait", name) for name in sorted(after.traits - before.traits)]
    new_nodes = {uuid: node for uuid, node in after.nodes.items() if uuid not in before.nodes}
    implied: set[Any] = {*new_nodes, *((node.host, COMPUTE_BINARY) for node in new_nodes.values())}

    def get_consumer_name(consumer: ConsumerClaim) -> str:
        instance = after.instances.get(consumer.consumer)
        return consumer.consumer if instance is None else instance.display_name

    kind = "allocations of"
    for field, (noun, name_of) in {**_KINDS, "consumers": (kind, get_consumer_name)}.items():
        former = getattr(before, field)
        for key, thing in select_changed(former, getattr(after, field)).items():
            if key in former:
                details = _compare(_as_document(former[key]), _as_document(thing))
                changes.append(Difference(CHANGED, noun, name_of(thing), tuple(details)))
                continue
            is_special = field == "services" and (thing.disabled or thing.forced_down)
            if field not in {"services", "providers"} or key not in implied or is_special:
                changes.append(Difference(NEW, noun, name_of(thing)))
    removed = [thing for uuid, thing in before.consumers.items() if uuid not in after.consumers]
    return (*changes, *(Difference(GONE, kind, get_consumer_name(thing)) for thing in removed))


def _compare(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}, key=str):
            yield from _compare(old.get(key), new.get(key), f"{path}.{key}".lstrip("."))
    elif old != new:
        yield path, old, new


def _as_document(thing: Any) -> Json:
    if isinstance(thing, FlavorState):
        return {**_as_document(thing.flavor), "projects": sorted(thing.projects)}
    values = thing._asdict() if isinstance(thing, Service) else thing
    text = orjson.dumps(values, default=_serialize, option=orjson.OPT_NON_STR_KEYS)
    return {key: value for key, value in orjson.loads(text).items() if key not in _HIDDEN}


def _serialize(value: Any) -> Any:
    return sorted(value) if isinstance(value, frozenset) else dict(value)


class _DryRunError(Exception):
    """Exception that rolls back a dry run, with the differences as arguments."""


def load(
    connection: Connection, document: Any, settings: Settings, now: datetime
) -> tuple[Difference, ...]:
    """Load a decoded file, or raise DocumentError and errors of :func:`apply`."""
    check_sections(document, settings)
    merge_state = merge(connection, document, settings, now)
    apply(connection, merge_state)
    return list_differences(merge_state.before, merge_state.after)


def load_file(
    database: Database, settings: Settings, clock: Clock, text: str, name: str, *, dry_run: bool
) -> tuple[Difference, ...]:
    """Load a fleet file in a single transaction, and return the changes.

    ``text`` is the content of the file ``name``. A dry run is rolled back. Raises :class:`Invalid`
    with line and column for a wrong file or a change of nova's objects, and :class:`Conflict` if
    the present cloud prevents a change.
    """
    file = YamlFile(text, name)

    def load_document(connection: Connection) -> tuple[Difference, ...]:
        change_counters.bump(connection, SUBJECT)
        changes = file.read(lambda document: load(connection, document, settings, clock()))
        if dry_run:
            raise _DryRunError(*changes)
        return changes

    try:
        return call_with_retries(lambda: database.write(load_document))
    except _DryRunError as done:
        return done.args


def dump_file(database: Database, settings: Settings, clock: Clock) -> str:
    """Return a fleet file that recreates the cloud in an empty database."""
    with database.open_snapshot() as connection:
        state = read_state(connection, settings.unknown_owner)
    return to_yaml(build_document(state, settings, clock()))
