# SPDX-License-Identifier: Apache-2.0
"""The page Capacity: remaining capacity, simulated changes, and advice on moves."""

import pytest
from webtest import TestApp

from placement_sched.extensions.console.capacity import shorten_reason
from placement_sched.extensions.console.client import ApiClient
from tests.extensions.console.pages import read_rows_of_section
from tests.support.api_clouds import (
    create_aggregate_with_metadata,
    make_zone,
    place_instance_on_host,
    report_hosts_with_instances,
)
from tests.support.clouds import uuid_of
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid, select_hosts
from tests.support.versions import LATEST_HEADERS

CAPACITY_PATH = "/console/capacity"
MOVES_PATH, FAILOVER_PATH = f"{CAPACITY_PATH}/moves", f"{CAPACITY_PATH}/failover"
HTML_IMAGE_TAG = "<img src=x onerror=alert(1)>"


def store_flavor(app, name: str, vcpus: int) -> None:
    flavor = {"name": name, "vcpus": vcpus, "ram": 1024, "disk": 10}
    app.post_json("/compute/v2.1/flavors", {"flavor": flavor})


def report_hosts_and_store_flavors(app):
    """Report two hosts of 16 vCPUs, four times allocated, and store two flavors."""
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
    store_flavor(app, "small", 4)
    store_flavor(app, "large", 16)
    return app


@pytest.fixture(scope="module")
def app_with_flavors(build_shared_app):
    """A cloud that no test changes."""
    return report_hosts_and_store_flavors(build_shared_app())


@pytest.fixture
def browser(app_with_flavors):
    return TestApp(app_with_flavors.app)


@pytest.fixture
def modifiable_app(sqlite_app):
    """A cloud that a test changes, and that ``modifiable_browser`` shows."""
    return report_hosts_and_store_flavors(sqlite_app)


@pytest.fixture
def modifiable_browser(sqlite_app):
    return TestApp(sqlite_app.app)


def read_conclusion_text(page) -> str:
    return page.html.select_one(".conclusion").get_text()


def test_capacity_page_without_a_query_shows_instructions(browser):
    page = browser.get(CAPACITY_PATH)
    assert "Choose flavors" in page.html.select_one(".empty").get_text()
    assert [box["value"] for box in page.html.select("input[name=flavor]")] == ["large", "small"]


def test_several_flavors_are_shown_in_one_table(browser):
    page = browser.get(f"{CAPACITY_PATH}?flavor=small&flavor=large&per=host&complete=1")
    names = [row.split()[0] for row in read_rows_of_section(page, "capacity")]
    assert names == ["small", "cn1", "cn2", "large", "cn1", "cn2"]
    assert page.forms[1]["per"].value == "host"


def test_capacity_of_all_flavors_is_counted(browser):
    counted = [
        row.split()[:2]
        for row in read_rows_of_section(
            browser.get(f"{CAPACITY_PATH}?all=1&complete=1"), "capacity"
        )
    ]
    assert sorted(counted) == [["large", "8"], ["small", "32"]]


def test_capacity_for_typed_sizes_and_zone_is_counted(browser):
    page = browser.get(f"{CAPACITY_PATH}?vcpus=8&ram=1024&disk=1&zone=nova")
    assert "16 more fit" in read_conclusion_text(page)
    assert "not enough VCPU" in read_rows_of_section(page, "capacity")[0]
    assert page.forms[1]["zone"].value == "nova"


def test_capacity_is_shown_before_and_after_changes(browser):
    query = {"flavor": "small", "change": "drain=cn1\nadd=cn2*2", "complete": "1"}
    page = browser.get(CAPACITY_PATH, params=query)
    assert read_rows_of_section(page, "capacity")[0].startswith("small 32 → 48 +16")


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ("drain=cn1&drain=cn2", "drain=cn1,cn2"),
        ("remove=cn1", "remove=cn1"),
        ("add=cn1:3", "add=cn1*3"),
    ],
)
def test_changes_field_of_the_form_contains_the_changes_of_the_url(browser, query, line):
    page = browser.get(f"{CAPACITY_PATH}?{query}&complete=1")
    assert page.forms[1]["change"].value.strip() == line
    section = "capacity" if query.startswith("add") else "after-moves"
    assert sorted(row.split()[0] for row in read_rows_of_section(page, section)) == [
        "large",
        "small",
    ]


def test_capacity_form_without_values_shows_an_error(browser):
    page = browser.get(f"{CAPACITY_PATH}?vcpus=&ram=&change=", status=400)
    assert "Choose a flavor" in page.html.find(role="alert").get_text()


def test_empty_form_fields_are_removed_from_the_url(browser):
    response = browser.get(f"{CAPACITY_PATH}?vcpus=8&ram=&zone=&per=host&flavor=")
    assert response.status_int == 303
    assert response.location.endswith(f"{CAPACITY_PATH}?vcpus=8&per=host")


def test_drained_host_shows_the_target_of_each_instance(modifiable_app, modifiable_browser):
    select_hosts(modifiable_app, make_spec(make_uuid(1), force_hosts=["cn1"]))
    page = modifiable_browser.get(f"{CAPACITY_PATH}/plan?drain=cn1")
    row = page.html.select_one("[data-part] tbody tr").get_text(" ", strip=True)
    assert row == f"1 {make_uuid(1)} cn1 cn2"
    record = {"host": "cn1", "display_name": "web-1", "project_id": "p1"}
    modifiable_app.put_json(f"/scheduler/v1/instances/{make_uuid(1)}", record)
    assert "The instance fits on other hosts" in read_conclusion_text(page)
    stuck = modifiable_browser.get(f"{CAPACITY_PATH}?drain=cn1&drain=cn2&complete=1")
    assert "1 of 1 instance cannot move" in read_conclusion_text(stuck)
    assert "web-1 cn1" in stuck.html.select_one("tbody tr").get_text(" ", strip=True)


def test_pages_of_a_host_and_its_drain_and_failure_name_other_consumers(
    modifiable_app, modifiable_browser
):
    body = {
        "allocations": {uuid_of("cn1"): {"resources": {"VCPU": 1}}},
        "project_id": "p2",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "CONTAINER",
    }
    path = f"/placement/allocations/{make_uuid(70)}"
    modifiable_app.put_json(path, body, headers=LATEST_HEADERS)
    page = modifiable_browser.get(f"{CAPACITY_PATH}/plan?drain=cn1")
    assert "1 other consumer stays on cn1, by type 1 CONTAINER" in page.text
    page = modifiable_browser.get("/console/hosts/cn1")
    assert f"{make_uuid(70)} CONTAINER p2 VCPU 1" in page.html.get_text(" ", strip=True)
    page = modifiable_browser.get(f"{CAPACITY_PATH}/failover?host_failures=1")
    assert "Not counted: 1 other consumer on 1 host, which nova does not evacuate" in page.text


def test_page_of_a_failure_names_unknown_facts(modifiable_app, modifiable_browser):
    body = {"host": "cn1", "node": "cn1", "flavor": make_flavor()}
    request = {"scheduler_hints": {}, "is_bfv": False, "requested_resources": []}
    path = f"/scheduler/v1/instances/{make_uuid(71)}"
    modifiable_app.put_json(path, {**body, "request": request})
    page = modifiable_browser.get(f"{CAPACITY_PATH}/failover?host_failures=1")
    assert "zone of 1 server is not known and not considered" in page.text


def test_drain_shows_the_capacity_after_its_moves_and_no_other_table(browser):
    """A second table, without the moves, read "same" for each flavor."""
    page = browser.get(f"{CAPACITY_PATH}?drain=cn1&complete=1")
    assert read_rows_of_section(page, "after-moves") == ["small 32 → 16 -16", "large 8 → 4 -4"]
    assert page.html.find(id="capacity") is None
    part = browser.get(f"{CAPACITY_PATH}?drain=cn1").html.select("[data-load]")
    assert [each["data-load"].partition("?")[0] for each in part] == [f"{CAPACITY_PATH}/plan"]


def test_moves_of_a_drain_are_shown_even_if_no_flavors_are_stored(sqlite_app, modifiable_browser):
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
    page = modifiable_browser.get(f"{CAPACITY_PATH}?drain=cn1&complete=1")
    assert "No flavor is stored: enter sizes" in page.text
    assert "No instance has to move" in page.text


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("flavor=lost", "lost"),
        ("flavor=small&change=lift=cn1", "What if lift=cn1: expected drain="),
        ("drain=cn9&complete=1", "cn9"),
        ("drain=zone:az9", "no host matches"),
        ("flavor=small&vcpus=2", "Flavor cannot be combined with VCPUs"),
    ],
)
def test_invalid_capacity_request_shows_an_error(browser, query, words):
    page = browser.get(f"{CAPACITY_PATH}?{query}", status="4*")
    assert words in page.html.find(role="alert").get_text()


def test_capacity_can_be_downloaded_as_an_html_report(browser):
    page = browser.get(f"{CAPACITY_PATH}?flavor=small&change=drain%3Dcn1")
    saved = browser.get(page.html.find("a", string="Report (HTML)")["href"])
    assert saved.headers["Content-Disposition"] == 'attachment; filename="capacity.html"'
    assert "16 more fit" in saved.html.get_text()
    assert "32 → 16 -16" in " ".join(saved.html.get_text(" ").split())
    assert "No instance has to move" in saved.text
    assert "drain=cn1" in saved.text


def test_advice_on_moves_for_a_goal_is_shown(browser):
    assert "conclusion" not in browser.get(MOVES_PATH).text
    page = browser.get(f"{MOVES_PATH}?goal=spread&moves=2")
    assert page.html.select_one(".conclusion").get_text(strip=True)
    assert page.forms[1]["goal"].value == "spread"
    assert [each["value"] for each in page.html.select("#flavors option")] == ["large", "small"]
    assert [each["value"] for each in page.html.select("#zones option")] == ["nova"]


def test_advice_on_moves_shows_server_names_as_links(modifiable_app, modifiable_browser):
    """Advice named the uuids of instances only."""
    for number in (1, 2):
        select_hosts(modifiable_app, make_spec(make_uuid(number), force_hosts=["cn1"]))
        record = modifiable_app.get(f"/scheduler/v1/instances/{make_uuid(number)}").json
        named = {"host": "cn1", "display_name": HTML_IMAGE_TAG, "flavor": record["flavor"]}
        modifiable_app.put_json(f"/scheduler/v1/instances/{make_uuid(number)}", named)
    page = modifiable_browser.get(f"{MOVES_PATH}?goal=spread&moves=1")
    server, origin, host = page.html.select("[aria-labelledby=moves] tbody a")
    assert server.get_text() == HTML_IMAGE_TAG
    assert server["href"].startswith("/console/decisions?instance=00000000-0000-0000-0000-")
    assert (origin["href"], host["href"]) == ("/console/hosts/cn1", "/console/hosts/cn2")


@pytest.mark.parametrize(
    ("query", "words"), [("goal=fit", "request_spec"), ("goal=pack&moves=few", "Moves: 'few'")]
)
def test_invalid_advice_request_is_rejected(browser, query, words):
    page = browser.get(f"{MOVES_PATH}?{query}", status=400)
    assert words in page.html.find(role="alert").get_text()


def test_rows_of_flavors_and_the_plan_are_loaded_by_separate_requests(browser):
    page = browser.get(f"{CAPACITY_PATH}?all=1&change=drain=cn1&change=inventory=cn2:VCPU=64")
    places = [place["data-load"] for place in page.html.select("[data-load]")]
    assert [place.partition("?")[0] for place in places] == [
        f"{CAPACITY_PATH}/plan",
        *[f"{CAPACITY_PATH}/row"] * 2,
    ]
    parts = [browser.get(place).html.select("[data-part]") for place in places]
    assert "No instance has to move" in parts[0][0].get_text()
    assert parts[1][0].get_text(" ", strip=True).startswith("large 8 → 16 +8 8 → 16 +8")
    link = page.html.select_one("noscript a")
    assert len(read_rows_of_section(browser.get(link["href"]), "capacity")) == 2


@pytest.fixture
def leave_capacity_counts_unfinished(monkeypatch):
    """Let the count of the capacity before or after the changes remain unfinished."""
    post = ApiClient.post

    def mark_counts_as_unfinished(self, path, body):
        response = post(self, path, body)
        if path.endswith("/capacity") and "changes" in body:
            for flavor in response.get("flavors", [response]):
                flavor.update(capacity=0, exact=False, inexact_because=["the time is up"])
        return response

    monkeypatch.setattr(ApiClient, "post", mark_counts_as_unfinished)


def test_unfinished_capacity_count_after_changes_is_not_shown_as_lost_capacity(
    browser, leave_capacity_counts_unfinished
):
    """An unfinished count was once shown as a loss of the whole capacity."""
    page = browser.get(f"{CAPACITY_PATH}?flavor=small&drain=cn1&complete=1&per=host")
    row = page.html.select_one("section[aria-labelledby=capacity] tbody tr")
    assert "not counted" in row.get_text()
    assert row.select(".bad") == []
    assert "-32" not in row.get_text()
    assert ",False" in browser.get(f"{CAPACITY_PATH}.csv?flavor=small&drain=cn1").text


def test_html_report_of_capacity_contains_changes_and_moves(modifiable_app, modifiable_browser):
    """The report once had only the capacity after the changes."""
    select_hosts(modifiable_app, make_spec(make_uuid(1), force_hosts=["cn1"]))
    saved = modifiable_browser.get(f"{CAPACITY_PATH}/report?all=1&drain=cn1")
    assert read_rows_of_section(saved, "after-moves") == ["small 31 → 15 -16", "large 7 → 3 -4"]
    assert "Before and after the changes" not in saved.text
    assert f"{make_uuid(1)} cn1 cn2" in " ".join(saved.html.get_text(" ").split())


@pytest.mark.parametrize(
    ("condition", "hosts"),
    [
        ("search:n2", ["cn2"]),
        ("aggregate:rack%207", ["cn1"]),
        ("zone:nova&search:cn1", ["cn1"]),
        ("state:up", ["cn1", "cn2"]),
    ],
)
def test_drain_change_with_a_filter_applies_to_all_matching_hosts(
    modifiable_app, modifiable_browser, condition, hosts
):
    """The link of a large selection once named each host."""
    aggregate = modifiable_app.post_json(
        "/compute/v2.1/os-aggregates", {"aggregate": {"name": "rack 7"}}
    )
    action = f"/compute/v2.1/os-aggregates/{aggregate.json['aggregate']['id']}/action"
    modifiable_app.post_json(action, {"add_host": {"host": "cn1"}})
    page = modifiable_browser.get(
        CAPACITY_PATH, params={"flavor": "small", "drain": condition, "complete": "1"}
    )
    assert page.forms[1]["change"].value.strip() == f"drain={condition}"
    after = 32 - 16 * len(hosts)
    assert read_rows_of_section(page, "after-moves")[0].startswith(
        f"small 32 → {after} -{16 * len(hosts)}"
    )
    command = page.html.select_one("#share-command")["value"]
    assert all(host in command for host in hosts)


def test_add_change_with_a_filter_adds_copies_of_all_matching_hosts(browser):
    query = {"flavor": "small", "change": "add=zone:nova*2", "complete": "1"}
    assert read_rows_of_section(browser.get(CAPACITY_PATH, params=query), "capacity")[0].startswith(
        "small 32 → 96 +64"
    )


def read_main_text(page) -> str:
    return " ".join(page.html.main.get_text(" ").split())


def test_failover_capacity_has_a_form_on_the_page(sqlite_app, modifiable_browser):
    report_hosts_with_instances(sqlite_app, ["cn1", "cn2", "cn3"], ["cn1", "cn1", "cn2"])
    create_aggregate_with_metadata(sqlite_app, "r1", rack="r1")
    form = next(
        each
        for each in modifiable_browser.get(CAPACITY_PATH).forms.values()
        if each.action == FAILOVER_PATH
    )
    choices = [each["value"] for each in form.html.select("datalist option")]
    assert choices == ["zone", "aggregate", "rack"]
    page = form.submit().follow()
    assert page.request.query_string == "host_failures=1"
    assert read_conclusion_text(page) == (
        "✓ All instances find places on other hosts if any host fails: 3 covered, 0 uncovered, "
        "0 undetermined"
    )
    assert page.html.select_one("#failures") is None
    assert read_rows_of_section(page, "remaining")[1].startswith("small ")
    assert "conclusion" not in modifiable_browser.get(FAILOVER_PATH).text


def test_hosts_whose_failure_is_not_covered_are_listed_with_the_missing_capacity(
    sqlite_app, modifiable_browser
):
    report_hosts_with_instances(sqlite_app, ["cn1", "cn2"], ["cn1", "cn1", "cn2"])
    place_instance_on_host(sqlite_app, 9, "cn2", flavor="large")
    page = modifiable_browser.get(f"{FAILOVER_PATH}?host_failures=1")
    assert (
        "Not all instances find places on other hosts if any host fails: 0"
        in read_conclusion_text(page)
    )
    rows = dict(row.split(" ", 1) for row in read_rows_of_section(page, "failures"))
    assert rows["cn2"] == f"uncovered 2 {make_uuid(9)} (large): lacks 2 GiB Memory"
    assert "another order may place all" in page.html.select_one("p.warning").get_text()
    together = modifiable_browser.get(f"{FAILOVER_PATH}?host_failures=2")
    assert "if any 2 hosts fail: 0 covered, 1 uncovered" in read_conclusion_text(together)
    assert "cn1, cn2 2 hosts uncovered 4" in read_main_text(together)
    assert "1 more" in together.html.select_one("tbody details").get_text()


def test_reason_why_an_instance_finds_no_other_host_names_the_aggregate(
    sqlite_app, modifiable_browser
):
    report_hosts_with_instances(sqlite_app, ["cn1", "cn2"], [])
    make_zone(sqlite_app, "az1", "cn1")
    place_instance_on_host(sqlite_app, 1, "cn1", flavor="small", availability_zone="az1")
    (row,) = read_rows_of_section(
        modifiable_browser.get(f"{FAILOVER_PATH}?host_failures=1"), "failures"
    )
    assert row.endswith("member_of in:agg-az1")


def test_failover_page_shows_its_curl_request_and_command(sqlite_app, modifiable_browser):
    report_hosts_with_instances(sqlite_app, ["cn1", "cn2"], ["cn1"])
    page = modifiable_browser.get(f"{FAILOVER_PATH}?host_failures=1&within=zone")
    assert '"host_failures": 1, "within": "zone"' in page.html.select_one("#share-curl")["value"]
    command = page.html.select_one("#share-command")["value"]
    assert command.startswith("placement-sched capacity --host-failures=1 --within=zone --url ")
    assert "if any zone fails: 2 covered, 0 uncovered" in read_conclusion_text(page)


@pytest.mark.parametrize(
    ("value", "words"), [("rak", "Did you mean 'rack'?"), (HTML_IMAGE_TAG, HTML_IMAGE_TAG)]
)
def test_invalid_value_of_parameter_within_shows_an_error_and_is_kept_in_the_form(
    sqlite_app, modifiable_browser, value, words
):
    create_aggregate_with_metadata(sqlite_app, "r1", rack="r1")
    page = modifiable_browser.get(FAILOVER_PATH, params={"within": value}, status=400)
    assert words in page.html.find(role="alert").get_text()
    assert page.html.find("img") is None
    assert page.forms[1]["within"].value == value


def test_plan_fragment_shows_the_changes_and_the_number_of_moves(
    modifiable_app, modifiable_browser
):
    """A drain showed a loss without the capacity for the moved instances."""
    for number in (1, 2):
        select_hosts(modifiable_app, make_spec(make_uuid(number), force_hosts=["cn1"]))
    page = modifiable_browser.get(f"{CAPACITY_PATH}/plan?drain=cn1")
    assert page.html.h1.get_text() == "Moves: drain=cn1"
    assert page.html.select_one(".back a")["href"].endswith("change=drain%3Dcn1")
    assert page.html.find(id="after-moves").get_text() == "More fit after these moves"
    assert read_rows_of_section(page, "after-moves") == ["small 31 → 15 -16", "large 7 → 3 -4"]
    both = f"{CAPACITY_PATH}?change=drain=cn1&change=add=cn2*2"
    assert "moved instances are not yet counted" in modifiable_browser.get(both).text
    stuck = modifiable_browser.get(f"{CAPACITY_PATH}/plan?drain=cn1&drain=cn2")
    assert "drained or disabled" in read_conclusion_text(stuck)


DISABLED = {"kind": "disabled", "traits": ["COMPUTE_STATUS_DISABLED"]}
NO_GPU = {"kind": "missing_trait", "traits": ["CUSTOM_GPU"]}
NO_MEMORY = {"kind": "capacity", "resource_class": "MEMORY_MB", "requested": 4096}


@pytest.mark.parametrize(
    ("stuck", "words"),
    [
        ({**DISABLED, "constraints": [DISABLED]}, "drained or disabled"),
        ({**DISABLED, "constraints": [DISABLED, NO_MEMORY]}, "not enough memory"),
        ({**NO_GPU, "constraints": [NO_GPU, NO_MEMORY]}, "no CUSTOM_GPU and not enough memory"),
        ({"kind": "down", "filter": "ComputeFilter"}, "down"),
        ({"kind": "of_a_newer_server"}, "3 moons, but no sun (yet)"),
        ({}, "3 moons, but no sun (yet)"),
    ],
)
def test_reason_of_a_stuck_instance_has_words_for_its_values_else_its_text(stuck, words):
    assert shorten_reason({"reason": "3 moons, but no sun (yet)", **stuck}) == words


def test_unfinished_count_of_remaining_instances_is_shown_as_a_lower_bound(browser, monkeypatch):
    """The page showed "79 to 716" for a flavor with a capacity of 474."""
    breaks = {"domain": "cn1", "hosts": ["cn1"], "placed": 6, "instances": 7}
    remaining = [
        {"flavor": "small", "remaining": 79, "at_most": 716, "exact": False, "breaks": breaks},
        {"flavor": "large", "remaining": 5, "at_most": 5, "exact": True, "breaks": breaks},
        {"flavor": "tiny", "remaining": 0, "at_most": None, "exact": False, "breaks": None},
    ]
    post = ApiClient.post

    def add_remaining_capacity(self, path, body):
        return post(self, path, body) | {"remaining": remaining}

    monkeypatch.setattr(ApiClient, "post", add_remaining_capacity)
    rows = read_rows_of_section(browser.get(f"{FAILOVER_PATH}?host_failures=1"), "remaining")
    assert rows == [
        "small 79 or more with 717 more, or fewer: 1 of 7 on cn1",
        "large 5 1 of 7 on cn1",
        "tiny not determined -",
    ]
