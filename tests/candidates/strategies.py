"""Random clouds and random questions for them."""

from hypothesis import strategies as st

from placement_sched.model.inventory import MAX_INT, Inventory
from placement_sched.model.query import AggregateTerms, RequestGroup, TraitTerms
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
