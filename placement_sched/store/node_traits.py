"""Traits of the root providers of compute nodes, asked of all nodes at once."""

from sqlalchemy import Connection, Select, and_, exists, literal, select

from placement_sched.db.tables import (
    compute_nodes,
    resource_provider_traits,
    resource_providers,
    services,
    traits,
)
from placement_sched.model.service import COMPUTE_BINARY


def all_have(connection: Connection, trait: str) -> bool:
    """Return whether the root provider of every node whose service is enabled has a trait.

    It is false where there is no such node. A node whose provider is not there yet lacks it.
    """
    carried = resource_provider_traits.c
    trait_id = select(traits.c.id).where(traits.c.name == trait).scalar_subquery()
    carriers = select(carried.resource_provider_id).where(carried.trait_id == trait_id)
    has_it = exists().where(
        carried.trait_id == trait_id, carried.resource_provider_id == resource_providers.c.id
    )
    lacking = (
        _enabled()
        .outerjoin(resource_providers, resource_providers.c.uuid == compute_nodes.c.uuid)
        .where(~has_it)
    )
    # Most clouds have no carrier at all, which is found out at once, and so asked first.
    answer = and_(carriers.exists(), _enabled().exists(), ~lacking.exists())
    return bool(connection.scalar(select(answer)))


def _enabled() -> Select[int]:
    """Return the query of the compute nodes whose service is enabled."""
    return (
        select(literal(1))
        .select_from(compute_nodes)
        .join(
            services,
            and_(services.c.host == compute_nodes.c.host, services.c.binary == COMPUTE_BINARY),
        )
        .where(services.c.disabled == 0)
    )
