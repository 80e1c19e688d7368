# SPDX-License-Identifier: Apache-2.0
"""The page Cloud and the page of a host, as the server renders them.

The page Aggregates: hosts, metadata, reservations and results of the check.
"""

import csv

import pytest
from webtest import TestApp

from placement_sched.model.provider import FULL, NEARLY_FULL
from tests.support.clouds import uuid_of
from tests.support.host_maps import LICENSED_TRAIT, add_aggregate
from tests.support.hosts import add_flavor, add_node
from tests.support.policies import settings_with_policies
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid, select_hosts
from tests.support.versions import LATEST_HEADERS

SCRIPT_TAG = "<script>alert('x')</script>\"&'"


def report_hosts_with_an_instance(app):
    """Report three hosts, a disabled host among them."""
    hosts = [make_report(name) for name in ("cn1", "cn2", "cn3")]
    app.post_json("/scheduler/v1/compute_nodes", hosts)
    disabling = {"host": "cn2", "binary": "nova-compute", "disabled_reason": SCRIPT_TAG}
    app.put_json("/compute/v2.1/os-services/disable-log-reason", disabling)
    record = {"host": "cn1", "node": "cn1", "flavor": make_flavor(), "display_name": SCRIPT_TAG}
    app.put_json(f"/scheduler/v1/instances/{make_uuid(1)}", record)
    return TestApp(app.app)


@pytest.fixture(scope="module")
def browser_with_hosts(build_shared_app):
    """A browser on a cloud that no test changes."""
    return report_hosts_with_an_instance(build_shared_app())


@pytest.fixture
def modifiable_browser(sqlite_app):
    """A browser on a cloud that a test changes."""
    return report_hosts_with_an_instance(sqlite_app)


def read_host_names(page):
    return [link.text for link in page.html.select(".host-table tbody th a")]


def test_host_table_shows_state_and_used_capacity(browser_with_hosts):
    page = browser_with_hosts.get("/console/cloud")
    assert read_host_names(page) == ["cn1", "cn2", "cn3"]
    first, second, _ = page.html.select(".host-table tbody tr")
    cells = [" ".join(cell.text.split()) for cell in first.find_all(["th", "td"])]
    assert cells[1:] == [
        "cn1",
        "nova",
        "✓ up",
        "default",
        "1",
        "0 of 64 GiB",
        "0 of 64",
        "0 of 1,000 GiB",
    ]
    assert "disabled" in second.text


def test_instance_without_a_recorded_name_shows_its_uuid_once(modifiable_browser, sqlite_app):
    record = {"host": "cn3", "node": "cn3", "flavor": make_flavor()}
    sqlite_app.put_json(f"/scheduler/v1/instances/{make_uuid(9)}", record)
    page = modifiable_browser.get("/console/hosts/cn3")
    (row,) = page.html.select(".instances tbody tr")
    assert row.get_text(" ").count(make_uuid(9)) == 1


def test_overview_names_the_resource_classes_without_a_column(sqlite_app, modifiable_browser):
    uuid, headers = uuid_of("cn1"), LATEST_HEADERS
    names = [f"CUSTOM_C{number}" for number in range(5)]
    for name in names:
        sqlite_app.put(f"/placement/resource_classes/{name}", headers=headers)
    path = f"/placement/resource_providers/{uuid}/inventories"
    document = sqlite_app.get(path, headers=headers).json
    document["inventories"] |= {name: {"total": 4} for name in names}
    sqlite_app.put_json(path, document, headers=headers)
    page = modifiable_browser.get("/console/")
    titles = [each.text for each in page.html.select(".uses thead th")]
    assert len(titles) == 8
    links = page.html.select("section[aria-labelledby=full] p.quiet a")
    assert {*titles, *(link.text for link in links)} >= set(names)
    assert page.html.select_one(".halves.stacked")


def test_host_page_has_the_time_of_its_reading_and_the_elements_that_change(browser_with_hosts):
    page = browser_with_hosts.get("/console/hosts/cn1")
    assert page.html.select_one("#as-of[data-whole]")["data-refresh"] == "30"
    regions = [each["data-live"] for each in page.html.select("#host [data-live]")]
    assert regions == ["state", "resources", "aggregates", "instances", "services"]


def test_small_used_share_is_not_rounded_to_zero(modifiable_browser, sqlite_app):
    select_hosts(sqlite_app, make_spec(make_uuid(5), flavor=make_flavor(memory_mb=64)))
    shares = {
        cell["data-label"]: cell.b.text
        for cell in modifiable_browser.get("/console/").html.select(".uses tbody td:has(b)")
    }
    assert shares["Memory"] == "<1 %"
    assert shares["Disk"] == "<1 %"


def test_hosts_that_match_the_filter_are_downloaded_as_csv(browser_with_hosts):
    page = browser_with_hosts.get("/console/cloud?search=cn1")
    (link,) = {found["href"] for found in page.html.select("a[download]")}
    titles, row = browser_with_hosts.get(link).text.splitlines()
    assert titles.startswith("host,node,zone,state,policy,instances,DISK_GB used,DISK_GB capacity")
    assert row == "cn1,cn1,nova,up,default,1,0,1000,0,65536,0,64"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("search=N3", ["cn3"]),
        ("state=disabled", ["cn2"]),
        ("zone=nova&search=cn1", ["cn1"]),
        ("trait=COMPUTE_STATUS_DISABLED", ["cn2"]),
        ("zone=+&aggregate=", ["cn1", "cn2", "cn3"]),
    ],
)
def test_host_table_is_filtered_by_the_query_string(browser_with_hosts, query, found):
    page = browser_with_hosts.get(f"/console/cloud?{query}")
    assert read_host_names(page) == found


def test_host_filter_without_a_match_links_to_the_unfiltered_table(browser_with_hosts):
    page = browser_with_hosts.get("/console/cloud?search=nothing")
    assert "No host matches" in page
    assert page.forms["view"]["search"].value == "nothing"
    assert read_host_names(page.click("Show all hosts")) == ["cn1", "cn2", "cn3"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("trait=COMPUTE_STATUS_DISABLE", "There is no trait COMPUTE_STATUS_DISABLE. Did you mean"),
        ("zone=nowa", "There is no zone nowa. Did you mean nova?"),
        ("aggregate=racks&zone=nova", "There is no aggregate racks. Did you mean rack?"),
        ("trait=CUSTOM_ABCDEFGHIJK", "There is no trait CUSTOM_ABCDEFGHIJK"),
    ],
)
def test_host_filter_with_an_unknown_name_suggests_the_most_similar_name(
    modifiable_browser, query, words
):
    add_aggregate(modifiable_browser.app.services.database, "rack", ["cn1"], {})
    assert (
        words in modifiable_browser.get(f"/console/cloud?{query}").html.find(id="hosts").get_text()
    )


def test_host_filter_by_a_standard_trait_without_hosts_is_no_unknown_name(browser_with_hosts):
    page = browser_with_hosts.get("/console/cloud?trait=HW_CPU_X86_AVX2")
    assert "No host matches" in page
    assert "There is no trait" not in page


def test_next_link_of_the_host_table_shows_the_remaining_hosts_with_the_same_filter(sqlite_app):
    every = [f"cn{number:02}" for number in range(60)]
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report(name) for name in every])
    browser = TestApp(sqlite_app.app)
    first = browser.get("/console/cloud?search=cn&colour=state")
    second = first.click("Next hosts")
    assert read_host_names(first) + read_host_names(second) == every
    assert second.forms["view"]["search"].value == "cn"
    assert not second.html.find(string="Next hosts")
    assert read_host_names(second.click("First hosts")) == read_host_names(first)


def test_selected_hosts_link_to_drain_and_add_simulations(browser_with_hosts):
    page = browser_with_hosts.get("/console/cloud")
    form = next(form for form in page.forms.values() if form.action.endswith("/capacity"))
    form.set("drain", True, index=0)
    form.set("drain", True, index=2)
    assert form.method.lower() == "get"
    drained, added = form.submit(), form.submit("instead")
    assert drained.forms[1]["change"].value.strip() == "drain=cn1,cn3"
    assert added.forms[1]["change"].value.split() == ["add=cn1*1", "add=cn3*1"]
    form["more"] = "3"
    assert form.submit("instead").forms[1]["change"].value.split() == ["add=cn1*3", "add=cn3*3"]


def test_host_page_has_the_plan_and_the_command_of_a_drain(modifiable_browser):
    page = modifiable_browser.get("/console/hosts/cn1")
    (place,) = page.html.select("details [data-load]")
    assert place.a["href"] == place["data-load"]
    part = modifiable_browser.get(place["data-load"]).html.select_one("[data-part]")
    assert "The instance fits on other hosts" in part.get_text()
    assert part.select_one("tbody tr").get_text(" ", strip=True) == f"1 {SCRIPT_TAG} cn1 cn3"
    headers = {"X-Auth-Token": "admin"}
    disabling = {"host": "cn3", "binary": "nova-compute"}
    modifiable_browser.put_json("/compute/v2.1/os-services/disable", disabling, headers=headers)
    stuck = modifiable_browser.get(place["data-load"]).html.select_one("[data-part] tbody tr")
    assert [cell.name for cell in stuck.find_all(["th", "td"])] == ["th", "td", "td"]
    assert stuck.get_text(" ", strip=True).startswith(f"{SCRIPT_TAG} cn1 ")
    command = page.html.select_one("#share-drain")["value"]
    assert command == "placement-sched host drain cn1 --execute"
    assert page.html.find("form", method="post") is None


def test_page_of_a_host_that_is_down_has_the_command_of_an_evacuation(modifiable_browser):
    address = "/console/hosts/cn1"
    assert modifiable_browser.get(address).html.select_one("#share-evacuate") is None
    headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": "compute 2.11"}
    forced = {"host": "cn1", "binary": "nova-compute", "forced_down": True}
    modifiable_browser.put_json("/compute/v2.1/os-services/force-down", forced, headers=headers)
    command = modifiable_browser.get(address).html.select_one("#share-evacuate")["value"]
    assert command == "placement-sched host evacuate cn1"


def test_host_page_shows_resources_instances_and_report(browser_with_hosts):
    page = browser_with_hosts.get("/console/cloud").click("cn1")
    more = page.click("What if another host like it is added")
    assert more.forms[1]["change"].value.strip() == "add=cn1*1"
    text = " ".join(page.html.main.get_text(" ").split())
    assert "VCPU 0 of 64 used" in text
    assert "last report" in text
    assert make_uuid(1) in text
    assert "vcpus 16" in text
    assert page.html.find("a", string="default")["href"] == "/console/policies?policy=default"


def test_host_page_shows_the_provider_tree(modifiable_browser):
    root = modifiable_browser.get("/console/api/scheduler/v1/hosts/cn1").json["nodes"][0]["uuid"]
    latest = {"OpenStack-API-Version": "placement latest", "X-Auth-Token": "admin"}
    for name, parent in (("numa0", root), ("card", make_uuid(7))):
        uuid = make_uuid(7) if name == "numa0" else make_uuid(8)
        body = {"uuid": uuid, "name": name, "parent_provider_uuid": parent}
        modifiable_browser.post_json("/placement/resource_providers", body, headers=latest)
    page = modifiable_browser.get("/console/hosts/cn1")
    shown = [(one["class"][1], one.h3.text) for one in page.html.select(".provider")]
    assert shown == [("deep0", "cn1"), ("deep1", "numa0"), ("deep2", "card")]


def test_host_page_shows_a_capacity_of_more_than_64_bits(modifiable_browser, sqlite_app):
    path = f"/placement/resource_providers/{uuid_of('cn1')}/inventories"
    document = sqlite_app.get(path, headers=LATEST_HEADERS).json
    document["inventories"]["VCPU"] = {"total": 2**31 - 1, "allocation_ratio": 3e38}
    sqlite_app.put_json(path, document, headers=LATEST_HEADERS)
    assert "cn1" in modifiable_browser.get("/console/hosts/cn1")


def test_unknown_host_shows_the_api_error(browser_with_hosts):
    page = browser_with_hosts.get("/console/hosts/cn9", status=404)
    assert "there is no host" in page


def test_map_and_tables_use_equal_thresholds_for_full_hosts(browser_with_hosts):
    script = browser_with_hosts.get("/console/static/cloud.js").text
    assert f"[NEARLY_FULL, FULL] = [{NEARLY_FULL / 100}, {FULL / 100}]" in script


def test_host_page_is_forbidden_for_users_without_permission(sqlite_url, make_app, tmp_path):
    rules = tmp_path / "policy.yaml"
    rules.write_text('"scheduler:hosts:list": "!"\n')
    settings = settings_with_policies(
        sqlite_url, tmp_path, f"[oslo_policy]\npolicy_file = {rules}\n"
    )
    page = TestApp(make_app(settings).app).get("/console/cloud", status=403)
    assert "scheduler:hosts:list" in page


def test_unknown_console_page_is_404_with_a_link_to_the_overview(browser_with_hosts):
    page = browser_with_hosts.get("/console/nothing", status=404)
    assert page.html.select_one("main p a[href='/console/']").get_text() == "Overview"


def test_host_page_and_overview_show_equal_ages_of_the_last_heartbeat(
    sqlite_app, modifiable_browser
):
    silent = make_report("cn9", last_seen_up="2020-01-01T00:00:00Z")
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [silent])
    shown = modifiable_browser.get("/console/hosts/cn9").html.select_one(".bad time")
    assert shown.get_text().endswith(" ago")
    assert shown["title"] == "2020-01-01 00:00:00 UTC"


AGGREGATES_PATH = "/console/aggregates"


@pytest.fixture
def browser_with_isolated_aggregate_filtering(sqlite_settings, make_app) -> TestApp:
    on = {"scheduler.enable_isolated_aggregate_filtering": True}
    return TestApp(make_app(sqlite_settings.with_overrides(on)).app)


def read_row_of_aggregate(page, name: str) -> str:
    """Return the row of an aggregate."""
    return page.html.find(id=f"a-{name}").get_text(" ", strip=True)


def test_aggregate_is_shown_with_zone_policy_metadata_and_hosts(browser, sqlite_database):
    metadata = {"availability_zone": "az1", "sched_policy": "dense", "ssd": "true"}
    add_aggregate(sqlite_database, "rack", ["cn1"], metadata)
    page = browser.get(AGGREGATES_PATH)
    shown = read_row_of_aggregate(page, "rack")
    for words in ("az1", "dense", "ssd=true", "1 cn1"):
        assert words in shown
    assert page.html.find("a", string="dense")["href"] == "/console/policies?policy=dense"


def test_aggregate_that_is_missing_in_placement_is_shown_as_out_of_sync(browser, sqlite_database):
    add_node(sqlite_database, "cn1")
    add_aggregate(sqlite_database, "rack", ["cn1"])
    add_aggregate(sqlite_database, "bare")
    page = browser.get(AGGREGATES_PATH)
    assert (
        "cn1 is in the host aggregate but not in the provider aggregate"
        in read_row_of_aggregate(page, "rack")
    )
    assert "has the same hosts" in read_row_of_aggregate(page, "bare")


def test_used_share_of_an_aggregate_links_to_its_hosts(browser, sqlite_app):
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
    add_aggregate(sqlite_app.app.services.database, "rack", ["cn1", "cn2"])
    add_aggregate(sqlite_app.app.services.database, "empty")
    vcpus = {"vcpus": 12, "memory_mb": 512, "root_gb": 1}
    select_hosts(sqlite_app, make_spec(make_uuid(1), flavor=make_flavor(**vcpus)))
    page = browser.get(AGGREGATES_PATH)
    used = page.html.find(id="a-rack").select_one("td[data-label=VCPU] a")
    assert used.get_text() == "9 %"
    assert used["title"].startswith("12 of 128 used")
    assert used["href"] == "/console/cloud?aggregate=rack&colour=used%3AVCPU"
    assert "none" in read_row_of_aggregate(page, "empty")
    rows = list(csv.DictReader(browser.get("/console/aggregates.csv").text.splitlines()))
    assert [(row["name"], row["VCPU used"]) for row in rows] == [("rack", "12"), ("empty", "")]


def test_aggregate_reservations_and_problems_are_shown(
    browser_with_isolated_aggregate_filtering, sqlite_database
):
    add_node(sqlite_database, "win1")
    metadata = {f"trait:{LICENSED_TRAIT}": "required", "trait:X": "no"}
    add_aggregate(sqlite_database, "windows", ["win1"], metadata)
    add_flavor(sqlite_database, "m1.windows", LICENSED_TRAIT)
    add_flavor(sqlite_database, "m1.small")
    page = browser_with_isolated_aggregate_filtering.get(AGGREGATES_PATH)
    assert f"{LICENSED_TRAIT} trait:X=no" in read_row_of_aggregate(page, "windows")
    reserved = page.html.select("section[aria-labelledby=reserved] tbody tr")
    assert [each.get_text(" ", strip=True) for each in reserved] == [
        f"windows {LICENSED_TRAIT} m1.windows 1 of 2 none none is stored"
    ]
    findings = [item.get_text(" ", strip=True) for item in page.html.select(".findings li")]
    assert len(findings) == 4
    assert findings[0].startswith("windows : trait:X=no has no effect")
    assert f"win1 lacks trait {LICENSED_TRAIT}" in findings[3]


def test_aggregates_page_warns_that_a_disabled_filter_opens_reserved_hosts_to_all_requests(
    browser, sqlite_database
):
    add_aggregate(sqlite_database, "windows", metadata={f"trait:{LICENSED_TRAIT}": "required"})
    assert "all requests may use all hosts" in browser.get(AGGREGATES_PATH).text


def test_aggregates_page_without_aggregates_explains_what_aggregates_are(browser):
    empty = browser.get(AGGREGATES_PATH).html.select_one(".empty").get_text()
    assert "no host aggregates yet" in empty
    assert "openstack aggregate create" in empty
