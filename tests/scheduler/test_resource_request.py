# SPDX-License-Identifier: Apache-2.0
"""Candidates queries of requests, and the parts of requests that are ignored or rejected."""

import logging
from urllib.parse import parse_qs

import pytest

from placement_sched.errors import Invalid, TooComplex, UnknownResourceClassOrTrait
from placement_sched.explain.values import FLAVOR, IgnoredValue, RequestFilterReport
from placement_sched.model.clock import utcnow
from placement_sched.scheduler import caches
from placement_sched.scheduler.plugins import get_plugins
from placement_sched.scheduler.resource_request import (
    build_query,
    can_fall_back_to_vcpu,
    find_unknown_names,
)
from tests.support.scheduling import (
    explain_request,
    make_flavor,
    make_report,
    make_spec,
    make_uuid,
    select_hosts,
)
from tests.support.states import build_settings, build_spec

NODE_UUIDS = [f"{number}1111111-1111-1111-1111-111111111111" for number in (1, 2)]


def build_query_string(spec, *nodes, named=False, **options):
    settings = build_settings(**options)
    hints = get_plugins(settings, utcnow).unlimited_hints
    named_nodes = nodes if named or nodes else None
    return build_query(spec, settings, named_nodes, hints)[0].as_querystring()


def build_query_parameters(spec, *nodes, **options):
    """Return the parameters of the query: a string, or a list if the key is repeated."""
    values = parse_qs(build_query_string(spec, *nodes, **options))
    return {key: value[0] if len(value) == 1 else value for key, value in values.items()}


@pytest.mark.parametrize("value", ["forbidden", "Required", "x"])
def test_trait_of_an_image_counts_only_with_the_value_required(value):
    query = build_query_string(build_spec(properties={"trait:CUSTOM_A": value}))
    assert query == build_query_string(build_spec())


@pytest.mark.parametrize(
    ("extra_specs", "properties"),
    [
        ({"trait:custom_x": "required"}, {}),
        ({"trait: CUSTOM_X": "forbidden"}, {}),
        ({"trait:custom_x": "forbidden"}, {}),
        ({"resources:CUSTOM_low": "8"}, {}),
        ({"resources1:CUSTOM_A-B": "8"}, {}),
        ({}, {"trait:custom_x": "required"}),
        ({}, {"trait:CUSTOM X": "required"}),
    ],
)
def test_error_for_an_invalid_trait_or_class_name_contains_its_key(extra_specs, properties):
    kind = "flavor extra spec" if extra_specs else "image property"
    (key,) = [*extra_specs, *properties]
    with pytest.raises(Invalid) as error:
        build_query_string(build_spec(extra_specs, properties))
    assert f"{kind} {key!r}: " in error.value.detail


EXPECTED_RESOURCE_CLASS_TEXT = "a standard resource class, or a name that begins with CUSTOM_"
EXPECTED_AMOUNT_TEXT = "a whole number that is not negative"
EXPECTED_TRAIT_TEXT = "required or forbidden"

#: Extra specs that nova 34's ResourceRequest.from_request_spec logs and passes over.
IGNORED_EXTRA_SPECS = [
    *(
        ("trait:CUSTOM_X", value, EXPECTED_TRAIT_TEXT)
        for value in ("optional", "Required", "preferred", "")
    ),
    ("trait:CUSTOM_X", "required ", EXPECTED_TRAIT_TEXT),
    ("trait1:CUSTOM_X", "optional", EXPECTED_TRAIT_TEXT),
    ("trait_FOO:low", "optional", EXPECTED_TRAIT_TEXT),
    *(
        ("resources:VCPU", value, EXPECTED_AMOUNT_TEXT)
        for value in ("x", "-1", "2.0", "", "1e1", "0x2")
    ),
    ("resources1:VGPU", "x", EXPECTED_AMOUNT_TEXT),
    ("resources:CUSTOM_A", "9" * 5000, EXPECTED_AMOUNT_TEXT),
    *(
        ("resources:" + name, "1", EXPECTED_RESOURCE_CLASS_TEXT)
        for name in ("BOGUS", "", "vcpu", " VCPU", "VCPU ")
    ),
    ("resources_NET:BOGUS", "x", EXPECTED_RESOURCE_CLASS_TEXT),
    *(("group_policy", value, "none or isolate") for value in ("bogus", "", "Isolate", " none")),
    ("trait:", "required", "the name of a trait after the colon"),
    ("trait2:", "forbidden", "the name of a trait after the colon"),
]


@pytest.mark.parametrize(
    ("key", "value", "expected"), IGNORED_EXTRA_SPECS, ids=lambda part: part[:20] or "-"
)
def test_extra_spec_that_nova_ignores_is_reported_or_an_error_if_strict(key, value, expected):
    query, ignored_values = build_query(build_spec({key: value}), build_settings())
    assert query.as_querystring() == build_query_string(build_spec())
    assert ignored_values == (IgnoredValue("flavor", key, value, expected),)
    with pytest.raises(Invalid) as error:
        build_query_string(build_spec({key: value}), scheduler__strict_extra_specs=True)
    assert error.value.detail.startswith(f"flavor extra spec {key!r}: expected {expected}, got ")
    assert len(error.value.detail) < 300


@pytest.mark.parametrize(
    ("extra_specs", "properties", "same_as", "ignored"),
    [
        ({"resourcesé:VGPU": "1"}, {}, {}, []),
        ({f"resources{'A' * 65}:VGPU": "1"}, {}, {}, []),
        ({"resources:A\nB": "1"}, {}, {}, []),
        (
            {"resources1:VGPU": "1", "trait1:CUSTOM_X": "optional", "resources1:BOGUS": "1"},
            {},
            {"resources1:VGPU": "1"},
            ["trait1:CUSTOM_X", "resources1:BOGUS"],
        ),
        ({}, {"trait:": "required"}, {}, ["trait:"]),
    ],
)
def test_ignored_extra_spec_does_not_change_the_candidates_query(
    extra_specs, properties, same_as, ignored
):
    spec = build_spec(extra_specs, properties)
    query, ignored_values = build_query(spec, build_settings())
    assert query.as_querystring() == build_query_string(build_spec(same_as))
    assert [value.key for value in ignored_values] == ignored
    if properties:
        place = "image property trait:=required"
        detail = f"ignored: {place}: expected the name of a trait after the colon"
        assert ignored_values[0].detail == detail


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
def test_spellings_of_extra_specs_that_nova_accepts_are_accepted(key, value, part, strict):
    query, ignored_values = build_query(
        build_spec({key: value}), build_settings(scheduler__strict_extra_specs=strict)
    )
    assert part in query.as_querystring()
    assert ignored_values == ()


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
def test_request_that_refers_to_other_hosts_has_no_candidate_limit(fields):
    assert "limit" not in build_query_parameters(build_spec(**fields))


def test_candidate_limit_is_the_configured_number():
    leaving = {"cell": "c", "allow_cross_cell_move": True}
    assert build_query_parameters(build_spec(requested_destination=leaving))["limit"] == "1000"
    assert build_query_parameters(build_spec())["limit"] == "1000"
    assert build_query_parameters(build_spec(), scheduler__max_placement_results=7)["limit"] == "7"


def test_candidate_limit_is_omitted_only_for_several_target_nodes():
    query = build_query_parameters(build_spec(), NODE_UUIDS[0])
    assert (query["in_tree"], query["limit"]) == (NODE_UUIDS[0], "1000")
    assert not {"in_tree", "limit"} & build_query_parameters(build_spec(), *NODE_UUIDS).keys()
    assert "limit" in build_query_parameters(build_spec(), named=True), "no target node exists"


def build_numbered_groups(number, **extra):
    return {f"resources{at}:CUSTOM_A": "1" for at in range(1, number + 1)} | extra


PORT_REQUEST_GROUP = {"requester_id": "port-1", "resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1000}}


@pytest.mark.parametrize(
    ("groups", "policy", "ports", "expected"),
    [
        (2, "none", 1, "none"),
        (2, "isolate", 1, "isolate"),
        (1, "isolate", 0, "isolate"),
        (0, None, 2, "none"),
        (1, None, 2, "none"),
        (1, None, 0, None),
    ],
)
def test_group_policy_is_that_of_the_flavor_or_none_for_ports(groups, policy, ports, expected):
    extra_specs = build_numbered_groups(groups, **({"group_policy": policy} if policy else {}))
    ports = [PORT_REQUEST_GROUP | {"requester_id": f"p{number}"} for number in range(ports)]
    query = build_query_parameters(build_spec(extra_specs, requested_resources=ports))
    assert query.get("group_policy") == expected


def test_too_many_request_groups_are_an_error():
    spec = build_spec(build_numbered_groups(5, group_policy="none"))
    with pytest.raises(TooComplex, match=r"6 request groups .* max_request_groups \(5\)"):
        build_query_string(spec, placement__max_request_groups=5)


def test_request_level_parameters_are_in_the_candidates_query():
    params = {
        "root_required": ["CUSTOM_B", "CUSTOM_A"],
        "root_forbidden": ["CUSTOM_C"],
        "same_subtree": [["1", "2"]],
    }
    spec = build_spec(build_numbered_groups(2, group_policy="none"), request_level_params=params)
    query = build_query_parameters(spec)
    assert query["root_required"] == "CUSTOM_A,CUSTOM_B,!CUSTOM_C"
    assert query["same_subtree"] == "1,2"


ZERO_AMOUNTS_EXTRA_SPECS = {f"resources:{name}": "0" for name in ("VCPU", "MEMORY_MB", "DISK_GB")}
TRAIT_ONLY_GROUP_SPECS = {
    "trait1:CUSTOM_A": "required",
    "resources2:CUSTOM_B": "1",
    "group_policy": "none",
}


@pytest.mark.parametrize(
    ("extra_specs", "fields", "message"),
    [
        (build_numbered_groups(2), {}, "'1', '2': set the extra spec 'group_policy'"),
        (
            build_numbered_groups(2, group_policy="bogus"),
            {},
            "'1', '2': set the extra spec 'group_policy'",
        ),
        # A group with an ignored amount counts as a group of the flavor.
        (
            build_numbered_groups(2) | {"resources1:CUSTOM_A": "x"},
            {"requested_resources": [PORT_REQUEST_GROUP]},
            "set the extra spec 'group_policy'",
        ),
        (
            {"resources1:VGPU": "x"},
            {"requested_resources": [PORT_REQUEST_GROUP | {"requester_id": "1"}]},
            "duplicate request group '1', also from the flavor",
        ),
        (
            build_numbered_groups(1),
            {"request_level_params": {"same_subtree": [["1", "9"]]}},
            r"unknown request group '9' \(.*: '1'\).*same_subtree\[0\]",
        ),
        (TRAIT_ONLY_GROUP_SPECS, {}, r"group '1' requests no resources.*'trait1:CUSTOM_A'"),
        (ZERO_AMOUNTS_EXTRA_SPECS, {}, r"no resources.*'resources:MEMORY_MB'"),
        (
            ZERO_AMOUNTS_EXTRA_SPECS | {"trait:CUSTOM_A": "required"},
            {},
            r"no resources.*'resources:MEMORY_MB'",
        ),
    ],
)
def test_invalid_request_groups_are_rejected_with_the_reason(extra_specs, fields, message):
    with pytest.raises(Invalid, match=message):
        build_query_string(build_spec(extra_specs, **fields))


def test_group_without_resources_may_be_in_a_subtree_of_another():
    spec = build_spec(TRAIT_ONLY_GROUP_SPECS, request_level_params={"same_subtree": [["1", "2"]]})
    assert build_query_parameters(spec)["required1"] == "CUSTOM_A"


def test_error_for_an_unknown_trait_names_the_request_filter_that_added_it():
    unknown = UnknownResourceClassOrTrait("", kind="trait(s)", names=["CUSTOM_NOPE"])
    params = {"root_required": ["CUSTOM_NOPE"]}
    report = RequestFilterReport(name="mine", applied=True, elapsed_ms=0, changes=params)
    error = find_unknown_names(build_spec(request_level_params=params), unknown, [report])
    assert error.detail == "No such trait(s): CUSTOM_NOPE (request filter mine)"


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
def test_only_a_dedicated_cpu_policy_falls_back_to_vcpu(extra, fallback):
    assert can_fall_back_to_vcpu(build_spec(extra), build_settings()) is fallback
    switched_off = build_settings(workarounds__disable_fallback_pcpu_query=True)
    assert not can_fall_back_to_vcpu(build_spec(extra), switched_off)


def test_fallback_to_vcpu_ignores_the_thread_policy():
    spec = build_spec({"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"})
    pinned, plain = (
        build_query(spec, build_settings(), pinned=pinned)[0].as_querystring()
        for pinned in (True, False)
    )
    assert "PCPU%3A1" in pinned
    assert "HW_CPU_HYPERTHREADING" in pinned
    assert plain == build_query_string(build_spec())


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
def test_error_for_an_unknown_trait_or_class_lists_its_places(extra_specs, properties, places):
    (name,) = {key.partition(":")[2] for key in [*extra_specs, *properties]}
    unknown = UnknownResourceClassOrTrait("in a query string", kind="trait(s)", names=[name])
    detail = find_unknown_names(build_spec(extra_specs, properties), unknown).detail
    assert detail == f"No such trait(s): {name} ({', '.join(places)})"


#: Values that nova ignores, and the values that are expected.
IGNORED_AND_EXPECTED_VALUES = {
    "trait:HW_CPU_X86_AVX2": ("optional", EXPECTED_TRAIT_TEXT),
    "resources:BOGUS": ("1", EXPECTED_RESOURCE_CLASS_TEXT),
    "resources:VCPU": ("2.0", EXPECTED_AMOUNT_TEXT),
    "resources1:VGPU": ("", EXPECTED_AMOUNT_TEXT),
    "group_policy": ("bogus", "none or isolate"),
}
EXTRA_SPEC_WARNINGS = [
    {
        "key": key,
        "source": "flavor",
        "detail": f"ignored: flavor extra spec {key}={value}: expected {expected}",
    }
    for key, (value, expected) in IGNORED_AND_EXPECTED_VALUES.items()
]


@pytest.fixture
def cloud(sqlite_app):
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report(f"cn{n}") for n in (1, 2)])
    return sqlite_app


def build_spec_with_ignored_values(*instances, **fields):
    extra_specs = {key: value for key, (value, _) in IGNORED_AND_EXPECTED_VALUES.items()}
    return make_spec(*instances, flavor=make_flavor(extra_specs=extra_specs, **fields))


def read_funnel_of_decision(cloud, uuid):
    return cloud.get(f"/scheduler/v1/decisions/{uuid}").json["funnel"]


def test_explanation_decision_and_error_warn_about_ignored_extra_specs(cloud):
    result, plain = (
        explain_request(cloud, build_spec_with_ignored_values()),
        explain_request(cloud, make_spec()),
    )
    assert result["funnel"]["warnings"] == EXTRA_SPEC_WARNINGS
    assert result["outcome"] == "selected"
    query = result["funnel"]["allocation_candidates"]["query"]
    assert query == plain["funnel"]["allocation_candidates"]["query"]
    assert result["hosts"] == plain["hosts"]
    assert "warnings" not in plain["funnel"]
    result = select_hosts(cloud, build_spec_with_ignored_values(make_uuid(1)))
    ((selection,),) = result["selections"]
    (allocation,) = selection["allocation_request"]["allocations"].values()
    assert allocation["resources"]["VCPU"] == 1
    assert read_funnel_of_decision(cloud, result["decision"])["warnings"] == EXTRA_SPEC_WARNINGS
    (error,) = select_hosts(
        cloud, build_spec_with_ignored_values(make_uuid(2), vcpus=999), status=409
    )["errors"]
    assert error["code"] == "scheduler.no_valid_host"
    assert error["funnel"]["warnings"] == EXTRA_SPEC_WARNINGS
    assert read_funnel_of_decision(cloud, error["decision"])["warnings"] == EXTRA_SPEC_WARNINGS


def test_fallback_query_of_pinned_cpus_has_no_second_warning(cloud):
    extra_specs = {"hw:cpu_policy": "dedicated", "trait:CUSTOM_A": "preferred"}
    response = explain_request(cloud, make_spec(flavor=make_flavor(extra_specs=extra_specs)))
    assert response["funnel"]["allocation_candidates"]["fallback"]["query"]
    assert [warning["key"] for warning in response["funnel"]["warnings"]] == ["trait:CUSTOM_A"]


def test_warning_about_an_ignored_value_is_logged_once(cloud, caplog):
    with caplog.at_level(logging.WARNING, logger=caches.__name__):
        for number in (1, 2):
            select_hosts(cloud, build_spec_with_ignored_values(make_uuid(number)))
            explain_request(cloud, build_spec_with_ignored_values())
        explain_request(cloud, make_spec(flavor=make_flavor(extra_specs={"group_policy": "other"})))
    logged = [record.getMessage() for record in caplog.records if record.name == caches.__name__]
    other = "ignored: flavor extra spec group_policy=other: expected none or isolate"
    assert logged == [*(entry["detail"] for entry in EXTRA_SPEC_WARNINGS), other]


def test_number_of_cached_warnings_is_limited(caplog, monkeypatch):
    monkeypatch.setattr(caches, "MAX_LOGGED", 3)
    log_once = caches.ProcessCaches().log_once
    items = [
        IgnoredValue(FLAVOR, "group_policy", str(number), "none or isolate") for number in range(4)
    ]
    with caplog.at_level(logging.WARNING):
        for entry in [*items[:3], *items[:3], items[3], items[3], items[0]]:
            log_once(entry.detail)
    values = [record.getMessage().partition("=")[2].partition(":")[0] for record in caplog.records]
    assert values == ["0", "1", "2", "3", "0"]


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("trait:A", "a\nb", "trait:A='a\\nb'"),
        ("trait:A\n", "", "'trait:A\\n'="),
        ("trait:A", "x" * 999, "trait:A=" + "x" * 100 + "..."),
    ],
)
def test_warning_about_an_ignored_value_is_one_short_line(key, value, shown):
    detail = IgnoredValue(FLAVOR, key, value, "required or forbidden").detail
    assert detail == f"ignored: flavor extra spec {shown}: expected required or forbidden"


def test_stored_flavor_with_an_ignored_extra_spec_is_placed(cloud):
    flavors = "/compute/v2.1/flavors"
    body = {"flavor": {"name": "old", "ram": 512, "vcpus": 1, "disk": 1, "id": "old"}}
    cloud.post_json(flavors, body)
    request = {"extra_specs": {"trait:HW_CPU_X86_AVX2": "optional"}}
    at = {"OpenStack-API-Version": "compute 2.86"}
    cloud.post_json(f"{flavors}/old/os-extra_specs", request, headers=at, status=400)
    cloud.post_json(f"{flavors}/old/os-extra_specs", request)
    response = explain_request(cloud, make_spec(flavor="old"))
    assert (response["outcome"], response["funnel"]["warnings"]) == (
        "selected",
        EXTRA_SPEC_WARNINGS[:1],
    )
