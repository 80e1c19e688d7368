"""Traits of the root providers of compute nodes, checked for all nodes at once."""

from sqlalchemy import Connection, and_, bindparam, exists, select

from placement_sched.db.collations import is_same_uuid
from placement_sched.db.tables import (
    compute_nodes,
    resource_provider_traits,
    resource_providers,
    traits,
)
from placement_sched.store.compute.services import enabled_nodes

_CARRIED = resource_provider_traits.c
_TRAIT_ID = select(traits.c.id).where(traits.c.name == bindparam("trait")).scalar_subquery()
_CARRIERS = select(_CARRIED.resource_provider_id).where(_CARRIED.trait_id == _TRAIT_ID)
_LACKING = (
    enabled_nodes()
    .outerjoin(resource_providers, is_same_uuid(resource_providers.c.uuid, compute_nodes.c.uuid))
    .where(
        ~exists().where(
            _CARRIED.trait_id == _TRAIT_ID, _CARRIED.resource_provider_id == resource_providers.c.id
        )
    )
)
# Most clouds have no provider with the trait. That takes no time, so it is checked first.
_ALL_HAVE = select(and_(_CARRIERS.exists(), enabled_nodes().exists(), ~_LACKING.exists()))


def all_nodes_have(connection: Connection, trait: str) -> bool:
    """Return whether the root provider of every node whose service is enabled has a trait.

    It is false if there is no such node. A node whose provider is not there yet lacks it.
    """
    return bool(connection.scalar(_ALL_HAVE, {"trait": trait}))
