# SPDX-License-Identifier: Apache-2.0
"""What a request may ask for at most: the last value that is accepted, and the first refused."""

import json

import pytest

from placement_sched.api.placement import params
from placement_sched.limits import MAX_JSON_DEPTH, MAX_JSON_VALUES
from placement_sched.scheduler.capacity import report as report_module
from placement_sched.scheduler.request_filters import map_az_to_placement_aggregate as by_zone
from tests.support.clouds import uuid_of
from tests.support.scheduling import flavor, report, spec
from tests.support.versions import LATEST_HEADERS

HEADERS = {**LATEST_HEADERS, "X-Roles": "admin,service"}
SCHEDULER = "/scheduler/v1"


@pytest.fixture
def app(sqlite_app):
    """Two hosts, each with room for many small instances."""
    sqlite_app.post_json(f"{SCHEDULER}/compute_nodes", [report("cn1"), report("cn2")])
    return sqlite_app


def sent(app, path, body):
    """Return status and text of the answer to a body."""
    answer = app.post_json(f"{SCHEDULER}/{path}", body, headers=HEADERS, expect_errors=True)
    return answer.status_int, answer.text


def names(count):
    return [f"n{number}" for number in range(count)]


def members(count):
    uuids = [uuid_of(name) for name in names(count)]
    return {"instance_group": {"policy": "affinity", "members": uuids}}


def properties(count):
    image = {"id": uuid_of("image"), "properties": dict.fromkeys(names(count), "v")}
    return {"image": image}


SMALL = flavor(memory_mb=16, root_gb=0)


def hinted(hint, number):
    return {"scheduler_hints": {hint: names(number)}}


@pytest.mark.parametrize(
    ("fields", "most", "unit", "at"),
    [
        (lambda n: {"ignore_hosts": names(n)}, 10_000, "items", "ignore_hosts"),
        (lambda n: {"force_hosts": [*names(n - 1), "cn1"]}, 10_000, "items", "force_hosts"),
        (lambda n: {"force_nodes": [*names(n - 1), "cn1"]}, 10_000, "items", "force_nodes"),
        (members, 10_000, "items", "instance_group.members"),
        (lambda n: {"retry": {"hosts": [["a", "b"]] * n}}, 10_000, "items", "retry.hosts"),
        (lambda n: hinted("same_host", n), 10_000, "items", "scheduler_hints.same_host"),
        (lambda n: hinted("different_host", n), 10_000, "items", "scheduler_hints.different_host"),
        (properties, 1000, "properties", "image.properties"),
        (
            lambda n: {"instance_uuids": [uuid_of(one) for one in names(n)], "flavor": SMALL},
            1000,
            "items",
            "instance_uuids",
        ),
    ],
)
def test_a_request_names_so_many_and_no_more(app, fields, most, unit, at):
    assert sent(app, "explain", {"request_spec": spec(**fields(most))})[0] == 200
    status, text = sent(app, "explain", {"request_spec": spec(**fields(most + 1))})
    assert status == 400
    assert f"at most {most} {unit} (at $.request_spec.{at})" in text


def test_a_request_is_for_a_thousand_instances_and_no_more(app):
    asked = {**spec(flavor=SMALL), "instance_uuids": None}
    assert sent(app, "explain", {"request_spec": {**asked, "num_instances": 1000}})[0] == 200
    status, text = sent(app, "explain", {"request_spec": {**asked, "num_instances": 1001}})
    assert status == 400
    assert "1001 is greater than the maximum of 1000 (at $.request_spec.num_instances)" in text


def test_an_explanation_is_about_ten_thousand_hosts_and_no_more(app):
    assert sent(app, "explain", {"request_spec": spec(), "hosts": names(10_000)})[0] == 200
    status, text = sent(app, "explain", {"request_spec": spec(), "hosts": names(10_001)})
    assert status == 400
    assert "at most 10000 items (at $.hosts)" in text


@pytest.mark.parametrize(
    ("route", "asked"),
    [("explain", {"request_spec": spec()}), ("capacity", {"request_spec": spec()})],
)
def test_an_option_that_is_overridden_has_a_thousand_entries_and_no_more(app, route, asked):
    option = "filter_scheduler.isolated_hosts"
    assert sent(app, route, {**asked, "overrides": {option: names(1000)}})[0] == 200
    status, text = sent(app, route, {**asked, "overrides": {option: names(1001)}})
    assert status == 400
    assert f"at most 1000 items (at $.overrides['{option}'])" in text


@pytest.mark.parametrize(("length", "entry"), [(16_384, None), (1024, [])])
def test_the_text_of_an_option_that_is_overridden_is_of_a_length_and_no_longer(app, length, entry):
    def answer(text):
        value = text if entry is None else [*entry, text]
        overrides = {"filter_scheduler.isolated_hosts": value}
        return sent(app, "explain", {"request_spec": spec(), "overrides": overrides})

    assert answer("x" * length)[0] == 200
    status, text = answer("x" * (length + 1))
    assert status == 400
    assert "$.overrides" in text


def test_a_question_names_twenty_five_flavors_and_no_more(app):
    asked = {"request_spec": {}, "flavors": [flavor(name=f"f{n}") for n in range(25)]}
    assert sent(app, "capacity", asked)[0] == 200
    asked["flavors"].append(flavor(name="more"))
    status, text = sent(app, "capacity", asked)
    assert status == 400
    assert "is too long; at most 25 items (at $.flavors)" in text


def test_a_plan_names_twenty_five_flavors_and_no_more(app):
    # None of them is stored, so that the last list that is accepted is refused for another reason.
    assert "'f0'" in sent(app, "plan", {"changes": [], "flavors": [f"f{n}" for n in range(25)]})[1]
    status, text = sent(app, "plan", {"changes": [], "flavors": [f"f{n}" for n in range(26)]})
    assert status == 400
    assert "is too long; at most 25 items (at $.flavors)" in text


def test_two_thousand_reports_come_at_once_and_no_more(app):
    # Those that are accepted are read, and refused for what is in them.
    assert "items" not in sent(app, "compute_nodes", [{}] * 2000)[1]
    status, text = sent(app, "compute_nodes", [{}] * 2001)
    assert status == 400
    assert "at most 2000 items (at $)" in text


def test_a_body_has_so_many_levels_and_no_more(app):
    def nested(depth):
        text = b'{"a":' * depth + b"1" + b"}" * depth
        path = f"{SCHEDULER}/explain"
        headers = {**HEADERS, "Content-Type": "application/json"}
        return app.request(path, method="POST", body=text, headers=headers, status=400).text

    assert "nested" not in nested(MAX_JSON_DEPTH)
    assert f"nested more than {MAX_JSON_DEPTH} deep" in nested(MAX_JSON_DEPTH + 1)


def test_a_body_has_so_many_values_and_no_more(app):
    def values(count, status):
        text = b"[" + b",".join([b"1"] * count) + b"]"  # so many with its bracket
        path, headers = f"{SCHEDULER}/explain", {**HEADERS, "Content-Type": "application/json"}
        return app.request(path, method="POST", body=text, headers=headers, status=status).text

    assert f"at most {MAX_JSON_VALUES}" not in values(MAX_JSON_VALUES, 400)
    words = f"has {MAX_JSON_VALUES + 1} values, but at most {MAX_JSON_VALUES} are allowed."
    assert words in values(MAX_JSON_VALUES + 1, 413)


def test_a_flavor_that_is_named_again_is_counted_once(app, monkeypatch):
    counted = []
    count = report_module.count_capacity
    monkeypatch.setattr(
        report_module, "count_capacity", lambda *a, **k: counted.append(1) or count(*a, **k)
    )
    same = [flavor(name="same")] * 3 + [flavor(name="other")]
    found = json.loads(sent(app, "capacity", {"request_spec": {}, "flavors": same})[1])["flavors"]
    assert [one["flavor"] for one in found] == ["same", "same", "same", "other"]
    assert found[0] == found[1] == found[2]
    assert len(counted) == 2


@pytest.mark.parametrize(("asked", "compared"), [(1, 1), (10, 10), (11, 10), (40, 10)])
def test_ten_zones_that_are_unknown_are_compared_and_no_more(app, monkeypatch, asked, compared):
    seen = []
    nearest = by_zone.nearest
    monkeypatch.setattr(by_zone, "nearest", lambda *a: seen.append(a[0]) or nearest(*a))
    zones = ",".join(names(asked))
    status, text = sent(app, "explain", {"request_spec": spec(availability_zone=zones)})
    assert status == 200
    assert "no aggregate has the availability zone" in text
    assert len(seen) == compared


def test_same_subtree_that_is_repeated_is_asked_once(app, monkeypatch):
    asked = []
    made = params.CandidatesQuery
    monkeypatch.setattr(params, "CandidatesQuery", lambda **k: asked.append(made(**k)) or asked[-1])
    path = "/placement/allocation_candidates?resources_A=VCPU:1&resources_B=MEMORY_MB:1"
    path += "&group_policy=none"
    once = app.get(f"{path}&same_subtree=_A,_B", headers=HEADERS).json
    assert app.get(path + "&same_subtree=_A,_B" * 1000, headers=HEADERS).json == once
    assert len(once["allocation_requests"]) == 2
    assert [len(one.same_subtrees) for one in asked] == [1, 1]


#: Of what is stored no name is as long, and SQLite takes no such pattern.
LONG = "A" * 60_000
COMPUTE = "/compute/v2.1"


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        (f"/placement/traits?name=startswith:{LONG}", 200, {"traits": []}),
        (f"/placement/traits?name=startswith:{'A' * 256}", 200, {"traits": []}),
        (f"{COMPUTE}/os-hypervisors?hypervisor_hostname_pattern={LONG}", 404, None),
        (f"{COMPUTE}/os-hypervisors/detail?hypervisor_hostname_pattern={LONG}", 404, None),
        (f"{COMPUTE}/flavors?marker={LONG}", 400, None),
    ],
)
def test_a_name_longer_than_any_that_is_stored_matches_nothing(app, path, status, body):
    headers = {**HEADERS, "OpenStack-API-Version": "placement latest, compute 2.53"}
    answer = app.get(path, headers=headers, status=status)
    assert body in (None, answer.json)


def test_a_part_of_a_name_longer_than_any_that_is_stored_is_found_in_none(app):
    path = f"{COMPUTE}/os-hypervisors/{LONG}/search"
    headers = {**HEADERS, "OpenStack-API-Version": "compute 2.1"}
    assert "No hypervisor matching" in app.get(path, headers=headers, status=404).text


def test_a_name_of_the_longest_that_is_stored_is_found(app):
    name = f"CUSTOM_{'A' * 248}"
    app.put(f"/placement/traits/{name}", headers=HEADERS, status=201)
    found = app.get(f"/placement/traits?name=startswith:{name}", headers=HEADERS)
    assert found.json == {"traits": [name]}
