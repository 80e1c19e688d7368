# SPDX-License-Identifier: Apache-2.0
"""Screen of failures: verdicts without a simulation.

Each distinct request of the instances is run once through the real request filters, candidate
search and host filters, on the whole cloud. The screen then judges each failure of hosts ``D``
with ``n`` instances, to be placed on other hosts, by numbers alone.

**Enough hosts.** Let ``A`` be the hosts that pass all filters for a request, without ``D``. A
placement changes the chosen host only: its inventories, its state, and its instances. The verdict
on another host stays, because filters that compare hosts, hints that name instances, ``affinity``
groups and shared providers that could run out are left to the simulation. So a host has to be
chosen at least once before it can reject. If no filter depends on placed instances, a host rejects
only if an inventory runs out, and a placement uses at most the largest amount of any request: a
host has to be chosen ``w`` times before it can reject, with ``w`` = 1 + (free amount - own amount)
/ largest amount, rounded down, for the scarcest class. If these numbers add up to ``m`` or more for
``A``, then ``m - 1`` earlier placements leave a host that passes. An ``anti-affinity`` group
excludes at most as many further hosts as it has other members. A request sees a limited number of
candidates. If fewer candidates than the limit are on rejected hosts, it sees a candidate of another
host. Instances are placed largest first, so that ``m`` is at most the number of instances of this
size or larger. If this holds for all requests of the instances, every choice of hosts succeeds,
also the choice of the weighers.

**A placement.** If no filter depends on placed instances, a host accepts each further instance
while its inventories suffice. Requests with too few hosts for the first rule are then placed here,
by amounts alone. If all find inventories, the result is a placement by the real filters, and the
first rule, with ``n`` for ``m``, places the remaining requests afterwards.

**No placement.** If a request of this kind, alone on the other hosts, fits fewer times than the
failure has instances of it, then no placement exists. The options of a host are filled in turn.
This finds the largest number only if different options use different inventories, apart from
amounts that all options use.

All other failures are unclear.
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
from placement_sched.db.sql import group_rows
from placement_sched.db.transaction import Connection
from placement_sched.errors import Error
from placement_sched.model.aggregates import ANTI_AFFINITY, ServerGroup
from placement_sched.model.candidates_query import Candidates
from placement_sched.model.decision import DecisionSeed
from placement_sched.scheduler.capacity.count import (
    Deadline,
    LoadedCloud,
    compares_hosts,
    select_stateful_filters,
)
from placement_sched.scheduler.capacity.host_counts import AllocationOption, FreeCapacity
from placement_sched.scheduler.drain_plan import MovingInstance, Size, compute_flavor_size
from placement_sched.scheduler.host_manager import HINTS
from placement_sched.scheduler.host_state import get_candidates
from placement_sched.scheduler.request import SchedulingRequest
from placement_sched.scheduler.scheduler import Scheduler

#: More placements than any cloud has capacity for.
_MAX_PLACEMENTS = 2**31
#: An inventory: the uuid of a provider and a resource class.
Inventory = tuple[str, str]
#: An option to place an instance, with the inventories by name.
NamedOption = tuple[tuple[Inventory, int], ...]


class Verdict(Enum):
    """The result of the screen for a failure."""

    COVERED = "covered"
    UNCOVERED = "uncovered"
    UNCLEAR = "unclear"


@dataclass(slots=True)
class FailedLoad:
    """Instances on hosts that fail together, counted by request.

    ``excluded`` is the largest number of further hosts that an anti-affinity group of these
    instances rules out. ``is_tied`` is true if a verdict on a host may depend on other instances in
    another way, such as by a scheduler hint.
    """

    hosts: frozenset[str]
    counts: Counter[bytes] = field(default_factory=Counter)
    excluded: int = 0
    is_tied: bool = False

    @property
    def total(self) -> int:
        """Return the number of instances."""
        return self.counts.total()

    def add(self, other: "FailedLoad") -> None:
        """Add the instances of further hosts that fail."""
        self.counts.update(other.counts)
        self.excluded = max(self.excluded, other.excluded)
        self.is_tied = self.is_tied or other.is_tied

    def with_more(self, key: bytes, number: int) -> "FailedLoad":
        """Return a copy of the load with ``number`` more instances."""
        return replace(self, counts=self.counts + Counter({key: number}))


@dataclass(eq=False, kw_only=True)
class RequestOnHosts:
    """The result of a request on the whole cloud.

    ``fits`` maps each host that passes to the number of instances that fit. ``candidates`` is the
    number of candidates, of them ``rejected`` on rejected hosts and at most ``per_host`` on each
    host. ``amounts`` maps classes to the largest amount of an instance. ``shared`` are the free
    amounts of shared providers. ``is_fixed`` means that no filter depends on placed instances.
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
    is_fixed: bool
    capacity: FreeCapacity
    options: Mapping[str, Sequence[AllocationOption]]

    #: How often a host has to be chosen before it can reject.
    weights: dict[str, int] = field(default_factory=dict)
    total_weight: int = 0
    max_weight: int = 1

    @cached_property
    def total(self) -> int:
        """Return the number of instances that fit on all hosts."""
        return sum(self.fits.values())

    def weigh(self, largest: Mapping[str, int]) -> None:
        """Compute how often each host must be chosen before it can reject.

        ``largest`` are the largest amounts of any placement, by class.
        """
        self.weights = dict.fromkeys(self.fits, 1)
        if self.is_fixed and self.amounts:
            classes, width = list(self.capacity.firsts), len(self.capacity.rows)
            free = self.capacity.free
            for host in self.fits:
                spare = max(
                    min(
                        (free[at] - amount) // largest[classes[at // width]]
                        for at, amount in option
                    )
                    for option in self.options[host]
                )
                self.weights[host] = 1 + max(spare, 0)
        self.total_weight = sum(self.weights.values())
        self.max_weight = max(self.weights.values(), default=1)

    def has_hosts_outside(self, hosts: frozenset[str]) -> bool:
        """Return whether any host outside of ``hosts`` passes."""
        return len(self.fits) > sum(host in self.fits for host in hosts)

    def count_fits_outside(self, hosts: frozenset[str]) -> int:
        """Return the number of instances that fit outside of ``hosts``."""
        return self.total - sum(self.fits.get(host, 0) for host in hosts)

    def count_spare_changes(self, load: FailedLoad, number: int) -> int:
        """Return how many other placements leave hosts for ``number`` instances.

        A result below 0 means that hosts may be lacking even without other placements.
        """
        own = sum(self.weights.get(host, 0) for host in load.hosts)
        excluded = load.excluded * self.max_weight
        spare = self.total_weight - own - excluded - number
        if self.limit is None or self.candidates <= self.limit:
            return spare
        if self.is_fixed:
            is_visible = self.rejected + load.excluded * self.per_host < self.limit
            return spare if is_visible else -1
        changed = number + load.excluded
        return min(spare, (self.limit - self.rejected - 1) // self.per_host - changed)

    @property
    def can_be_placed(self) -> bool:
        """Return whether only amounts decide if a further instance can be placed."""
        is_visible = (
            self.limit is None or self.candidates <= self.limit or self.rejected < self.limit
        )
        return self.is_fixed and not self.shared and bool(self.amounts) and is_visible

    @cached_property
    def has_maximum(self) -> bool:
        """Return whether ``fits`` is the maximum for any choice of hosts."""
        return self.can_be_placed and all(
            len(own) <= 1 or _has_disjoint_options(own) for own in self.options.values()
        )

    @cached_property
    def named_options(self) -> Sequence[tuple[str, Sequence[NamedOption]]]:
        """Return the options of each host, starting with the host that fits fewest instances."""
        providers, classes = list(self.capacity.rows), list(self.capacity.firsts)
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
        return self.capacity.free[self.capacity.firsts[name] + self.capacity.rows[provider]]


class Screen:
    """Verdicts on failures, from distinct requests' results.

    ``requests`` are by key. None stands for a request that cannot be screened.
    """

    def __init__(self, requests: Mapping[bytes, RequestOnHosts | None]) -> None:
        self.requests = requests
        self._apart: dict[tuple[int, int], bool] = {}
        largest: dict[str, int] = {}
        screened = [request for request in requests.values() if request is not None]
        for request in screened:
            for name, amount in request.amounts.items():
                largest[name] = max(largest.get(name, 0), amount)
        for request in screened:
            request.weigh(largest)

    def judge(self, load: FailedLoad) -> Verdict:
        """Return the verdict on a failure (proof: docstring of the module)."""
        if not load.counts:
            return Verdict.COVERED
        requests = self.list_requests(load)
        if load.is_tied or requests is None:
            return Verdict.UNCLEAR
        for request, number in requests:
            if request.count_fits_outside(load.hosts) < number and request.has_maximum:
                return Verdict.UNCOVERED
        if not _has_shared_amounts(requests):
            return Verdict.UNCLEAR
        if min(_iterate_spares(load, requests), default=0) >= 0:
            return Verdict.COVERED
        total = load.total
        scarce = [each for each in requests if each[0].count_spare_changes(load, total) < 0]
        if load.excluded or not all(request.can_be_placed for request, _ in scarce):
            return Verdict.UNCLEAR
        return Verdict.COVERED if _can_place(load.hosts, scarce) else Verdict.UNCLEAR

    def list_requests(self, load: FailedLoad) -> list[tuple[RequestOnHosts, int]] | None:
        """Return the requests of the instances on failed hosts, with counts.

        Returns None if any of the requests cannot be screened.
        """
        pairs = [(self.requests.get(key), number) for key, number in load.counts.items()]
        screened = [(request, number) for request, number in pairs if request is not None]
        return screened if len(screened) == len(pairs) else None

    def count_stuck(self, load: FailedLoad) -> int:
        """Return the minimum number of instances without a host in a failure."""
        requests = ((self.requests.get(key), number) for key, number in load.counts.items())
        return sum(
            max(number - request.count_fits_outside(load.hosts), 0)
            for request, number in requests
            if request is not None and request.has_maximum
        )

    def count_spare_in_order(self, load: FailedLoad) -> int:
        """Return how many further instances certainly make a failure no worse.

        They may have any flavor, and may be placed on any host, including the hosts that fail.
        Failed instances whose request fits on no other host are ignored: they stay without a host.
        """
        requests = self._list_requests_with_hosts(load)
        if requests is None or load.is_tied:
            return 0
        return max(min(_iterate_spares(load, requests), default=_MAX_PLACEMENTS), 0)

    def count_spare_placements(self, load: FailedLoad, flavor: RequestOnHosts) -> int:
        """Return how many instances of a flavor certainly make a failure no worse.

        This is proved by placing the failed instances in the order of their sizes, or by first
        placing the requests that share no host with the flavor, and then the other requests.
        """
        requests = self._list_requests_with_hosts(load)
        if requests is None:
            return 0
        touched = [request for request, _ in requests if not self._is_apart(request, flavor)]
        if not touched and load.hosts.isdisjoint(flavor.fits):
            return _MAX_PLACEMENTS
        in_order = self.count_spare_in_order(load)
        if load.is_tied or self.judge(load) is not Verdict.COVERED:
            return in_order
        afterwards = (request.count_spare_changes(load, load.total) for request in touched)
        return max(in_order, min(afterwards, default=_MAX_PLACEMENTS))

    def _list_requests_with_hosts(
        self, load: FailedLoad
    ) -> list[tuple[RequestOnHosts, int]] | None:
        """Return the failed requests that fit on a host that does not fail.

        Returns None if any failed request is not screened or uses shared providers.
        """
        requests = self.list_requests(load)
        if requests is None or any(request.shared for request, _ in requests):
            return None
        return [pair for pair in requests if pair[0].has_hosts_outside(load.hosts)]

    def _is_apart(self, request: RequestOnHosts, flavor: RequestOnHosts) -> bool:
        key = id(request), id(flavor)
        if key not in self._apart:
            self._apart[key] = request.fits.keys().isdisjoint(flavor.fits)
        return self._apart[key]


def _iterate_spares(
    load: FailedLoad, requests: Sequence[tuple[RequestOnHosts, int]]
) -> Iterator[int]:
    """Yield for each request how many other placements leave hosts for it.

    The instances of the failure are placed largest first.
    """
    numbers: Counter[Size] = Counter()
    for request, number in requests:
        numbers[request.size] += number
    sizes = sorted(numbers, reverse=True)
    up_to = dict(zip(sizes, accumulate([numbers[size] for size in sizes]), strict=True))
    for request, _ in requests:
        yield request.count_spare_changes(load, up_to[request.size])


def _has_shared_amounts(requests: Sequence[tuple[RequestOnHosts, int]]) -> bool:
    demand: Counter[str] = Counter()
    for request, number in requests:
        for name, amount in request.amounts.items():
            demand[name] += number * amount
    shared = (pair for request, _ in requests for pair in request.shared.items())
    return all(demand[name] <= free for (_, name), free in shared)


def _can_place(hosts: frozenset[str], requests: Sequence[tuple[RequestOnHosts, int]]) -> bool:
    """Return whether all instances fit outside of ``hosts``."""
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
    """Count instances in ``loads``, and add examples to ``documents``."""
    for instance in instances:
        load = loads[instance.record.host or ""]
        key = instance.request_key
        documents.setdefault(key, instance)
        load.counts[key] += 1
        hints = instance.document.get("scheduler_hints") or {}
        if not instance.document.get("flavor") or any(name in hints for name in HINTS):
            load.is_tied = True
        group = groups.get(instance.record.server_group or "")
        if group is None:
            continue
        if group.policy == ANTI_AFFINITY:
            load.excluded = max(load.excluded, len(group.members) - 1)
        elif not group.policy.startswith("soft-"):
            load.is_tied = load.is_tied or len(group.members) > 1


def screen_requests(
    scheduler: Scheduler, requests: Mapping[bytes, SchedulingRequest], deadline: Deadline
) -> Screen:
    """Evaluate requests, each for a single instance, on the whole cloud.

    Requests that fail or get no time are not screened.
    """
    screened: dict[bytes, RequestOnHosts | None] = dict.fromkeys(requests)
    with scheduler.source.read() as connection:
        cloud = LoadedCloud(connection, scheduler.caches)
        for key, request in requests.items():
            if deadline.is_reached():
                break
            try:
                screened[key] = _screen_request(scheduler, connection, cloud, request)
            except Error:
                scheduler.source.check()
    return Screen(screened)


def _screen_request(
    scheduler: Scheduler, connection: Connection, cloud: LoadedCloud, request: SchedulingRequest
) -> RequestOnHosts | None:
    request = replace(request, plugins=request.plugins.drop_failover_filters())
    seed, view = DecisionSeed.draw(scheduler.random), cloud.get_view(request)
    run = scheduler.prepare_run(connection, request, seed, unlimited=True, cloud=view)
    spec = run.filtered_request.spec
    filters = run.selector.select_filters(spec)
    if compares_hosts(filters, spec):
        return None
    passing = run.selector.filter_hosts(run.hosts, spec).hosts
    candidates = run.searches.candidates
    capacity = FreeCapacity.read_free(run.cloud.providers, candidates, run.searches.class_ids)
    options: dict[str, list[AllocationOption]] = group_rows(
        (host.host, capacity.build_option(each))
        for host in passing
        for each in get_candidates(host)
    )
    counts = {host: _count_fits(capacity, own) for host, own in options.items()}
    fits = {host: number for host, number in counts.items() if number > 0}
    by_root = Counter([each.root_uuid for each in candidates.requests])
    query = run.searches.query
    limit = compute_effective_limit(query.limit if query else None, run.request.settings)
    if run.searches.fallback is not None and limit is not None:
        limit = limit if len(candidates.requests) <= limit else 0
    return RequestOnHosts(
        size=compute_flavor_size(request.document["flavor"]),
        flavor=spec.flavor.name or "",
        fits=fits,
        candidates=len(candidates.requests),
        rejected=len(candidates.requests) - sum(map(len, options.values())),
        per_host=max(by_root.values(), default=1),
        limit=limit,
        amounts=_map_largest_amounts(candidates),
        shared=_map_shared_amounts(candidates, capacity),
        is_fixed=not select_stateful_filters(filters, spec),
        capacity=capacity,
        options=options,
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
    """Return whether no two options share an inventory that not all options use."""
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
    """Map inventories outside of a host's tree that candidates use to their free amounts."""
    roots = {provider.uuid: provider.root_uuid for provider in candidates.providers}
    shared: dict[Inventory, int] = {}
    for request in candidates.requests:
        for uuid, amounts in zip(request.uuids, request.layout.amounts, strict=True):
            if roots[uuid] != request.root_uuid:
                for name in amounts:
                    index = capacity.firsts[name] + capacity.rows[uuid]
                    shared[uuid, name] = capacity.free[index]
    return shared


def read_requests(
    scheduler: Scheduler, documents: Mapping[bytes, Any]
) -> dict[bytes, SchedulingRequest]:
    """Read each valid document as a request for a single instance."""
    requests = {}
    for key, document in documents.items():
        body = {**document, "instance_uuids": [str(uuid4())]}
        try:
            requests[key] = scheduler.reader.validate(scheduler.reader.read(body))
        except Error:
            scheduler.source.check()
    return requests
