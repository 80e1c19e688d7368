# SPDX-License-Identifier: Apache-2.0
"""Limits of requests: the largest accepted value, and the smallest rejected value."""

import pytest

from placement_sched.api.placement import query_params
from placement_sched.limits import MAX_JSON_DEPTH, MAX_JSON_VALUES
from placement_sched.scheduler.request_filters import map_az_to_placement_aggregate as by_zone
from tests.support.clouds import uuid_of
from tests.support.large_bodies import ADMIN_HEADERS, SCHEDULER_PATH, build_names, post_body
from tests.support.scheduling import make_flavor, make_report, make_spec


@pytest.fixture
def cloud_app(sqlite_app):
    """A service with two hosts that fit many small instances."""
    sqlite_app.post_json(
        f"{SCHEDULER_PATH}/compute_nodes", [make_report("cn1"), make_report("cn2")]
    )
    return sqlite_app


def build_group_with_members(count):
    uuids = [uuid_of(name) for name in build_names(count)]
    return {"instance_group": {"policy": "affinity", "members": uuids}}


def build_image_with_properties(count):
    image = {"id": uuid_of("image"), "properties": dict.fromkeys(build_names(count), "v")}
    return {"image": image}


SMALL_FLAVOR = make_flavor(memory_mb=16, root_gb=0)


def build_scheduler_hints(hint, number):
    return {"scheduler_hints": {hint: build_names(number)}}


@pytest.mark.parametrize(
    ("fields", "limit", "unit", "path"),
    [
        (lambda n: {"ignore_hosts": build_names(n)}, 10_000, "items", "ignore_hosts"),
        (lambda n: {"force_hosts": [*build_names(n - 1), "cn1"]}, 10_000, "items", "force_hosts"),
        (lambda n: {"force_nodes": [*build_names(n - 1), "cn1"]}, 10_000, "items", "force_nodes"),
        (build_group_with_members, 10_000, "items", "instance_group.members"),
        (lambda n: {"retry": {"hosts": [["a", "b"]] * n}}, 10_000, "items", "retry.hosts"),
        (
            lambda n: build_scheduler_hints("same_host", n),
            10_000,
            "items",
            "scheduler_hints.same_host",
        ),
        (
            lambda n: build_scheduler_hints("different_host", n),
            10_000,
            "items",
            "scheduler_hints.different_host",
        ),
        (build_image_with_properties, 1000, "properties", "image.properties"),
        (
            lambda n: {
                "instance_uuids": [uuid_of(name) for name in build_names(n)],
                "flavor": SMALL_FLAVOR,
            },
            1000,
            "items",
            "instance_uuids",
        ),
    ],
)
def test_request_with_too_many_list_items_is_400_with_limit_and_path(
    cloud_app, fields, limit, unit, path
):
    assert post_body(cloud_app, "explain", {"request_spec": make_spec(**fields(limit))})[0] == 200
    status, text = post_body(cloud_app, "explain", {"request_spec": make_spec(**fields(limit + 1))})
    assert status == 400
    assert f"at most {limit} {unit} (at $.request_spec.{path})" in text


def test_request_is_for_at_most_1000_instances(cloud_app):
    request = {**make_spec(flavor=SMALL_FLAVOR), "instance_uuids": None}
    assert (
        post_body(cloud_app, "explain", {"request_spec": {**request, "num_instances": 1000}})[0]
        == 200
    )
    status, text = post_body(
        cloud_app, "explain", {"request_spec": {**request, "num_instances": 1001}}
    )
    assert status == 400
    assert "1001 is greater than the maximum of 1000 (at $.request_spec.num_instances)" in text


def test_explanation_has_at_most_10000_hosts(cloud_app):
    assert (
        post_body(
            cloud_app, "explain", {"request_spec": make_spec(), "hosts": build_names(10_000)}
        )[0]
        == 200
    )
    status, text = post_body(
        cloud_app, "explain", {"request_spec": make_spec(), "hosts": build_names(10_001)}
    )
    assert status == 400
    assert "at most 10000 items (at $.hosts)" in text


def test_overridden_option_has_at_most_1000_entries(cloud_app):
    option, body = "filter_scheduler.isolated_hosts", {"request_spec": make_spec()}
    overrides = {option: build_names(1000)}
    assert post_body(cloud_app, "explain", {**body, "overrides": overrides})[0] == 200
    overrides[option].append("more")
    status, text = post_body(cloud_app, "explain", {**body, "overrides": overrides})
    assert status == 400
    assert f"at most 1000 items (at $.overrides['{option}'])" in text


@pytest.mark.parametrize(("length", "entry"), [(16_384, None), (1024, [])])
def test_overridden_option_with_too_long_a_text_is_400(cloud_app, length, entry):
    def explain_with_overridden_text(text):
        value = text if entry is None else [*entry, text]
        overrides = {"filter_scheduler.isolated_hosts": value}
        return post_body(
            cloud_app, "explain", {"request_spec": make_spec(), "overrides": overrides}
        )

    assert explain_with_overridden_text("x" * length)[0] == 200
    status, text = explain_with_overridden_text("x" * (length + 1))
    assert status == 400
    assert "$.overrides" in text


def test_request_has_at_most_2000_compute_node_reports(cloud_app):
    # A list within the limit is rejected because its reports are empty.
    assert "items" not in post_body(cloud_app, "compute_nodes", [{}] * 2000)[1]
    status, text = post_body(cloud_app, "compute_nodes", [{}] * 2001)
    assert status == 400
    assert "at most 2000 items (at $)" in text


def test_too_deeply_nested_body_is_400_with_the_limit(cloud_app):
    def send_nested_body(depth):
        text = b'{"a":' * depth + b"1" + b"}" * depth
        path = f"{SCHEDULER_PATH}/explain"
        headers = {**ADMIN_HEADERS, "Content-Type": "application/json"}
        return cloud_app.request(path, method="POST", body=text, headers=headers, status=400).text

    assert "nested" not in send_nested_body(MAX_JSON_DEPTH)
    assert f"nested more than {MAX_JSON_DEPTH} deep" in send_nested_body(MAX_JSON_DEPTH + 1)


def test_body_with_too_many_values_is_rejected_with_the_limit(cloud_app):
    def send_list_of_values(count, status):
        text = b"[" + b",".join([b"1"] * count) + b"]"  # the list is a value, but 1 has no comma
        path, headers = (
            f"{SCHEDULER_PATH}/explain",
            {**ADMIN_HEADERS, "Content-Type": "application/json"},
        )
        return cloud_app.request(
            path, method="POST", body=text, headers=headers, status=status
        ).text

    assert f"at most {MAX_JSON_VALUES}" not in send_list_of_values(MAX_JSON_VALUES, 400)
    words = f"has {MAX_JSON_VALUES + 1} values, but at most {MAX_JSON_VALUES} are allowed."
    assert words in send_list_of_values(MAX_JSON_VALUES + 1, 413)


@pytest.mark.parametrize(("number", "compared"), [(1, 1), (10, 10), (11, 10), (40, 10)])
def test_at_most_ten_unknown_zones_are_compared_with_existing_zones(
    cloud_app, monkeypatch, number, compared
):
    compared_names = []
    nearest = by_zone.find_nearest
    monkeypatch.setattr(
        by_zone, "find_nearest", lambda *a: compared_names.append(a[0]) or nearest(*a)
    )
    zones = ",".join(build_names(number))
    status, text = post_body(
        cloud_app, "explain", {"request_spec": make_spec(availability_zone=zones)}
    )
    assert status == 200
    assert "no aggregate has the availability zone" in text
    assert len(compared_names) == compared


def test_repeated_same_subtree_parameter_becomes_one_condition(cloud_app, monkeypatch):
    queries = []
    make = query_params.CandidatesQuery
    monkeypatch.setattr(
        query_params, "CandidatesQuery", lambda **k: queries.append(make(**k)) or queries[-1]
    )
    path = "/placement/allocation_candidates?resources_A=VCPU:1&resources_B=MEMORY_MB:1"
    path += "&group_policy=none"
    once = cloud_app.get(f"{path}&same_subtree=_A,_B", headers=ADMIN_HEADERS).json
    assert cloud_app.get(path + "&same_subtree=_A,_B" * 1000, headers=ADMIN_HEADERS).json == once
    assert len(once["allocation_requests"]) == 2
    assert [len(query.same_subtrees) for query in queries] == [1, 1]


#: A name that is longer than any stored name, and longer than a pattern of SQLite may be.
LONG_NAME = "A" * 60_000
COMPUTE_PATH = "/compute/v2.1"


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        (f"/placement/traits?name=startswith:{LONG_NAME}", 200, {"traits": []}),
        (f"/placement/traits?name=startswith:{'A' * 256}", 200, {"traits": []}),
        (f"{COMPUTE_PATH}/os-hypervisors?hypervisor_hostname_pattern={LONG_NAME}", 404, None),
        (
            f"{COMPUTE_PATH}/os-hypervisors/detail?hypervisor_hostname_pattern={LONG_NAME}",
            404,
            None,
        ),
        (f"{COMPUTE_PATH}/flavors?marker={LONG_NAME}", 400, None),
    ],
)
def test_query_for_a_name_longer_than_any_stored_name_finds_nothing(cloud_app, path, status, body):
    headers = {**ADMIN_HEADERS, "OpenStack-API-Version": "placement latest, compute 2.53"}
    response = cloud_app.get(path, headers=headers, status=status)
    assert body in (None, response.json)


def test_search_text_longer_than_any_stored_name_matches_no_hypervisor(cloud_app):
    path = f"{COMPUTE_PATH}/os-hypervisors/{LONG_NAME}/search"
    headers = {**ADMIN_HEADERS, "OpenStack-API-Version": "compute 2.1"}
    assert "No hypervisor matching" in cloud_app.get(path, headers=headers, status=404).text


def test_trait_with_a_name_of_maximum_length_is_found(cloud_app):
    name = f"CUSTOM_{'A' * 248}"
    cloud_app.put(f"/placement/traits/{name}", headers=ADMIN_HEADERS, status=201)
    response = cloud_app.get(f"/placement/traits?name=startswith:{name}", headers=ADMIN_HEADERS)
    assert response.json == {"traits": [name]}
