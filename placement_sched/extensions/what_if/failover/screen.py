# SPDX-License-Identifier: Apache-2.0
"""Screen of failures: coverage by counts, without a simulation.

Each distinct request of the instances is run once on the whole cloud, through request filters,
candidate search and host filters. The screen then judges each failure by the resulting numbers:
the hosts ``D`` fail, and their ``n`` instances must be placed on other hosts.

**Rule 1: enough hosts, covered.** Let ``A`` be the hosts outside of ``D`` that pass all filters for
a request. A placement changes only the chosen host: its inventories, state and instances. Verdicts
on other hosts stay the same. (If a filter compares hosts, a hint names instances, a group has the
policy ``affinity``, or shared providers could run out, the simulation decides.) So a host must be
chosen at least once before it can reject. If no filter depends on placed instances, a host rejects
only after an inventory has run out. No placement uses more than the largest amount of any request.
So the host must be chosen ``w`` times before it can reject: ``w`` = 1 + (free amount - own amount)
/ largest amount, rounded down, for the scarcest class. If the sum of ``w`` over ``A`` is at least
``m``, a host still passes after ``m - 1`` placements. Instances are placed largest first, so ``m``
is the number of failed instances of the request's size or larger. An ``anti-affinity`` group
excludes at most as many further hosts as it has other members. A request sees a limited number of
candidates. If the rejected hosts have fewer candidates than the limit, the request sees a candidate
of another host. If the rule holds for all requests, every choice of hosts succeeds, also the choice
of the weighers.

**Rule 2: a placement, covered.** Requests with too few hosts for rule 1 are placed here, by amounts
alone, if no filter depends on placed instances: then a host accepts instances as long as its
inventories suffice. If all these instances fit, the filters would accept the placement. The other
requests are placed afterwards, by rule 1 with ``m`` = ``n``.

**Rule 3: no placement, uncovered.** If even on otherwise unchanged hosts a request fits fewer times
than the failure has instances with it, no placement exists. The number of fits is counted by
filling the options of a host in turn. It is the maximum only if different options use different
inventories, apart from amounts that all options use, and if no providers are shared.

All other failures are unclear, and are simulated (``report.py``).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import accumulate
from typing import Any
from uuid import uuid4

from placement_sched.candidates.search import compute_effective_limit
from placement_sched.db.transaction import Connection
from placement_sched.errors import Error
from placement_sched.extensions.what_if.capacity.count import (
    Deadline,
    SharedView,
    compares_hosts,
    select_stateful_filters,
)
from placement_sched.extensions.what_if.capacity.host_counts import AllocationOption, FreeCapacity
from placement_sched.extensions.what_if.drain_plan import MovingInstance, Size, compute_flavor_size
from placement_sched.model.aggregates import ANTI_AFFINITY, ServerGroup
from placement_sched.model.candidates_query import Candidates
from placement_sched.model.decision import DecisionSeed
from placement_sched.model.grouping import group_rows
from placement_sched.scheduler.host_manager import HINTS
from placement_sched.scheduler.host_state import get_candidates
from placement_sched.scheduler.request import SchedulingRequest
from placement_sched.scheduler.scheduler import Evaluator

#: More placements than any cloud has capacity for.
_MAX_PLACEMENTS = 2**31
#: An inventory: the uuid of a provider and a resource class.
Inventory = tuple[str, str]
#: An option to place an instance: pairs of an inventory and the requested amount.
NamedOption = tuple[tuple[Inventory, int], ...]


class Coverage(Enum):
    """The result of the screen for a failure."""

    COVERED = "covered"
    UNCOVERED = "uncovered"
    UNCLEAR = "unclear"


@dataclass(slots=True)
class FailedLoad:
    """Instances on hosts that fail together, counted by request.

    ``max_excluded_hosts`` is the largest number of further hosts that an anti-affinity group of the
    instances excludes. ``is_unscreenable`` is true if an instance cannot be screened: it has no
    flavor, is in an affinity group, or has a hint such as ``same_host``.
    """

    hosts: frozenset[str]
    counts: Counter[bytes] = field(default_factory=Counter)
    max_excluded_hosts: int = 0
    is_unscreenable: bool = False

    @property
    def total(self) -> int:
        """Return the number of instances."""
        return self.counts.total()

    def add(self, other: "FailedLoad") -> None:
        """Add the instances of further hosts that fail."""
        self.counts.update(other.counts)
        self.max_excluded_hosts = max(self.max_excluded_hosts, other.max_excluded_hosts)
        self.is_unscreenable = self.is_unscreenable or other.is_unscreenable

    def with_more(self, key: bytes, number: int) -> "FailedLoad":
        """Return a copy with ``number`` more instances of a request."""
        return replace(self, counts=self.counts + Counter({key: number}))


@dataclass(eq=False, kw_only=True)
class ScreenedRequest:
    """Result of running a request on the whole cloud.

    ``fits`` maps each host that passes to the number of instances that fit. ``candidates`` is the
    number of candidates, of them ``rejected`` on rejected hosts and at most ``per_host`` on a host.
    A request sees ``limit`` candidates. ``amounts`` maps classes to the largest amount of an
    instance, and ``shared`` inventories of shared providers to their free amounts.
    ``has_only_stateless_filters`` is true if no filter depends on placed instances.
    ``has_sharing_providers`` is true if the cloud has providers that share inventories.
    """

    size: Size
    flavor: str
    fits: Mapping[str, int]
    candidates: int
    rejected: int
    per_host: int
    limit: int | None
    amounts: Mapping[str, int]
    shared: Mapping[Inventory, int]
    has_only_stateless_filters: bool
    capacity: FreeCapacity
    options: Mapping[str, Sequence[AllocationOption]]
    has_sharing_providers: bool = False

    #: Number of placements that each host accepts before it can reject (``w`` of rule 1).
    guaranteed_placements: dict[str, int] = field(default_factory=dict)
    total_guaranteed: int = 0
    max_guaranteed: int = 1
    _largest: Mapping[str, int] | None = None

    @cached_property
    def total(self) -> int:
        """Return the number of instances that fit on all hosts."""
        return sum(self.fits.values())

    def compute_guaranteed_placements(self, largest: Mapping[str, int]) -> None:
        """Compute how many placements each host accepts before it can reject.

        ``largest`` are the largest amounts of any placement, by class.
        """
        largest = {name: largest[name] for name in self.amounts}
        if largest == self._largest:
            return
        self._largest = largest
        self.guaranteed_placements = dict.fromkeys(self.fits, 1)
        if self.has_only_stateless_filters and self.amounts:
            classes, width = list(self.capacity.offsets), len(self.capacity.rows)
            free = self.capacity.free
            for host in self.fits:
                spare = max(
                    min(
                        (free[at] - amount) // largest[classes[at // width]]
                        for at, amount in option
                    )
                    for option in self.options[host]
                )
                self.guaranteed_placements[host] = 1 + max(spare, 0)
        self.total_guaranteed = sum(self.guaranteed_placements.values())
        self.max_guaranteed = max(self.guaranteed_placements.values(), default=1)

    def has_hosts_outside(self, hosts: frozenset[str]) -> bool:
        """Return whether any host outside of ``hosts`` passes."""
        return len(self.fits) > sum(host in self.fits for host in hosts)

    def count_fits_outside(self, hosts: frozenset[str]) -> int:
        """Return the number of instances that fit outside of ``hosts``."""
        return self.total - sum(self.fits.get(host, 0) for host in hosts)

    def count_spare_changes(self, load: FailedLoad, number: int) -> int:
        """Return how many other placements may come before ``number`` instances.

        Rule 1 with ``m`` = ``number`` still holds after them. Below 0, it does not hold at all.
        """
        own = sum(self.guaranteed_placements.get(host, 0) for host in load.hosts)
        excluded = load.max_excluded_hosts * self.max_guaranteed
        spare = self.total_guaranteed - own - excluded - number
        if self.limit is None or self.candidates <= self.limit:
            return spare
        if self.has_only_stateless_filters:
            is_visible = self.rejected + load.max_excluded_hosts * self.per_host < self.limit
            return spare if is_visible else -1
        changed = number + load.max_excluded_hosts
        return min(spare, (self.limit - self.rejected - 1) // self.per_host - changed)

    @property
    def can_be_placed(self) -> bool:
        """Return whether only amounts decide if a further instance can be placed."""
        is_visible = (
            self.limit is None or self.candidates <= self.limit or self.rejected < self.limit
        )
        return (
            self.has_only_stateless_filters
            and not self.shared
            and bool(self.amounts)
            and is_visible
        )

    @cached_property
    def has_maximum(self) -> bool:
        """Return whether no host can hold more instances than ``fits`` has.

        A failed instance that moves frees its amounts of a shared provider, also for other hosts.
        """
        return (
            self.can_be_placed
            and not self.has_sharing_providers
            and all(len(own) <= 1 or _has_disjoint_options(own) for own in self.options.values())
        )

    def has_options_of(self, flavor: "ScreenedRequest") -> bool:
        """Return whether each option of ``flavor`` is an option of this request."""
        wanted, own = (
            {(host, frozenset(each)) for host, options in request.named_options for each in options}
            for request in (flavor, self)
        )
        return wanted <= own

    @cached_property
    def named_options(self) -> Sequence[tuple[str, Sequence[NamedOption]]]:
        """Return pairs of host and options, hosts with the fewest fits first."""
        providers, classes = list(self.capacity.rows), list(self.capacity.offsets)
        width = len(providers)

        def name_inventories(option: AllocationOption) -> NamedOption:
            return tuple(
                ((providers[at % width], classes[at // width]), amount) for at, amount in option
            )

        ordered = sorted(self.fits, key=lambda host: (self.fits[host], host))
        return [
            (host, [name_inventories(option) for option in self.options[host]]) for host in ordered
        ]

    def get_free_amount(self, inventory: Inventory) -> int:
        """Return the free amount of an inventory."""
        provider, name = inventory
        return self.capacity.free[self.capacity.offsets[name] + self.capacity.rows[provider]]


class Screen:
    """Judge of failures, from the results of the distinct requests.

    ``requests`` maps request keys to results, or to None if a request cannot be screened.
    """

    def __init__(self, requests: Mapping[bytes, ScreenedRequest | None]) -> None:
        self.requests = requests
        self._disjoint_hosts: dict[tuple[int, int], bool] = {}
        #: The largest amount of any request, by class.
        self.largest: dict[str, int] = {}
        screened = [request for request in requests.values() if request is not None]
        for request in screened:
            for name, amount in request.amounts.items():
                self.largest[name] = max(self.largest.get(name, 0), amount)
        for request in screened:
            request.compute_guaranteed_placements(self.largest)

    def judge(self, load: FailedLoad) -> Coverage:
        """Return the coverage of a failure, by the rules in the module docstring."""
        if not load.counts:
            return Coverage.COVERED
        requests = self.list_requests(load)
        if load.is_unscreenable or requests is None:
            return Coverage.UNCLEAR
        for request, number in requests:
            if request.count_fits_outside(load.hosts) < number and request.has_maximum:
                return Coverage.UNCOVERED
        if not _has_shared_amounts(requests):
            return Coverage.UNCLEAR
        if min(_iterate_spares(load, requests), default=0) >= 0:
            return Coverage.COVERED
        total = load.total
        scarce = [each for each in requests if each[0].count_spare_changes(load, total) < 0]
        if load.max_excluded_hosts or not all(request.can_be_placed for request, _ in scarce):
            return Coverage.UNCLEAR
        return Coverage.COVERED if _can_place(load.hosts, scarce) else Coverage.UNCLEAR

    def list_requests(self, load: FailedLoad) -> list[tuple[ScreenedRequest, int]] | None:
        """Return pairs of a failed request's result and its number of instances.

        Returns None if any of the requests cannot be screened.
        """
        pairs = [(self.requests.get(key), number) for key, number in load.counts.items()]
        screened = [(request, number) for request, number in pairs if request is not None]
        return screened if len(screened) == len(pairs) else None

    def count_stuck(self, load: FailedLoad) -> int:
        """Return a lower bound of the failed instances that find no host."""
        requests = ((self.requests.get(key), number) for key, number in load.counts.items())
        return sum(
            max(number - request.count_fits_outside(load.hosts), 0)
            for request, number in requests
            if request is not None and request.has_maximum
        )

    def count_spare_in_order(self, load: FailedLoad) -> int:
        """Return how many further instances certainly make a failure no worse.

        They may have any flavor, and may be placed on any host, including the hosts that fail.
        Failed instances that fit on no other host are ignored: they find no host in any case.
        """
        requests = self._list_requests_with_hosts(load)
        if requests is None or load.is_unscreenable:
            return 0
        return max(min(_iterate_spares(load, requests), default=_MAX_PLACEMENTS), 0)

    def count_spare_placements(self, load: FailedLoad, flavor: ScreenedRequest) -> int:
        """Return how many instances of a flavor certainly make a failure no worse.

        The result is the larger of two proofs. The first places the failed instances largest first.
        The second places the requests that share a host with the flavor last.
        """
        requests = self._list_requests_with_hosts(load)
        if requests is None:
            return 0
        touched = [
            request for request, _ in requests if not self._has_disjoint_hosts(request, flavor)
        ]
        if not touched and load.hosts.isdisjoint(flavor.fits):
            return _MAX_PLACEMENTS
        in_order = self.count_spare_in_order(load)
        if load.is_unscreenable or self.judge(load) is not Coverage.COVERED:
            return in_order
        afterwards = (request.count_spare_changes(load, load.total) for request in touched)
        return max(in_order, min(afterwards, default=_MAX_PLACEMENTS))

    def _list_requests_with_hosts(
        self, load: FailedLoad
    ) -> list[tuple[ScreenedRequest, int]] | None:
        """List the failed requests that fit on a host that does not fail.

        Returns None if any failed request is not screened or uses shared providers.
        """
        requests = self.list_requests(load)
        if requests is None or any(request.shared for request, _ in requests):
            return None
        return [pair for pair in requests if pair[0].has_hosts_outside(load.hosts)]

    def _has_disjoint_hosts(self, request: ScreenedRequest, flavor: ScreenedRequest) -> bool:
        key = id(request), id(flavor)
        if key not in self._disjoint_hosts:
            self._disjoint_hosts[key] = request.fits.keys().isdisjoint(flavor.fits)
        return self._disjoint_hosts[key]


def _iterate_spares(
    load: FailedLoad, requests: Sequence[tuple[ScreenedRequest, int]]
) -> Iterator[int]:
    """Yield for each request how many other placements may come before it.

    The instances of the failure are placed largest first, as in rule 1.
    """
    numbers: Counter[Size] = Counter()
    for request, number in requests:
        numbers[request.size] += number
    sizes = sorted(numbers, reverse=True)
    up_to = dict(zip(sizes, accumulate([numbers[size] for size in sizes]), strict=True))
    for request, _ in requests:
        yield request.count_spare_changes(load, up_to[request.size])


def _has_shared_amounts(requests: Sequence[tuple[ScreenedRequest, int]]) -> bool:
    demand: Counter[str] = Counter()
    for request, number in requests:
        for name, amount in request.amounts.items():
            demand[name] += number * amount
    shared = (pair for request, _ in requests for pair in request.shared.items())
    return all(demand[name] <= free for (_, name), free in shared)


def _can_place(hosts: frozenset[str], requests: Sequence[tuple[ScreenedRequest, int]]) -> bool:
    """Return whether rule 2 places all instances outside of ``hosts``."""
    taken: Counter[Inventory] = Counter()
    for request, number in sorted(requests, key=lambda pair: pair[0].size, reverse=True):
        remaining = number
        for host, options in request.named_options:
            if host in hosts:
                continue
            for option in options:
                times = min(
                    (request.get_free_amount(key) - taken[key]) // amount for key, amount in option
                )
                if (placed := min(times, remaining)) > 0:
                    remaining -= placed
                    for key, amount in option:
                        taken[key] += placed * amount
            if not remaining:
                break
        if remaining:
            return False
    return True


def add_instances(
    loads: Mapping[str, FailedLoad],
    documents: dict[bytes, MovingInstance],
    instances: Iterable[MovingInstance],
    groups: Mapping[str, ServerGroup],
) -> None:
    """Add instances to ``loads``, and an example per request to ``documents``."""
    for instance in instances:
        load = loads[instance.record.host or ""]
        key = instance.request_key
        documents.setdefault(key, instance)
        load.counts[key] += 1
        hints = instance.document.get("scheduler_hints") or {}
        if not instance.document.get("flavor") or any(name in hints for name in HINTS):
            load.is_unscreenable = True
        group = groups.get(instance.record.server_group or "")
        if group is None:
            continue
        if group.policy == ANTI_AFFINITY:
            load.max_excluded_hosts = max(load.max_excluded_hosts, len(group.members) - 1)
        elif not group.policy.startswith("soft-"):
            load.is_unscreenable = load.is_unscreenable or len(group.members) > 1


def screen_requests(
    scheduler: Evaluator, requests: Mapping[bytes, SchedulingRequest], deadline: Deadline
) -> Screen:
    """Evaluate requests, each for a single instance, on the whole cloud.

    A request that fails, or is not reached before the deadline, is not screened.
    """
    screened: dict[bytes, ScreenedRequest | None] = dict.fromkeys(requests)
    with scheduler.source.read() as connection:
        shared = SharedView(connection, scheduler.caches)
        for key, request in requests.items():
            if deadline.is_reached():
                break
            try:
                screened[key] = _screen_request(scheduler, connection, shared, request)
            except Error:
                scheduler.source.check()
    return Screen(screened)


def _screen_request(
    scheduler: Evaluator, connection: Connection, shared: SharedView, request: SchedulingRequest
) -> ScreenedRequest | None:
    request = replace(request, plugins=request.plugins.drop_failover_filters())
    seed, view = DecisionSeed.draw(scheduler.random), shared.get_view(request)
    run = scheduler.prepare_run(connection, request, seed, unlimited=True, view=view)
    spec = run.filtered_request.spec
    filters = run.selector.select_filters(spec)
    if compares_hosts(filters, spec):
        return None
    passing = run.selector.filter_hosts(run.hosts, spec).hosts
    candidates = run.searches.candidates
    capacity = FreeCapacity.read_free(run.view.providers, candidates, run.searches.class_ids)
    options: dict[str, list[AllocationOption]] = group_rows(
        (host.host, capacity.build_option(each))
        for host in passing
        for each in get_candidates(host)
    )
    counts = {host: _count_fits(capacity, own) for host, own in options.items()}
    fits = {host: number for host, number in counts.items() if number > 0}
    by_root = Counter([each.root_uuid for each in candidates.requests])
    query = run.searches.query
    main = run.searches.main
    limit = compute_effective_limit(query.limit if query else None, run.request.settings)
    if run.searches.fallback is not None and limit is not None:
        limit = limit if len(candidates.requests) <= limit else 0
    return ScreenedRequest(
        size=compute_flavor_size(request.spec.as_document()["flavor"]),
        flavor=spec.flavor.name or "",
        fits=fits,
        candidates=len(candidates.requests),
        rejected=len(candidates.requests) - sum(map(len, options.values())),
        per_host=max(by_root.values(), default=1),
        limit=limit,
        amounts=_map_largest_amounts(candidates),
        shared=_map_shared_amounts(candidates, capacity),
        has_only_stateless_filters=not select_stateful_filters(filters, spec),
        capacity=capacity,
        options=options,
        has_sharing_providers=main is not None and main.search.names.topology.has_sharing,
    )


def _count_fits(capacity: FreeCapacity, options: Sequence[AllocationOption]) -> int:
    """Count how many instances fit if these options are filled in turn."""
    if len(options) == 1:
        return capacity.count_fits(options[0])
    filled = []
    for option in options:
        times = max(capacity.count_fits(option), 0)
        capacity.take(option, times)
        filled.append((option, times))
    for option, times in filled:
        capacity.take(option, -times)
    return sum(times for _, times in filled)


def _has_disjoint_options(options: Sequence[AllocationOption]) -> bool:
    """Return whether options share only amounts that all options use."""
    common = set(options[0]).intersection(*options[1:])
    indexes = [index for option in options for index, _ in set(option) - common]
    return len(indexes) == len(set(indexes))


def _map_largest_amounts(candidates: Candidates) -> dict[str, int]:
    largest: dict[str, int] = {}
    for layout in {id(each.layout): each.layout for each in candidates.requests}.values():
        amounts: Counter[str] = Counter()
        for part in layout.amounts:
            amounts.update(part)
        for name, amount in amounts.items():
            largest[name] = max(largest.get(name, 0), amount)
    return largest


def _map_shared_amounts(candidates: Candidates, capacity: FreeCapacity) -> dict[Inventory, int]:
    """Map used inventories outside of the hosts' trees to free amounts."""
    roots = {provider.uuid: provider.root_uuid for provider in candidates.providers}
    shared: dict[Inventory, int] = {}
    for request in candidates.requests:
        for uuid, amounts in zip(request.uuids, request.layout.amounts, strict=True):
            if roots[uuid] != request.root_uuid:
                for name in amounts:
                    index = capacity.offsets[name] + capacity.rows[uuid]
                    shared[uuid, name] = capacity.free[index]
    return shared


def read_requests(
    scheduler: Evaluator, documents: Mapping[bytes, Any]
) -> dict[bytes, SchedulingRequest]:
    """Parse each valid document as a request for 1 instance, and omit others."""
    requests = {}
    for key, document in documents.items():
        body = {**document, "instance_uuids": [str(uuid4())]}
        try:
            requests[key] = scheduler.reader.validate(scheduler.reader.read(body))
        except Error:
            scheduler.source.check()
    return requests
