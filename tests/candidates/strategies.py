"""Random clouds and random questions for them."""

from hypothesis import strategies as st

from placement_sched.model.inventory import MAX_INT, Inventory
from placement_sched.model.query import (
    AggregateTerms,
    CandidatesQuery,
    RequestGroup,
    TraitTerms,
)
from tests.clouds import Cloud, Host, Stock, uuid_of

CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB")
TRAITS = ("HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "STORAGE_DISK_SSD", "CUSTOM_GOLD")
AGGREGATES = ("rack-1", "rack-2", "rack-3")


@st.composite
def stocks(draw: st.DrawFn, name: str) -> Stock:
    total = draw(st.integers(1, 16))
    inventory = Inventory(
        resource_class=name,
        total=total,
        reserved=draw(st.integers(0, total)),
        min_unit=draw(st.integers(1, 3)),
        max_unit=draw(st.sampled_from([2, 4, 16, MAX_INT])),
        step_size=draw(st.sampled_from([1, 1, 1, 2, 3])),
        allocation_ratio=draw(st.sampled_from([1.0, 1.5, 4.0, 0.5])),
    )
    return Stock(inventory, draw(st.integers(0, inventory.capacity)))


@st.composite
def hosts(draw: st.DrawFn, number: int) -> Host:
    names = draw(st.sets(st.sampled_from(CLASSES), min_size=1))
    return Host(
        name=f"host-{number}",
        stocks={name: draw(stocks(name)) for name in sorted(names)},
        traits=frozenset(draw(st.sets(st.sampled_from(TRAITS)))),
        aggregates=frozenset(draw(st.sets(st.sampled_from(AGGREGATES)))),
    )


@st.composite
def clouds(draw: st.DrawFn, most: int = 6) -> Cloud:
    return Cloud(tuple(draw(hosts(number)) for number in range(draw(st.integers(0, most)))))


_trait_sets = st.sets(st.sampled_from(TRAITS), min_size=1, max_size=2).map(frozenset)
_aggregate_sets = st.sets(
    st.sampled_from([uuid_of(name) for name in (*AGGREGATES, "rack-nobody")]), min_size=1
).map(frozenset)


@st.composite
def groups(draw: st.DrawFn) -> RequestGroup:
    names = draw(st.sets(st.sampled_from(CLASSES), min_size=1))
    return RequestGroup(
        resources=tuple((name, draw(st.integers(1, 6))) for name in sorted(names)),
        traits=TraitTerms(
            required=tuple(draw(st.lists(_trait_sets, max_size=2))),
            forbidden=frozenset(draw(st.sets(st.sampled_from(TRAITS), max_size=1))),
        ),
        aggregates=AggregateTerms(
            member_of=tuple(draw(st.lists(_aggregate_sets, max_size=2))),
            forbidden=draw(st.one_of(st.just(frozenset()), _aggregate_sets)),
        ),
        in_tree=draw(st.sampled_from([None, None, None, uuid_of("host-0"), uuid_of("nobody")])),
    )


CHILD_CLASSES = ("VCPU", "DISK_GB", "SRIOV_NET_VF")
SHARES = "MISC_SHARES_VIA_AGGREGATE"
ROOT_TRAITS = ("CUSTOM_GOLD", "HW_CPU_X86_AVX")


@st.composite
def roomy_stocks(draw: st.DrawFn, name: str) -> Stock:
    """Return a stock that mostly has room for what is asked, and now and then has not."""
    inventory = Inventory(
        resource_class=name,
        total=draw(st.integers(1, 8)),
        max_unit=draw(st.sampled_from([MAX_INT, MAX_INT, 3, 1])),
        min_unit=draw(st.sampled_from([1, 1, 1, 2])),
        step_size=draw(st.sampled_from([1, 1, 1, 2])),
    )
    return Stock(inventory, draw(st.sampled_from([0, 0, inventory.total // 2, inventory.total])))


@st.composite
def tree_clouds(draw: st.DrawFn, most: int = 8) -> Cloud:
    """Return a cloud of trees of any depth, with providers that share wherever it may be."""
    made: list[Host] = []
    for number in range(draw(st.integers(1, most))):
        parent = draw(st.sampled_from([None, *(host.name for host in made)]))
        names = draw(st.sets(st.sampled_from(CHILD_CLASSES)))
        traits = draw(st.sets(st.sampled_from(TRAITS), max_size=3))
        if draw(st.sampled_from([False, False, False, True])):
            traits.add(SHARES)
        made.append(
            Host(
                name=f"host-{number}",
                stocks={name: draw(roomy_stocks(name)) for name in sorted(names)},
                traits=frozenset(traits),
                aggregates=frozenset(draw(st.sets(st.sampled_from(AGGREGATES), max_size=2))),
                parent=parent,
            )
        )
    return Cloud(tuple(made))


_mostly_none = st.one_of(st.just(()), st.just(()), st.lists(_trait_sets, max_size=1).map(tuple))
_seldom_traits = st.one_of(
    st.just(frozenset()), st.sets(st.sampled_from(TRAITS), max_size=1).map(frozenset)
)
_seldom_uuids = st.one_of(st.just(frozenset()), st.just(frozenset()), _aggregate_sets)
_trees = st.sampled_from([None] * 8 + [uuid_of("host-0"), uuid_of("host-2"), uuid_of("nobody")])


@st.composite
def granular_groups(draw: st.DrawFn, suffix: str, least: int = 1) -> RequestGroup:
    names = draw(st.sets(st.sampled_from(CHILD_CLASSES), min_size=least, max_size=2))
    return RequestGroup(
        suffix=suffix,
        resources=tuple((name, draw(st.integers(1, 3))) for name in sorted(names)),
        traits=TraitTerms(draw(_mostly_none), draw(_seldom_traits)),
        aggregates=AggregateTerms(
            draw(st.one_of(st.just(()), st.lists(_aggregate_sets, max_size=1).map(tuple))),
            draw(_seldom_uuids),
        ),
        in_tree=draw(_trees),
    )


@st.composite
def queries(draw: st.DrawFn) -> CandidatesQuery:
    """Return a question of up to three groups, tied and isolated in any way."""
    suffixes = draw(st.sampled_from([("",), ("1",), ("", "1"), ("1", "2"), ("", "1", "_NET")]))
    named = [suffix for suffix in suffixes if suffix]
    tied = draw(
        st.lists(st.sets(st.sampled_from(named), min_size=1).map(lambda some: tuple(sorted(some))))
        if named
        else st.just([])
    )[:2]
    bare = {suffix for some in tied for suffix in some}
    groups = [
        draw(granular_groups(suffix, 0 if suffix in bare and suffix != suffixes[0] else 1))
        for suffix in suffixes
    ]
    root = st.sets(st.sampled_from(ROOT_TRAITS), max_size=1)
    required = draw(st.one_of(st.just(set()), root))
    return CandidatesQuery(
        groups=tuple(groups),
        group_policy=draw(st.sampled_from(["none", "isolate"])),
        root=TraitTerms(
            tuple(frozenset({name}) for name in required),
            frozenset(draw(st.one_of(st.just(set()), root))) - required,
        ),
        same_subtrees=tuple(tied),
    )
