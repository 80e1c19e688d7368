# SPDX-License-Identifier: Apache-2.0
"""What placement is asked for a request, and what of a request cannot be asked."""

from urllib.parse import parse_qs

import pytest

from placement_sched.errors import Invalid, TooComplex, UnknownResourceClassOrTrait
from placement_sched.model.clock import utcnow
from placement_sched.model.explanation import IgnoredValue, RequestFilterReport
from placement_sched.scheduler.plugins import plugins_for
from placement_sched.scheduler.resource_request import (
    TargetNodes,
    build_query,
    can_fall_back_to_vcpu,
    find_unknown_names,
)
from tests.support.states import a_spec, settings_with

NODES = [f"{number}1111111-1111-1111-1111-111111111111" for number in (1, 2)]


def asked(spec, *nodes, named=False, **options):
    settings = settings_with(**options)
    hints = plugins_for(settings, utcnow).unlimited_hints
    where = TargetNodes(nodes if named or nodes else None, hints)
    return build_query(spec, settings, where).query.querystring()


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
        ("trait:custom_x", "forbidden"),
        ("resources:CUSTOM_low", "8"),
        ("resources1:CUSTOM_A-B", "8"),
    ],
)
def test_extra_spec_that_placement_cannot_take_is_refused_by_its_key(key, value):
    """nova asks placement for it, which refuses, so that nova finds no host."""
    with pytest.raises(Invalid) as refused:
        asked(a_spec({key: value}))
    assert f"flavor extra spec {key!r}: " in refused.value.detail


@pytest.mark.parametrize("name", ["custom_x", " CUSTOM_X", "CUSTOM_X\n"])
def test_image_property_that_names_no_trait_is_refused_by_its_key(name):
    with pytest.raises(Invalid) as refused:
        asked(a_spec(properties={f"trait:{name}": "required"}))
    assert f"image property {'trait:' + name!r}: " in refused.value.detail


# What nova logs and ignores is ignored, and noted.

A_CLASS = "a standard resource class, or a name that begins with CUSTOM_"
AN_AMOUNT = "a whole number that is not negative"
A_WORD = "required or forbidden"

#: Extra specs that nova 34's ResourceRequest.from_request_spec logs and passes over.
IGNORED = [
    *(("trait:CUSTOM_X", value, A_WORD) for value in ("optional", "Required", "preferred", "")),
    ("trait:CUSTOM_X", "required ", A_WORD),
    ("trait1:CUSTOM_X", "optional", A_WORD),
    ("trait_FOO:low", "optional", A_WORD),
    *(("resources:VCPU", value, AN_AMOUNT) for value in ("x", "-1", "2.0", "", "1e1", "0x2")),
    ("resources1:VGPU", "x", AN_AMOUNT),
    ("resources:CUSTOM_A", "9" * 5000, AN_AMOUNT),
    *(("resources:" + name, "1", A_CLASS) for name in ("BOGUS", "", "vcpu", " VCPU", "VCPU ")),
    ("resources_NET:BOGUS", "x", A_CLASS),
    *(("group_policy", value, "none or isolate") for value in ("bogus", "", "Isolate", " none")),
    ("trait:", "required", "the name of a trait after the colon"),
    ("trait2:", "forbidden", "the name of a trait after the colon"),
]


@pytest.mark.parametrize(("key", "value", "expected"), IGNORED, ids=lambda part: part[:20] or "-")
def test_extra_spec_that_nova_ignores_changes_nothing_and_is_noted(key, value, expected):
    made = build_query(a_spec({key: value}), settings_with(), TargetNodes())
    assert made.query.querystring() == asked(a_spec())
    assert made.ignored == (IgnoredValue("flavor", key, value, expected),)


@pytest.mark.parametrize(("key", "value", "expected"), IGNORED, ids=lambda part: part[:20] or "-")
def test_strict_refuses_what_is_ignored_otherwise_by_its_key(key, value, expected):
    with pytest.raises(Invalid) as refused:
        asked(a_spec({key: value}), scheduler__strict_extra_specs=True)
    assert refused.value.detail.startswith(f"flavor extra spec {key!r}: expected {expected}, got ")
    assert len(refused.value.detail) < 300


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("key", "value", "part"),
    [
        ("resources:VCPU", " 2 ", "VCPU%3A2"),
        ("resources:VCPU", "+2", "VCPU%3A2"),
        ("resources:VCPU", "1_0", "VCPU%3A10"),
        ("resources:VCPU", "1\n", "VCPU%3A1"),
        ("resources:VCPU\n", "8", "VCPU%3A8"),
        ("trait:CUSTOM_X\n", "required", "required=CUSTOM_X&"),
        ("resources:DISK_GB", "-0", "resources=MEMORY_MB%3A512%2CVCPU%3A1"),
        ("resources:VCPU", "99999999999", "VCPU%3A2147483648"),
    ],
)
def test_odd_spellings_that_nova_reads_are_read(key, value, part, strict):
    made = build_query(
        a_spec({key: value}), settings_with(scheduler__strict_extra_specs=strict), TargetNodes()
    )
    assert part in made.query.querystring()
    assert made.ignored == ()


@pytest.mark.parametrize("key", ["resourcesé:VGPU", f"resources{'A' * 65}:VGPU", "resources:A\nB"])
def test_key_that_nova_takes_for_another_is_none_of_placements(key):
    made = build_query(a_spec({key: "1"}), settings_with(), TargetNodes())
    assert (made.query.querystring(), made.ignored) == (asked(a_spec()), ())


def test_what_is_ignored_leaves_the_rest_of_its_group():
    extra = {"resources1:VGPU": "1", "trait1:CUSTOM_X": "optional", "resources1:BOGUS": "1"}
    made = build_query(a_spec(extra), settings_with(), TargetNodes())
    assert made.query.querystring() == asked(a_spec({"resources1:VGPU": "1"}))
    assert [one.key for one in made.ignored] == ["trait1:CUSTOM_X", "resources1:BOGUS"]


def test_image_property_without_a_trait_is_ignored_as_in_nova():
    made = build_query(a_spec(properties={"trait:": "required"}), settings_with(), TargetNodes())
    assert made.query.querystring() == asked(a_spec())
    assert [one.detail for one in made.ignored] == [
        "ignored: image property trait:=required: expected the name of a trait after the colon"
    ]


def test_several_groups_need_a_policy_that_is_one():
    """nova ignores the policy, too, and then placement refuses its query."""
    with pytest.raises(Invalid, match="set the extra spec 'group_policy'"):
        asked(a_spec(of_groups(2, group_policy="bogus")))


def test_group_of_an_ignored_amount_counts_among_the_flavors_as_in_nova():
    spec = a_spec(of_groups(2) | {"resources1:CUSTOM_A": "x"}, requested_resources=[PORT])
    with pytest.raises(Invalid, match="set the extra spec 'group_policy'"):
        asked(spec)
    port = PORT | {"requester_id": "1"}
    with pytest.raises(Invalid, match="duplicate request group '1', also from the flavor"):
        asked(a_spec({"resources1:VGPU": "x"}, requested_resources=[port]))


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
    with pytest.raises(Invalid, match="'1', '2': set the extra spec 'group_policy'"):
        asked(a_spec(of_groups(2)))


def test_more_groups_than_allowed_are_refused():
    spec = a_spec(of_groups(5, group_policy="none"))
    with pytest.raises(TooComplex, match=r"6 request groups .* max_request_groups \(5\)"):
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
    with pytest.raises(Invalid, match=r"unknown request group '9'; known: '1' .*same_subtree\[0\]"):
        asked(spec)


def test_group_of_traits_alone_has_to_be_tied_to_others():
    spec = {"trait1:CUSTOM_A": "required", "resources2:CUSTOM_B": "1", "group_policy": "none"}
    with pytest.raises(Invalid, match=r"group '1' requests no resources.*'trait1:CUSTOM_A'"):
        asked(a_spec(spec))
    tied = a_spec(spec, request_level_params={"same_subtree": [["1", "2"]]})
    assert parameters(tied)["required1"] == "CUSTOM_A"


@pytest.mark.parametrize("extra", [{}, {"trait:CUSTOM_A": "required"}])
def test_request_for_nothing_is_refused_by_what_asks_for_none(extra):
    nothing = {f"resources:{name}": "0" for name in ("VCPU", "MEMORY_MB", "DISK_GB")}
    with pytest.raises(Invalid, match=r"no resources.*'resources:MEMORY_MB'"):
        asked(a_spec(nothing | extra))


def test_unknown_trait_that_a_request_filter_brought_is_told_by_the_filter():
    unknown = UnknownResourceClassOrTrait("", kind="trait(s)", names=["CUSTOM_NOPE"])
    report = RequestFilterReport(
        name="mine", applied=True, elapsed_ms=0, changes={"root_required": ["CUSTOM_NOPE"]}
    )
    params = {"root_required": ["CUSTOM_NOPE"]}
    told = find_unknown_names(a_spec(request_level_params=params), unknown, [report]).detail
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
    assert can_fall_back_to_vcpu(a_spec(extra), settings_with()) is fallback
    switched_off = settings_with(workarounds__disable_fallback_pcpu_query=True)
    assert not can_fall_back_to_vcpu(a_spec(extra), switched_off)


def test_fallback_asks_for_vcpu_and_heeds_no_thread_policy():
    spec = a_spec({"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"})
    pinned, plain = (
        build_query(spec, settings_with(), TargetNodes(), pinned=pinned).query.querystring()
        for pinned in (True, False)
    )
    assert "PCPU%3A1" in pinned
    assert "HW_CPU_HYPERTHREADING" in pinned
    assert plain == asked(a_spec())


@pytest.mark.parametrize(
    ("extra_specs", "properties", "places"),
    [
        ({"trait:NOPE": "required"}, {}, ["flavor extra spec 'trait:NOPE'"]),
        ({"resources:CUSTOM_NO": "1"}, {}, ["flavor extra spec 'resources:CUSTOM_NO'"]),
        ({}, {"trait:NOPE": "required"}, ["image property 'trait:NOPE'"]),
        (
            {"trait:NOPE": "required"},
            {"trait:NOPE": "required"},
            ["flavor extra spec 'trait:NOPE'", "image property 'trait:NOPE'"],
        ),
    ],
)
def test_unknown_name_is_told_with_where_it_came_from(extra_specs, properties, places):
    (name,) = {key.partition(":")[2] for key in [*extra_specs, *properties]}
    unknown = UnknownResourceClassOrTrait("in a query string", kind="trait(s)", names=[name])
    told = find_unknown_names(a_spec(extra_specs, properties), unknown).detail
    assert told == f"No such trait(s): {name} ({', '.join(places)})"
