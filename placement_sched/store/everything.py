"""All rows of a noun at once, for who wants the whole cloud: few statements, whatever its size."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Select, select

from placement_sched.db.batches import batches
from placement_sched.db.tables import (
    flavor_projects,
    image_members,
    inventories,
    placement_aggregates,
    resource_classes,
    resource_provider_aggregates,
    resource_provider_traits,
    traits,
)
from placement_sched.model.inventory import Inventory
from placement_sched.model.provider import Provider
from placement_sched.store.resource_providers import PROVIDERS, read_providers

_AMOUNTS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")


def providers(connection: Connection) -> tuple[Provider, ...]:
    """Return every resource provider, by id."""
    return read_providers(connection, PROVIDERS)


def inventories_by_provider(
    connection: Connection, ids: Iterable[int] | None = None
) -> dict[int, dict[str, Inventory]]:
    """Return every inventory, or those of some providers, by provider id and class; no times."""
    columns = inventories.c
    query = select(
        columns.resource_provider_id,
        resource_classes.c.name,
        *(columns[name] for name in _AMOUNTS),
    ).join(resource_classes, resource_classes.c.id == columns.resource_class_id)
    queries = (
        [query]
        if ids is None
        else [query.where(columns.resource_provider_id.in_(batch)) for batch in batches(ids)]
    )
    found: dict[int, dict[str, Inventory]] = defaultdict(dict)
    for one in queries:
        for number, name, *amounts in connection.execute(one):
            found[number][name] = Inventory(
                resource_class=name, **dict(zip(_AMOUNTS, amounts, strict=True))
            )
    return found


def traits_by_provider(connection: Connection) -> dict[int, set[str]]:
    """Return the names of the traits that each provider has, by provider id."""
    columns = resource_provider_traits.c
    query = select(columns.resource_provider_id, traits.c.name).join(
        traits, traits.c.id == columns.trait_id
    )
    return _gathered(connection, query)


def aggregates_by_provider(connection: Connection) -> dict[int, set[str]]:
    """Return the uuids of the aggregates that each provider is in, by provider id."""
    columns = resource_provider_aggregates.c
    query = select(columns.resource_provider_id, placement_aggregates.c.uuid).join(
        placement_aggregates, placement_aggregates.c.id == columns.aggregate_id
    )
    return _gathered(connection, query)


def projects_by_flavor(connection: Connection) -> dict[int, set[str]]:
    """Return the projects that each flavor is for, by the number of its row."""
    return _gathered(connection, select(flavor_projects.c.flavor_id, flavor_projects.c.project_id))


def members_by_image(connection: Connection) -> dict[int, dict[str, str]]:
    """Return the statuses of the members of each image, by the number of its row and project."""
    columns = image_members.c
    found: dict[int, dict[str, str]] = defaultdict(dict)
    query = select(columns.image_id, columns.member, columns.status)
    for number, member, status in connection.execute(query):
        found[number][member] = status
    return found


def _gathered(connection: Connection, query: Select[Any]) -> dict[int, set[str]]:
    found: dict[int, set[str]] = defaultdict(set)
    for number, text in connection.execute(query):
        found[number].add(text)
    return found
