"""What placement is asked for a request, and what of a request cannot be asked."""

from urllib.parse import parse_qs

import pytest

from placement_sched.errors import Invalid, TooComplex, UnknownNames
from placement_sched.model.report import RequestFilterReport
from placement_sched.scheduler.question import (
    Confinement,
    falls_back,
    question_from,
    unknown_in,
)
from tests.scheduler.states import a_spec, settings_with

NODES = [f"{number}1111111-1111-1111-1111-111111111111" for number in (1, 2)]


def asked(spec, *nodes, named=False, **options):
    where = Confinement(nodes if named or nodes else None)
    return question_from(spec, settings_with(**options), where).querystring()


def parameters(spec, *nodes, **options):
    """Return the question's parameters: a text, or a list where one is repeated."""
    found = parse_qs(asked(spec, *nodes, **options))
    return {key: values[0] if len(values) == 1 else values for key, values in found.items()}


@pytest.mark.parametrize(
    ("extra_specs", "properties", "part"),
    [
        ({"resources:VGPU": "2"}, {}, "VGPU%3A2"),
        ({"resources:DISK_GB": "0"}, {}, "resources=MEMORY_MB%3A512%2CVCPU%3A1"),
        ({"trait:CUSTOM_A": "required"}, {}, "required=CUSTOM_A&"),
        ({"trait:CUSTOM_A": "forbidden"}, {}, "required=%21CUSTOM_A&"),
        ({}, {"trait:CUSTOM_A": "required"}, "required=CUSTOM_A&"),
    ],
)
def test_extra_specs_and_image_properties_are_asked_of_placement(extra_specs, properties, part):
    assert part in asked(a_spec(extra_specs, properties))


@pytest.mark.parametrize("value", ["forbidden", "Required", "x"])
def test_image_asks_for_a_trait_by_required_alone(value):
    assert asked(a_spec(properties={"trait:CUSTOM_A": value})) == asked(a_spec())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("trait:custom_x", "required"),
        ("trait: CUSTOM_X", "required"),
        ("trait:CUSTOM_X\n", "required"),
        ("trait:", "required"),
        ("trait:CUSTOM_X", "Required"),
        ("trait:CUSTOM_X", "foo"),
        ("resources:vcpu", "8"),
        ("resources:", "8"),
        ("resources:VCPU\n", "8"),
        ("resources:VCPU", "1\n"),
        ("resources:VCPU", "1.5"),
        ("resources:VCPU", "-1"),
    ],
)
def test_extra_spec_that_cannot_be_is_refused_by_its_key(key, value):
    with pytest.raises(Invalid) as refused:
        asked(a_spec({key: value}))
    assert f"flavor extra spec {key!r}: " in refused.value.detail


@pytest.mark.parametrize("name", ["custom_x", " CUSTOM_X", "CUSTOM_X\n", ""])
def test_image_property_that_names_no_trait_is_refused_by_its_key(name):
    with pytest.raises(Invalid) as refused:
        asked(a_spec(properties={f"trait:{name}": "required"}))
    assert f"image property {'trait:' + name!r}: " in refused.value.detail


# What a limit might cut is not cut.


@pytest.mark.parametrize(
    "fields",
    [
        {"requested_destination": {"cell": "c"}},
        {"scheduler_hints": {"group": "g"}},
        {"scheduler_hints": {"same_host": ["a"]}},
        {"scheduler_hints": {"different_host": "a"}},
        {"instance_group": {"policy": "affinity"}},
    ],
    ids=str,
)
def test_request_that_names_other_hosts_is_not_cut(fields):
    assert "limit" not in parameters(a_spec(**fields))


def test_request_that_may_leave_its_cell_is_cut_as_others_are():
    leaving = {"cell": "c", "allow_cross_cell_move": True}
    assert parameters(a_spec(requested_destination=leaving))["limit"] == "1000"


def test_limit_is_the_configured_one():
    assert parameters(a_spec())["limit"] == "1000"
    assert parameters(a_spec(), scheduler__max_placement_results=7)["limit"] == "7"


def test_request_for_one_node_asks_for_its_tree_alone():
    asking = parameters(a_spec(), NODES[0])
    assert (asking["in_tree"], asking["limit"]) == (NODES[0], "1000")


def test_request_for_several_nodes_is_not_cut():
    asking = parameters(a_spec(), *NODES)
    assert "in_tree" not in asking
    assert "limit" not in asking


def test_request_for_nodes_that_are_not_there_is_cut():
    assert "limit" in parameters(a_spec(), named=True)


# The group policy.


def of_groups(number, **extra):
    return {f"resources{at}:CUSTOM_A": "1" for at in range(1, number + 1)} | extra


PORT = {"requester_id": "port-1", "resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1000}}


@pytest.mark.parametrize("policy", ["none", "isolate"])
def test_group_policy_is_the_flavors(policy):
    spec = a_spec(of_groups(2, group_policy=policy), requested_resources=[PORT])
    assert parameters(spec)["group_policy"] == policy


def test_group_policy_is_told_also_for_one_group():
    assert parameters(a_spec(of_groups(1, group_policy="isolate")))["group_policy"] == "isolate"


@pytest.mark.parametrize("number", [0, 1])
def test_groups_that_ports_bring_need_no_policy(number):
    ports = [PORT | {"requester_id": f"p{at}"} for at in range(2)]
    spec = a_spec(of_groups(number), requested_resources=ports)
    assert parameters(spec)["group_policy"] == "none"


def test_single_group_has_no_policy():
    assert "group_policy" not in parameters(a_spec(of_groups(1)))


def test_several_groups_of_a_flavor_need_its_policy():
    with pytest.raises(Invalid, match="'1', '2': the extra spec 'group_policy' has to say"):
        asked(a_spec(of_groups(2)))


def test_more_groups_than_allowed_are_refused():
    spec = a_spec(of_groups(5, group_policy="none"))
    with pytest.raises(TooComplex, match=r"6 request groups .* max_request_groups allows 5"):
        asked(spec, placement__max_request_groups=5)


# What ties groups and roots.


def test_request_level_parameters_are_asked():
    params = {
        "root_required": ["CUSTOM_B", "CUSTOM_A"],
        "root_forbidden": ["CUSTOM_C"],
        "same_subtree": [["1", "2"]],
    }
    spec = a_spec(of_groups(2, group_policy="none"), request_level_params=params)
    asking = parameters(spec)
    assert asking["root_required"] == "CUSTOM_A,CUSTOM_B,!CUSTOM_C"
    assert asking["same_subtree"] == "1,2"


def test_subtree_of_a_group_that_is_not_there_is_refused():
    spec = a_spec(of_groups(1), request_level_params={"same_subtree": [["1", "9"]]})
    with pytest.raises(Invalid, match=r"no group '9', only '1' .*same_subtree\[0\]"):
        asked(spec)


def test_group_of_traits_alone_has_to_be_tied_to_others():
    spec = {"trait1:CUSTOM_A": "required", "resources2:CUSTOM_B": "1", "group_policy": "none"}
    with pytest.raises(Invalid, match=r"group '1' asks for no resources.*'trait1:CUSTOM_A'"):
        asked(a_spec(spec))
    tied = a_spec(spec, request_level_params={"same_subtree": [["1", "2"]]})
    assert parameters(tied)["required1"] == "CUSTOM_A"


@pytest.mark.parametrize("extra", [{}, {"trait:CUSTOM_A": "required"}])
def test_request_for_nothing_is_refused_by_what_asks_for_none(extra):
    nothing = {f"resources:{name}": "0" for name in ("VCPU", "MEMORY_MB", "DISK_GB")}
    with pytest.raises(Invalid, match=r"asks for no resources.*'resources:MEMORY_MB'"):
        asked(a_spec(nothing | extra))


def test_unknown_trait_that_a_request_filter_brought_is_told_by_the_filter():
    unknown = UnknownNames("", kind="trait(s)", names=["CUSTOM_NOPE"])
    report = RequestFilterReport(
        name="mine", applied=True, elapsed_ms=0, changes={"root_required": ["CUSTOM_NOPE"]}
    )
    params = {"root_required": ["CUSTOM_NOPE"]}
    told = unknown_in(a_spec(request_level_params=params), unknown, [report]).detail
    assert told == "No such trait(s): CUSTOM_NOPE (request filter mine)"


# Pinned CPUs are asked for as VCPU as well.


@pytest.mark.parametrize(
    ("extra", "fallback"),
    [
        ({"hw:cpu_policy": "dedicated"}, True),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0"}, False),
        ({"hw:cpu_policy": "shared"}, False),
        ({"resources:PCPU": "1"}, False),
        ({}, False),
    ],
    ids=str,
)
def test_only_a_dedicated_policy_falls_back_to_vcpu(extra, fallback):
    assert falls_back(a_spec(extra), settings_with()) is fallback
    switched_off = settings_with(workarounds__disable_fallback_pcpu_query=True)
    assert not falls_back(a_spec(extra), switched_off)


def test_fallback_asks_for_vcpu_and_heeds_no_thread_policy():
    spec = a_spec({"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"})
    pinned, plain = (
        question_from(spec, settings_with(), Confinement(), pinned=pinned).querystring()
        for pinned in (True, False)
    )
    assert "PCPU%3A1" in pinned
    assert "HW_CPU_HYPERTHREADING" in pinned
    assert plain == asked(a_spec())


@pytest.mark.parametrize(
    ("extra_specs", "properties", "places"),
    [
        ({"trait:NOPE": "required"}, {}, ["flavor extra spec 'trait:NOPE'"]),
        ({"resources:NOPE": "1"}, {}, ["flavor extra spec 'resources:NOPE'"]),
        ({}, {"trait:NOPE": "required"}, ["image property 'trait:NOPE'"]),
        (
            {"trait:NOPE": "required"},
            {"trait:NOPE": "required"},
            ["flavor extra spec 'trait:NOPE'", "image property 'trait:NOPE'"],
        ),
    ],
)
def test_unknown_name_is_told_with_where_it_came_from(extra_specs, properties, places):
    unknown = UnknownNames("in a query string", kind="trait(s)", names=["NOPE"])
    told = unknown_in(a_spec(extra_specs, properties), unknown).detail
    assert told == f"No such trait(s): NOPE ({', '.join(places)})"
