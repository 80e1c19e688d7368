"""Traits of the root providers of compute nodes, asked of all nodes at once.

Whether all have a trait follows from two sets: the nodes whose service is enabled, which have a
change counter, and the providers that carry the trait, which OpenStack placement may change beside
us. Of those there is a fingerprint, read from the index alone. The ids of providers are never used
again, and one that goes takes its traits along: the same ids are the same providers.
"""

from dataclasses import dataclass

from sqlalchemy import BigInteger, Connection, and_, bindparam, cast, exists, func, select

from placement_sched.db.collations import is_same_uuid
from placement_sched.db.sql import uses_ids_again
from placement_sched.db.tables import (
    change_counters,
    compute_nodes,
    resource_provider_traits,
    resource_providers,
    traits,
)
from placement_sched.store.compute.services import ENABLED_NODES, enabled_nodes

#: A salt is less than this.
SALTS = 2**31 - 1

_CARRIED = resource_provider_traits.c
_TRAIT_ID = select(traits.c.id).where(traits.c.name == bindparam("trait")).scalar_subquery()
_VERSION = (
    select(change_counters.c.version)
    .where(change_counters.c.subject == ENABLED_NODES)
    .scalar_subquery()
)
# Sums of ids and of their squares are the same for 1, 5, 6 and for 2, 3, 7, and so they stay where
# ids are multiplied, and squared once, modulo a prime; squared again, modulo another, they do not.
# All of it fits 64 bits, and every database can do it.
_SALTED = (
    cast(_CARRIED.resource_provider_id, BigInteger) * bindparam("salt", type_=BigInteger)
) % SALTS
_MIXED = (_SALTED * _SALTED) % (2**31 - 19)
_FINGERPRINT = select(
    func.coalesce(_VERSION, 0).label("version"),
    func.count().label("carriers"),
    func.coalesce(func.sum((_MIXED * _MIXED) % SALTS), 0).label("mixed"),
).where(_CARRIED.trait_id == _TRAIT_ID)

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
# Most clouds have no carrier at all, which is found out at once, and so asked first.
_ALL_HAVE = and_(_CARRIERS.exists(), enabled_nodes().exists(), ~_LACKING.exists())
_LOOK = select(_ALL_HAVE.label("all_have"), _FINGERPRINT.subquery())


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The state that an answer depends on; the answer is valid while it is unchanged.

    Version of the enabled nodes, number of providers that carry the trait, and a sum over their
    ids. Two sets of as many ids have the same sum by one salt in some thousand million, so a
    caller with a random salt takes them for the same as rarely.
    """

    version: int
    carriers: int
    mixed: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """Whether all have a trait, and the fingerprint of that moment.

    None where nothing may be remembered: the database gives ids of providers to others again.
    """

    all_have: bool
    fingerprint: Fingerprint | None


def fingerprint(connection: Connection, trait: str, salt: int) -> Fingerprint:
    """Return the fingerprint of the moment; ``salt`` is from 1 up to :data:`SALTS`."""
    found = connection.execute(_FINGERPRINT, {"trait": trait, "salt": salt}).one()
    return Fingerprint(int(found.version), int(found.carriers), int(found.mixed))


def coverage(connection: Connection, trait: str, salt: int) -> Coverage:
    """Return whether the root provider of every node whose service is enabled has a trait.

    It is false where there is no such node. A node whose provider is not there yet lacks it. This
    looks at every node; answer and fingerprint are of one moment, as they come in one statement.
    """
    statement = _LOOK.add_columns(uses_ids_again(connection, resource_providers).label("again"))
    found = connection.execute(statement, {"trait": trait, "salt": salt}).one()
    kept = Fingerprint(int(found.version), int(found.carriers), int(found.mixed))
    return Coverage(bool(found.all_have), None if found.again else kept)
