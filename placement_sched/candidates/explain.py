"""What each constraint of a search removed, and which fewest constraints stand in the way.

Of lone providers, one statement asks which of the search's own conditions each of them meets; one
more for each constraint on amounts fetches the numbers of those refused that are to be shown.
Where trees, sharing providers or several groups combine, ``explain_trees`` tells.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import add
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, case, func, or_, select, true

from placement_sched.candidates.constraints import ROOT_REQUIRED, Constraint, Manner
from placement_sched.candidates.explain_trees import explain_trees
from placement_sched.candidates.search import Search
from placement_sched.candidates.shortages import shortage, stocks_of
from placement_sched.candidates.sieve import detail_of
from placement_sched.candidates.sums import sums_of
from placement_sched.config.settings import Settings
from placement_sched.db.tables import compute_nodes, resource_providers
from placement_sched.model.candidate import Candidates
from placement_sched.model.report import (
    CandidatesReport,
    NearMiss,
    NearMisses,
    Rejected,
    StepReport,
    View,
)

#: Which constraints a provider does not meet: a bit for each, in words of so many.
_WORD = 30
Misses = tuple[int, ...]


class _Refused(NamedTuple):
    """A provider that is told of: its host and node, or twice its name where it is none."""

    host: str
    node: str
    id: int
    misses: Misses


def explain(
    connection: Connection, search: Search, found: Candidates, settings: Settings, view: View
) -> CandidatesReport:
    """Return what every constraint of ``search`` did, each tree charged to the first only.

    ``found`` is what the plain run returned; trees that serve the request beyond were cut by the
    limit, which is then the last step. A root that is no compute node is told by its name.
    """
    if search.is_alone:
        return _explain_alone(connection, search, len(found.requests), view)
    return explain_trees(connection, search, found, settings, view)


def _explain_alone(
    connection: Connection, search: Search, found: int, view: View
) -> CandidatesReport:
    constraints = search.constraints
    (group,) = search.query.groups
    terms = [
        (one.kind, detail_of(one, "" if one.kind == ROOT_REQUIRED else group.suffix))
        for one in constraints
    ]
    providers = connection.scalar(select(func.count()).select_from(resource_providers)) or 0
    everybody_refused = _refused(connection, search)
    charged = _charge(everybody_refused, len(constraints))
    steps = []
    before = providers
    for constraint, (kind, detail), refused in zip(constraints, terms, charged, strict=True):
        after = before - len(refused)
        steps.append(
            StepReport(
                constraint=kind,
                detail=detail,
                before=before,
                after=after,
                rejected=_told(connection, constraint, _listed(refused, view)),
            )
        )
        before = after
    if found < before:
        steps.append(StepReport(constraint="limit", detail=str(found), before=before, after=found))
    return CandidatesReport(
        query=search.query.querystring(),
        providers=providers,
        hosts=found,
        steps=tuple(steps),
        nearest_misses=NearMisses() if before else _nearest(terms, everybody_refused),
    )


def _refused(connection: Connection, search: Search) -> list[_Refused]:
    """Return every provider that does not meet all constraints, by host and node."""
    (group,) = search.query.groups
    sums = sums_of(connection, [search.names.classes[name] for name, _ in group.resources])
    constraints = search.conditions(Manner(sums=sums))
    words = [
        _word(constraints[start : start + _WORD]) for start in range(0, len(constraints), _WORD)
    ]
    provider, node = resource_providers.c, compute_nodes.c
    statement = (
        select(
            func.coalesce(node.host, provider.name),
            func.coalesce(node.hypervisor_hostname, provider.name),
            provider.id,
            *words,
        )
        .select_from(resource_providers)
        .outerjoin(compute_nodes, node.uuid == provider.uuid)
        .where(or_(*(word != 0 for word in words)))
    )
    if sums is not None:
        statement = statement.join(sums.beside, true())
    meanings: dict[tuple[int, ...], Misses] = {}
    found: list[_Refused] = []
    for host, name, key, *told in connection.execute(statement):
        pattern = tuple(told)
        misses = meanings.get(pattern)
        if misses is None:
            misses = meanings[pattern] = tuple(_positions(pattern))
        found.append(_Refused(host or "", name or "", key, misses))
    return sorted(found)


def _word(constraints: Sequence[Constraint]) -> ColumnElement[int]:
    bits = (case((one.condition, 0), else_=1 << bit) for bit, one in enumerate(constraints))
    return reduce(add, bits)


def _positions(words: Sequence[int]) -> Iterator[int]:
    for number, word in enumerate(words):
        yield from (number * _WORD + bit for bit in range(_WORD) if word >> bit & 1)


def _charge(refused: Iterable[_Refused], constraints: int) -> list[list[_Refused]]:
    """Return, for each constraint, the providers that it is the first to refuse."""
    charged: list[list[_Refused]] = [[] for _ in range(constraints)]
    for one in refused:
        charged[one.misses[0]].append(one)
    return charged


def _listed(refused: Sequence[_Refused], view: View) -> Sequence[_Refused]:
    shown = [one for one in refused if view.shows(one.host, one.node)]
    return shown[: view.max_rejected or None]


def _told(
    connection: Connection, constraint: Constraint, refused: Sequence[_Refused]
) -> tuple[Rejected, ...]:
    if constraint.resource_class:
        stocks = stocks_of(connection, constraint, [one.id for one in refused])
        reasons = [shortage(constraint, stocks, one.id) for one in refused]
    else:
        reasons = [constraint.refused] * len(refused)
    return tuple(
        Rejected(one.host, one.node, reason) for one, reason in zip(refused, reasons, strict=True)
    )


def _nearest(terms: Sequence[tuple[str, str]], refused: Iterable[_Refused]) -> NearMisses:
    """Return the smallest sets of constraints that keep providers out, and nothing else does.

    A provider is let in by no less than all that it misses, so that no other set can be one.
    """
    counts = Counter(one.misses for one in refused)
    least = min(map(len, counts), default=0)
    return NearMisses.of(
        NearMiss.of([terms[position] for position in some], count)
        for some, count in sorted(counts.items())
        if len(some) == least
    )
