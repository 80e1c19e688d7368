# SPDX-License-Identifier: Apache-2.0
"""Providers and their traits, changed with plain SQL as by another service."""

from sqlalchemy import delete, insert, select, update

from placement_sched.db.tables import resource_provider_traits, resource_providers, traits
from placement_sched.db.transaction import Database

OWNER_TRAIT = "OWNER_NOVA"
_TRAIT_LINKS = resource_provider_traits.c


def _select_trait_id():
    return select(traits.c.id).where(traits.c.name == OWNER_TRAIT).scalar_subquery()


def _select_provider_id(uuid: str):
    return select(resource_providers.c.id).where(resource_providers.c.uuid == uuid)


def add_trait(database: Database, *uuids: str) -> None:
    """Add :data:`OWNER_TRAIT` to the existing providers without it."""

    def write_rows(connection):
        carried = select(_TRAIT_LINKS.resource_provider_id).where(
            _TRAIT_LINKS.trait_id == _select_trait_id()
        )
        lacking = select(_select_trait_id(), resource_providers.c.id).where(
            resource_providers.c.uuid.in_(uuids), resource_providers.c.id.not_in(carried)
        )
        for trait_id, provider_id in connection.execute(lacking).all():
            row = {"trait_id": trait_id, "resource_provider_id": provider_id}
            connection.execute(insert(resource_provider_traits), row)

    database.write(write_rows)


def create_root_provider(database: Database, uuid: str, number: int | None = None) -> None:
    """Create a root provider, with ``number`` as its id if given."""
    row = {"uuid": uuid, "name": uuid, "generation": 0} | ({"id": number} if number else {})

    def write_rows(connection):
        connection.execute(insert(resource_providers), row)
        itself = update(resource_providers).where(resource_providers.c.uuid == uuid)
        connection.execute(itself.values(root_provider_id=resource_providers.c.id))

    database.write(write_rows)


def delete_root_provider(database: Database, uuid: str) -> None:
    """Delete a root provider and its traits, if it exists, and leave its inventories."""

    def write_rows(connection):
        carried = _TRAIT_LINKS.resource_provider_id == _select_provider_id(uuid).scalar_subquery()
        connection.execute(delete(resource_provider_traits).where(carried))
        itself = resource_providers.c.uuid == uuid
        connection.execute(update(resource_providers).where(itself).values(root_provider_id=None))
        connection.execute(delete(resource_providers).where(itself))

    database.write(write_rows)


def read_providers_with_trait(database: Database) -> set[str]:
    """Return the uuids of the providers that carry :data:`OWNER_TRAIT`."""
    query = (
        select(resource_providers.c.uuid)
        .join(
            resource_provider_traits, _TRAIT_LINKS.resource_provider_id == resource_providers.c.id
        )
        .where(_TRAIT_LINKS.trait_id == _select_trait_id())
    )
    with database.read() as connection:
        return set(connection.scalars(query))
