"""A request as it is asked of trees, and which trees might serve it."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import CTE, Connection, Select, exists, or_, select

from placement_sched.candidates.combine import Rules
from placement_sched.candidates.constraints import Condition, apart, carriers_of
from placement_sched.candidates.names import Names
from placement_sched.candidates.parts import Part
from placement_sched.candidates.topology import Topology, sharing_pairs
from placement_sched.db.tables import resource_providers
from placement_sched.model.query import TraitTerms

#: So many slots are asked at once; a planner joins the tables of each.
_JOINED = 3
#: So many sets of traits that must be somewhere in a tree are asked for.
_SETS = 16

_itself = resource_providers.c
#: A root provider, whatever other providers a statement looks at.
ROOT = resource_providers.alias("tree")


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """A request ready to be asked of trees."""

    parts: tuple[Part, ...]
    rules: Rules
    root: TraitTerms
    names: Names
    topology: Topology

    def root_conditions(self) -> Iterator[Condition]:
        """Yield what is asked of the root of a tree."""
        ids = self.names.traits
        for any_of in self.root.required:
            yield ROOT.c.id.in_(carriers_of(ids[name] for name in any_of))
        if self.root.forbidden:
            yield ROOT.c.id.not_in(carriers_of(ids[name] for name in self.root.forbidden))


def roots_of(forest: Forest, after: int = 0) -> Select[int]:
    """Return the query of the roots behind ``after`` that are as asked, by id.

    These are of all such trees, whether or not they can serve the request.
    """
    return (
        select(ROOT.c.id)
        .where(
            ROOT.c.id > after,
            # What has no parent is a root; said so, since an index counts them.
            ROOT.c.parent_provider_id.is_(None),
            ROOT.c.root_provider_id.is_not(None),
            *forest.root_conditions(),
        )
        .order_by(ROOT.c.id)
    )


def serving_roots(
    connection: Connection, forest: Forest, limit: int | None, after: int = 0
) -> list[int]:
    """Return the first ``limit`` roots, by id behind ``after``, of trees that may serve.

    Each slot has a provider there that could serve it alone; whether they do together is for
    the combination to say.
    """
    pairs = sharing_pairs() if forest.topology.sharing else None
    statement = (
        select(ROOT.c.id)
        .where(
            ROOT.c.id > after,
            ROOT.c.id == ROOT.c.root_provider_id,
            *forest.root_conditions(),
            *_traits_somewhere(forest),
            *_servers_somewhere(forest, pairs),
        )
        .order_by(ROOT.c.id)
        .limit(limit)
    )
    return list(connection.scalars(statement))


def _traits_somewhere(forest: Forest) -> Iterator[Condition]:
    """Yield that the tree has the traits required of several providers together.

    Which of them bring it, the combination tells; a provider that shares might, too. The first
    sets, which are the smallest, leave the fewest trees; to ask for a thousand would take longer
    than to look at the trees.
    """
    if forest.topology.sharing:
        return
    for number, choices in enumerate(forest.rules.trait_choices[:_SETS]):
        condition = exists().where(
            _itself.root_provider_id == ROOT.c.id, _itself.id.in_(carriers_of(choices))
        )
        yield condition if number < _JOINED else apart(condition)


def _servers_somewhere(forest: Forest, pairs: CTE | None) -> Iterator[Condition]:
    for number, part in enumerate(forest.parts):
        condition = _has_server(part, pairs)
        yield condition if number < _JOINED else apart(condition)


def _has_server(part: Part, pairs: CTE | None) -> Condition:
    own = exists().where(_itself.root_provider_id == ROOT.c.id, part.condition())
    if pairs is None:
        return own
    sharing = select(pairs.c.anchor_id).join(resource_providers, _itself.id == pairs.c.provider_id)
    return or_(own, ROOT.c.id.in_(sharing.where(part.condition_shared(pairs.c.anchor_id))))
