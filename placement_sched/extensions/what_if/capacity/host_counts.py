# SPDX-License-Identifier: Apache-2.0
"""Counts of the instances that fit on hosts and shared providers.

An option is an allocation candidate as pairs: the index of a free amount in :class:`FreeCapacity`,
and the requested amount. Hosts that use the same shared providers, directly or through further
hosts, form a component. If each host of a component can combine its own providers with each of the
shared providers, the order of the placements does not matter. The shared providers are then a pool:
the component fits the sum of its hosts' counts, but at most the number of instances that fit into
the pool. In any other component, the order of the placements changes the number.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from placement_sched.candidates.providers import ProviderSource
from placement_sched.explain.kinds import format_option
from placement_sched.explain.phrases import format_detail, select_subject
from placement_sched.model.candidates_query import AllocationRequest, Candidates
from placement_sched.model.constraint import LIMIT, Constraint, LimitingOption
from placement_sched.model.document import Json
from placement_sched.model.rejection import Rejection
from placement_sched.scheduler.host_state import HostState, get_candidates

#: An option to place an instance: pairs of an index in ``FreeCapacity.free`` and an amount.
AllocationOption = tuple[tuple[int, int], ...]


class LimitReason(NamedTuple):
    """Reason why no further instance fits on a host.

    ``reason`` is the exhausted resource class if ``is_resource``, or the rejecting stage.
    ``constraint`` is set if the stage is a constraint of the search, and ``rejection`` if it is a
    filter.
    """

    reason: str
    detail: str = ""
    is_resource: bool = False
    constraint: Constraint | None = None
    rejection: Rejection | None = None
    option: LimitingOption | None = None

    @classmethod
    def from_option(cls, option: LimitingOption) -> Self:
        """Return the reason of hosts beyond the limit that an option sets."""
        return cls(LIMIT, format_option(option.as_json()), option=option)

    @classmethod
    def from_constraint(cls, constraint: Constraint) -> Self:
        """Return the reason of hosts that a constraint of the search rejects."""
        if constraint.resource_class:
            return cls(constraint.resource_class, is_resource=True)
        return cls(constraint.family, format_detail(constraint.as_json()), constraint=constraint)

    @property
    def values(self) -> Json:
        """Return the kind and the subject, as keys of an entry in JSON."""
        if self.is_resource:
            return {"kind": "capacity", "resource_class": self.reason}
        if self.constraint is not None:
            return self.constraint.as_json()
        if self.rejection is not None:
            return select_subject({"filter": self.reason, **self.rejection.as_json()})
        return {"kind": self.reason, **(self.option.as_json() if self.option else {})}


#: The reason of a host whose count did not finish in time.
UNFINISHED = LimitReason("capacity_budget")


@dataclass(slots=True)
class FreeCapacity:
    """Free amounts of all candidates' providers, in a list of integers.

    ``free[offsets[class name] + rows[provider uuid]]`` is the free amount of a resource class. The
    amounts decrease as instances are placed. ``limit_reasons`` has the reason of each class, in the
    order of ``offsets``. Indexes in ``pooled`` belong to a :class:`SharedPool`, and options omit
    them.
    """

    rows: Mapping[str, int]
    free: list[int]
    offsets: Mapping[str, int]
    limit_reasons: Sequence[LimitReason]
    pooled: set[int] = field(default_factory=set)

    @classmethod
    def read_free(
        cls, source: ProviderSource, candidates: Candidates, classes: Mapping[str, int]
    ) -> "FreeCapacity":
        """Read the free amounts of the candidates' providers.

        ``classes`` maps resource class names to ids. If two classes are equally scarce, the class
        with the lower id is reported as the limit.
        """
        layouts = {id(request.layout): request.layout for request in candidates.requests}.values()
        used = {name for layout in layouts for amounts in layout.amounts for name in amounts}
        names = sorted(used, key=classes.__getitem__)
        ids = [provider.id for provider in candidates.providers]
        columns = source.read_free_columns(ids, [classes[name] for name in names])
        free = [amount for column in columns.values() for amount in column.tolist()]
        rows = {provider.uuid: row for row, provider in enumerate(candidates.providers)}
        offsets = {name: index * len(ids) for index, name in enumerate(names)}
        return cls(rows, free, offsets, [LimitReason(name, is_resource=True) for name in names])

    def build_option(self, candidate: AllocationRequest) -> AllocationOption:
        """Convert an allocation candidate to an option."""
        rows, offsets = self.rows, self.offsets
        option = [
            (offsets[name] + rows[uuid], amount)
            for uuid, resources in zip(candidate.uuids, candidate.layout.amounts, strict=True)
            for name, amount in resources.items()
        ]
        if self.pooled:
            option = [pair for pair in option if pair[0] not in self.pooled]
        return tuple(option)

    def count_fits(self, option: AllocationOption) -> int:
        """Return how many times the option fits into the free amounts."""
        free = self.free
        return min([free[index] // amount for index, amount in option], default=0)

    def take(self, option: AllocationOption, times: int = 1) -> None:
        """Subtract the amounts of ``option`` ``times`` times."""
        for index, amount in option:
            self.free[index] -= amount * times

    def get_limit_reason(self, index: int) -> LimitReason:
        """Return the reason for the resource class at an index of ``free``."""
        return self.limit_reasons[index // len(self.rows)]

    def find_scarcest_class(self, option: AllocationOption) -> LimitReason:
        """Return the reason for the class that the option exhausts first."""
        free = self.free
        return self.get_limit_reason(
            min([(free[index] / amount, index) for index, amount in option])[1]
        )

    def sum_free_amounts(self, options: Iterable[AllocationOption]) -> dict[str, int]:
        """Sum the free amounts of all inventories in the options, by class."""
        amounts: dict[str, int] = {}
        for index in {index for option in options for index, _ in option}:
            name = self.get_limit_reason(index).reason
            amounts[name] = amounts.get(name, 0) + max(self.free[index], 0)
        return amounts


@dataclass(frozen=True, slots=True, eq=False)
class SharedPool:
    """Shared providers that together fit ``limit`` instances.

    ``limit_reason`` is the reason for their scarcest resource class. ``own`` maps classes to the
    amounts that each instance uses on its host in addition.
    """

    limit: int
    limit_reason: LimitReason
    own: Mapping[str, int]


@dataclass(slots=True, eq=False)
class HostCount:
    """Number of instances that fit on a compute node.

    ``limit_reason`` is the reason why no more fit. ``free`` maps resource classes to the amounts
    that remain free. Nodes with the same ``pool`` together fit at most ``pool.limit`` instances.
    """

    host: str
    uuid: str | None
    limit_reason: LimitReason = UNFINISHED
    pool: SharedPool | None = None
    instances: int = 0
    free: Mapping[str, int] | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class HostCounter(HostCount):
    """Counter of the instances that fit on a host with candidates.

    ``all_options`` are the options of all candidates, and ``options`` the options of the candidates
    that passed the filters. In rounds, ``offers`` pairs candidates with their options.
    ``remaining_candidates`` is the number of candidates that a search still finds for the full
    host.
    """

    state: HostState
    all_options: Sequence[AllocationOption]
    options: Sequence[AllocationOption]
    offers: Sequence[tuple[Any, AllocationOption]] = ()
    remaining_candidates: int = 0

    @classmethod
    def from_state(
        cls, state: HostState, capacity: FreeCapacity, pool: SharedPool | None
    ) -> "HostCounter":
        """Create the counter of a host before the first instance is placed."""
        # There may be tens of thousands of options. Tuples of numbers cost no garbage collection.
        all_options = tuple([capacity.build_option(each) for each in get_candidates(state)])
        return cls(
            state.host,
            state.uuid,
            pool=pool,
            state=state,
            all_options=all_options,
            options=all_options,
        )

    def keep_passing_options(self, capacity: FreeCapacity) -> None:
        """Keep only the options of candidates that passed the filters."""
        candidates = get_candidates(self.state)
        if len(candidates) < len(self.all_options):
            self.options = [capacity.build_option(each) for each in candidates]

    def fill(self, capacity: FreeCapacity) -> None:
        """Place as many instances as fit, option by option."""
        for option in self.options:
            if (times := capacity.count_fits(option)) > 0:
                capacity.take(option, times)
                self.instances += times
        self.end_count(capacity)

    def end_count(self, capacity: FreeCapacity, limit_reason: LimitReason | None = None) -> None:
        """End the count for ``limit_reason``, or for the scarcest class."""
        self.limit_reason = limit_reason or capacity.find_scarcest_class(
            (self.options or self.all_options)[-1]
        )
        if limit_reason or self.options is not self.all_options:
            # Candidates with equal options differ only in providers of the pool, and count once.
            all_options = self.all_options if self.pool is None else set(self.all_options)
            self.remaining_candidates = sum(
                [capacity.count_fits(option) > 0 for option in all_options]
            )
        if self.limit_reason.is_resource:
            self.free = capacity.sum_free_amounts(self.all_options)


def find_pools(
    candidates: Candidates, hosts: Sequence[HostState], capacity: FreeCapacity
) -> Sequence[SharedPool | None] | None:
    """List the pools of the hosts, or return None if the order matters.

    The element is None for a host without shared providers.
    """
    roots = {provider.uuid: provider.root_uuid for provider in candidates.providers}
    pools: list[SharedPool | None] = [None] * len(hosts)
    if all(roots[uuid] == each.root_uuid for each in candidates.requests for uuid in each.uuids):
        return pools
    options = [[capacity.build_option(each) for each in get_candidates(host)] for host in hosts]
    users: dict[int, set[int]] = defaultdict(set)
    for number, host_options in enumerate(options):
        for index in {index for option in host_options for index, _ in option}:
            users[index].add(number)
    shared = {index: numbers for index, numbers in users.items() if len(numbers) > 1}
    for numbers in _join_overlapping(shared.values()):
        pool = _build_pool([options[at] for at in numbers], shared, capacity)
        if pool is None:
            return None
        for at in numbers:
            pools[at] = pool
    capacity.pooled.update(shared)
    return pools


def _join_overlapping(linked: Iterable[set[int]]) -> list[set[int]]:
    sets: list[set[int]] = []
    for members in linked:
        touching = [each for each in sets if not each.isdisjoint(members)]
        sets = [each for each in sets if each.isdisjoint(members)]
        sets.append(members.union(*touching))
    return sets


def _build_pool(
    hosts: Sequence[Sequence[AllocationOption]], shared: Collection[int], capacity: FreeCapacity
) -> SharedPool | None:
    """Build the pool of a component, or return None if the order matters."""
    parts = [[_split_option(option, shared) for option in options] for options in hosts]
    pooled_options = {pooled for pooled, _ in parts[0]}
    indexes = [index for option in pooled_options for index, _ in option]
    if () in pooled_options or len(indexes) != len(set(indexes)):
        return None
    for pairs in parts:
        owns = {own for _, own in pairs}
        is_complete = len(pairs) == len(owns) * len(pooled_options)
        if not is_complete or {pooled for pooled, _ in pairs} != pooled_options:
            return None
    last = min(pooled_options, key=lambda option: (capacity.count_fits(option), option))
    own: Counter[str] = Counter()
    for index, amount in parts[0][0][1]:
        own[capacity.get_limit_reason(index).reason] += amount
    return SharedPool(
        sum(map(capacity.count_fits, pooled_options)), capacity.find_scarcest_class(last), own
    )


def _split_option(
    option: AllocationOption, shared: Collection[int]
) -> tuple[AllocationOption, AllocationOption]:
    pooled = sorted(each for each in option if each[0] in shared)
    own = (each for each in option if each[0] not in shared)
    return tuple(pooled), tuple(own)
