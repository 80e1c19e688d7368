# SPDX-License-Identifier: Apache-2.0
"""The page Aggregates: hosts, metadata, reservations and results of the check."""

import csv

import pytest
from webtest import TestApp

from tests.operations.test_aggregate_check import add_flavor
from tests.scheduler.test_scheduler import select
from tests.support.host_maps import LICENSED, add_aggregate
from tests.support.hosts import add_node
from tests.support.scheduling import flavor, instance, report, spec

PAGE = "/console/aggregates"


@pytest.fixture
def client_with_isolated_aggregate_filtering(sqlite_settings, make_app) -> TestApp:
    on = {"scheduler.enable_isolated_aggregate_filtering": True}
    return TestApp(make_app(sqlite_settings.with_overrides(on)).app)


def read_row_of_aggregate(page, name: str) -> str:
    """Return the row of an aggregate."""
    return page.html.find(id=f"a-{name}").get_text(" ", strip=True)


def test_an_aggregate_shows_its_zone_policy_metadata_and_hosts(browser, sqlite_database):
    metadata = {"availability_zone": "az1", "sched_policy": "dense", "ssd": "true"}
    add_aggregate(sqlite_database, "rack", ["cn1"], metadata)
    page = browser.get(PAGE)
    shown = read_row_of_aggregate(page, "rack")
    for words in ("az1", "dense", "ssd=true", "1 cn1"):
        assert words in shown
    assert page.html.find("a", string="dense")["href"] == "/console/policies?policy=dense"


def test_aggregate_missing_in_placement_is_out_of_sync(browser, sqlite_database):
    add_node(sqlite_database, "cn1")
    add_aggregate(sqlite_database, "rack", ["cn1"])
    add_aggregate(sqlite_database, "bare")
    page = browser.get(PAGE)
    assert (
        "cn1 is in the host aggregate but not in the provider aggregate"
        in read_row_of_aggregate(page, "rack")
    )
    assert "has the same hosts" in read_row_of_aggregate(page, "bare")


def test_used_share_of_an_aggregate_links_to_its_hosts(browser, sqlite_app):
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [report("cn1"), report("cn2")])
    add_aggregate(sqlite_app.app.services.database, "rack", ["cn1", "cn2"])
    add_aggregate(sqlite_app.app.services.database, "empty")
    vcpus = {"vcpus": 12, "memory_mb": 512, "root_gb": 1}
    select(sqlite_app, spec(instance(1), flavor=flavor(**vcpus)))
    page = browser.get(PAGE)
    used = page.html.find(id="a-rack").select_one("td[data-label=VCPU] a")
    assert used.get_text() == "9 %"
    assert used["title"].startswith("12 of 128 used")
    assert used["href"] == "/console/cloud?aggregate=rack&colour=used%3AVCPU"
    assert "none" in read_row_of_aggregate(page, "empty")
    rows = list(csv.DictReader(browser.get("/console/aggregates.csv").text.splitlines()))
    assert [(row["name"], row["VCPU used"]) for row in rows] == [("rack", "12"), ("empty", "")]


def test_aggregate_reservations_and_problems_are_shown(
    client_with_isolated_aggregate_filtering, sqlite_database
):
    add_node(sqlite_database, "win1")
    metadata = {f"trait:{LICENSED}": "required", "trait:X": "no"}
    add_aggregate(sqlite_database, "windows", ["win1"], metadata)
    add_flavor(sqlite_database, "m1.windows", LICENSED)
    add_flavor(sqlite_database, "m1.small")
    page = client_with_isolated_aggregate_filtering.get(PAGE)
    assert f"{LICENSED} trait:X=no" in read_row_of_aggregate(page, "windows")
    reserved = page.html.select("section[aria-labelledby=reserved] tbody tr")
    assert [each.get_text(" ", strip=True) for each in reserved] == [
        f"windows {LICENSED} m1.windows 1 of 2 none none is stored"
    ]
    findings = [item.get_text(" ", strip=True) for item in page.html.select(".findings li")]
    assert len(findings) == 4
    assert findings[0].startswith("windows : trait:X=no has no effect")
    assert f"win1 lacks trait {LICENSED}" in findings[3]


def test_page_warns_that_a_disabled_filter_leaves_reserved_hosts_open_to_all(
    browser, sqlite_database
):
    add_aggregate(sqlite_database, "windows", metadata={f"trait:{LICENSED}": "required"})
    assert "all requests may use all hosts" in browser.get(PAGE).text


def test_page_without_any_aggregates_explains_what_they_are(browser):
    empty = browser.get(PAGE).html.select_one(".empty").get_text()
    assert "no host aggregates yet" in empty
    assert "openstack aggregate create" in empty
