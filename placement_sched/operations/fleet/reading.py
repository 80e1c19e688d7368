"""What a database keeps of a cloud, as one value."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import os_resource_classes
import os_traits

from placement_sched.db.connection import Connection
from placement_sched.model.allocation import Allocation
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.instance import Instance
from placement_sched.operations.fleet.state import (
    ITS_ROW,
    AggregateState,
    ConsumerState,
    FlavorState,
    ImageState,
    ProviderState,
    ServiceState,
    State,
)
from placement_sched.store import (
    allocations,
    compute_nodes,
    everything,
    flavors,
    host_aggregates,
    images,
    instances,
    resource_classes,
    server_groups,
    services,
    traits,
)

Document = Mapping[str, Any]


def read(connection: Connection, nobody: tuple[str, str]) -> State:
    """Return what there is; ``nobody`` are project and user of consumers of which none is known.

    The number of statements does not depend on how much that is. All of it is of one moment only
    where the caller's transaction sees one moment.
    """
    stored = flavors.all_flavors(connection)
    rows = {str(one.flavorid): one.id for one in stored}
    return State(
        resource_classes=resource_classes.all_names(connection)
        - set(os_resource_classes.STANDARDS),
        traits=traits.all_names(connection) - set(os_traits.get_traits()),
        flavors=_flavors(connection, stored),
        images=_images(connection),
        server_groups={
            str(one.uuid): replace(one, members=()) for one in server_groups.search(connection)
        },
        nodes={node.uuid: plain_node(node) for node in compute_nodes.search(connection)},
        services={
            (one.host, one.binary): ServiceState(
                uuid=one.uuid,
                host=one.host,
                binary=one.binary,
                disabled=one.disabled,
                disabled_reason=one.disabled_reason,
                forced_down=one.forced_down,
                last_seen_up=one.last_seen_up,
            )
            for one in services.search(connection)
        },
        providers=_providers(connection),
        aggregates={
            one.uuid: AggregateState(
                uuid=one.uuid, name=one.name, metadata=dict(one.metadata), hosts=one.hosts
            )
            for one in host_aggregates.snapshot(connection)
        },
        instances={one.uuid: plain_instance(one, rows) for one in instances.search(connection)},
        consumers=_consumers(allocations.everything(connection), nobody),
    )


def plain_node(node: ComputeNode) -> ComputeNode:
    """Return a node without what its row alone tells."""
    return replace(node, version=0, created_at=None, updated_at=None)


def plain_instance(instance: Instance, rows: Mapping[str, Any]) -> Instance:
    """Return an instance without what its row alone tells; ``rows`` has flavors' numbers."""
    return replace(
        instance,
        flavor=None if instance.flavor is None else plain_flavor(instance.flavor, rows),
        decision_uuid=None,
        created_at=None,
        updated_at=None,
    )


def plain_flavor(document: Document, rows: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recorded flavor with :data:`ITS_ROW` in place of the number of its row."""
    number = document.get("id")
    if number is not None and number == rows.get(str(document.get("flavorid"))):
        return {**document, "id": ITS_ROW}
    return dict(document)


def _flavors(connection: Connection, stored: Iterable[Any]) -> dict[str, FlavorState]:
    projects = everything.projects_by_flavor(connection)
    return {
        str(one.flavorid): FlavorState(
            flavor=replace(one, id=None), projects=frozenset(projects.get(one.id, ()))
        )
        for one in stored
    }


def _images(connection: Connection) -> dict[str, ImageState]:
    members = everything.members_by_image(connection)
    return {
        one.uuid: ImageState(
            image=replace(one, id=None, created_at=None, updated_at=None),
            members=dict(members.get(one.id or 0, {})),
        )
        for one in images.all_images(connection)
    }


def _providers(connection: Connection) -> dict[str, ProviderState]:
    stocks = everything.inventories_by_provider(connection)
    carried = everything.traits_by_provider(connection)
    joined = everything.aggregates_by_provider(connection)
    return {
        one.uuid: ProviderState(
            uuid=one.uuid,
            name=one.name or "",
            parent=one.parent_uuid,
            inventories=stocks.get(one.id, {}),
            traits=frozenset(carried.get(one.id, ())),
            aggregates=frozenset(joined.get(one.id, ())),
        )
        for one in everything.providers(connection)
    }


def _consumers(held: Iterable[Allocation], nobody: tuple[str, str]) -> dict[str, ConsumerState]:
    amounts: dict[str, dict[str, dict[str, int]]] = {}
    owners = {}
    for one in held:
        owners[one.consumer.uuid] = one.consumer
        places = amounts.setdefault(one.consumer.uuid, {})
        places.setdefault(one.provider_uuid, {})[one.resource_class] = one.used
    return {
        uuid: ConsumerState(
            uuid=uuid,
            project_id=owners[uuid].project_id or nobody[0],
            user_id=owners[uuid].user_id or nobody[1],
            consumer_type=owners[uuid].consumer_type,
            generation=owners[uuid].generation,
            allocations=places,
        )
        for uuid, places in amounts.items()
    }
