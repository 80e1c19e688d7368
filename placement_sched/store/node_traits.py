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

    It is false where no such node has it. A node without a provider has nothing to lack it, and
    cannot be a candidate.
    """
    carried = exists().where(
        resource_provider_traits.c.resource_provider_id == resource_providers.c.id,
        resource_provider_traits.c.trait_id
        == select(traits.c.id).where(traits.c.name == trait).scalar_subquery(),
    )
    someone, lacking = _enabled().where(carried), _enabled().where(~carried)
    return bool(connection.scalar(select(and_(someone.exists(), ~lacking.exists()))))


def _enabled() -> Select[int]:
    """Return the query of the providers of nodes whose service is enabled."""
    return (
        select(literal(1))
        .select_from(compute_nodes)
        .join(
            services,
            and_(services.c.host == compute_nodes.c.host, services.c.binary == COMPUTE_BINARY),
        )
        .join(resource_providers, resource_providers.c.uuid == compute_nodes.c.uuid)
        .where(~services.c.disabled)
    )
