"""How many rejected hosts are reported with all their reasons; the others have their first.

All reasons of a host, and what would have to change, cost as much as the request is large: each is
found by asking every stage of this host alone. A request of any size may ask about thousands.
"""

from collections.abc import Mapping, Sequence, Sized

from placement_sched.candidates.explain_stages import stages_of
from placement_sched.candidates.search import Search
from placement_sched.model.explanation import CANDIDATES, FILTERS, Funnel, RejectReason
from placement_sched.scheduler.choose import Run

#: So many rejected hosts have all their reasons, however large the request is.
LEAST = 20
#: What the verdicts of a request may cost together, in the time that a name in a list takes, about
#: a microsecond: of a usual request several hundred hosts have all their reasons.
_BUDGET = 250_000
#: How many times as much as a name costs what a filter compares: an extra spec or a property.
_COMPARED = 10
#: How many times as much a constraint of the search costs, which each group may have to meet.
_CONSTRAINT = 35

#: What is said in place of the other reasons.
NOT_SOUGHT = (
    "only the first reason is shown, without changes: a request as large as this one is evaluated "
    "by every stage for {} of the rejected hosts; name fewer hosts"
)
_UNSEEN = (
    "why was not sought: a request as large as this one is evaluated by every stage for {} of the "
    "rejected hosts; name fewer hosts"
)


def number_with_all_reasons(run: Run, searches: Sequence[Search]) -> int:
    """Return how many rejected hosts have all their reasons, the fewer the larger the request."""
    spec = run.narrowed.spec
    group = spec.instance_group
    lists: list[Sized | None] = [
        spec.force_hosts,
        spec.force_nodes,
        spec.ignore_hosts,
        *spec.scheduler_hints.values(),
        *((group.hosts, group.members) if group else ()),
    ]
    names = sum(len(some) for some in lists if some)
    compared = len(spec.flavor.extra_specs) + len(spec.image.properties.to_dict())
    constraints = sum(len(stages_of(one)) * len(one.query.groups) for one in searches)
    price = 1 + names + _COMPARED * compared + _CONSTRAINT * constraints
    return max(LEAST, _BUDGET // price)


class FirstReasons:
    """The first reason of each host that the funnel of a run lists as rejected."""

    def __init__(self, funnel: Funnel, complete: int) -> None:
        """Take the funnel, and of how many hosts all reasons are sought, which the others say."""
        self._of_request = [one for one in funnel.request_filters if one.refusal]
        self._by_host = _by_host(funnel)
        self._complete = complete

    def of(self, host: str, node: str) -> tuple[RejectReason, ...]:
        """Return the first reason of a node, and that others were not sought."""
        first = self._by_host.get((host, node))
        if self._of_request:
            first = RejectReason.of_request_filter(self._of_request[0])
        if first is None:  # the run did not come to it, or a limit cut it
            return (RejectReason(FILTERS, "", _UNSEEN.format(self._complete)),)
        return first, RejectReason(FILTERS, "", NOT_SOUGHT.format(self._complete))


def _by_host(funnel: Funnel) -> Mapping[tuple[str, str], RejectReason]:
    found: dict[tuple[str, str], RejectReason] = {}
    stages = [(CANDIDATES, one.label, one.rejected) for one in funnel.allocation_candidates.steps]
    stages += [(FILTERS, one.name, one.rejected) for one in funnel.filters]
    for stage, name, rejected in stages:
        for one in rejected:
            found.setdefault((one.host, one.node), RejectReason(stage, name, one.reason))
    return found
