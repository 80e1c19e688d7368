"""The allocation-candidates search, told top to bottom.

names -> constraints -> narrow -> allocation requests

The question comes as a value and the answer is one. Summaries of the providers found are made
by ``summaries``, since the scheduler has no use for them; ``explain`` tells, of the very same
constraints, what each of them removed.
"""

from dataclasses import dataclass
from random import Random

from sqlalchemy import Connection

from placement_sched.candidates.constraints import Constraint, all_of, constraints_of
from placement_sched.candidates.names import Names, resolve
from placement_sched.candidates.narrow import narrow, sample
from placement_sched.config.settings import Settings
from placement_sched.model.candidate import AllocationRequest, CandidateProvider, Candidates
from placement_sched.model.query import CandidatesQuery, RequestGroup


@dataclass(frozen=True, slots=True)
class Search:
    """A question made ready: its constraints, to be asked plainly or explained."""

    query: CandidatesQuery
    names: Names
    constraints: tuple[Constraint, ...]


def prepare(connection: Connection, query: CandidatesQuery) -> Search:
    """Return the search that answers ``query``.

    Raises :class:`Invalid` for a resource class or trait that does not exist.
    """
    names = resolve(connection, query)
    return Search(query, names, constraints_of(query.group, names))


def find(connection: Connection, search: Search, settings: Settings, random: Random) -> Candidates:
    """Return the candidates of a search: the first by provider id, or a fair sample.

    ``[placement] randomize_allocation_candidates`` and ``max_allocation_candidates`` apply.
    """
    limit = effective_limit(search.query.limit, settings)
    condition = all_of(search.constraints)
    if settings.placement.randomize_allocation_candidates:
        providers = sample(connection, condition, limit, random)
    else:
        providers = narrow(connection, condition, limit)
    group = search.query.group
    return Candidates(
        requests=tuple(_request(provider, group) for provider in providers), providers=providers
    )


def effective_limit(asked: int | None, settings: Settings) -> int | None:
    """Return the smaller of what the caller and the operator allow; None is no limit."""
    bound = settings.placement.max_allocation_candidates
    limits = [limit for limit in (asked, bound) if limit is not None and limit >= 0]
    return min(limits, default=None)


def _request(provider: CandidateProvider, group: RequestGroup) -> AllocationRequest:
    return AllocationRequest(
        allocations={provider.uuid: dict(group.resources)},
        mappings={group.suffix: (provider.uuid,)},
        root_uuid=provider.root_uuid,
    )
