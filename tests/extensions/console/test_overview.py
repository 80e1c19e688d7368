# SPDX-License-Identifier: Apache-2.0
"""The page Overview: hosts by state, used shares, requests and findings."""

import pytest
from webtest import TestApp

from placement_sched.extensions.what_if.failover.task import store_result
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid, select_hosts

OVERVIEW_PATH = "/console/"
SCRIPT_TAG = '"><script>alert(1)</script>'


@pytest.fixture
def cloud_app(sqlite_app):
    """Three hosts, a disabled host among them."""
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report(f"cn{n}") for n in (1, 2, 3)])
    body = {"host": "cn2", "binary": "nova-compute", "disabled_reason": SCRIPT_TAG}
    sqlite_app.put_json("/compute/v2.1/os-services/disable-log-reason", body)
    return sqlite_app


def read_section_text(page, heading) -> str:
    section = page.html.select_one(f"section[aria-labelledby={heading}]")
    return " ".join(section.get_text(" ").split())


def test_hosts_on_the_overview_are_counted_by_state_with_links_to_the_map(cloud_app, browser):
    page = browser.get(OVERVIEW_PATH)
    assert read_section_text(page, "hosts").startswith("3 hosts 2 up · 0 down · 1 disabled")
    assert page.html.find("a", href="/console/cloud?state=disabled")
    assert "cn2 ▰ disabled".replace("▰", "\u25b0") in read_section_text(page, "attention")


def test_used_share_of_each_zone_leads_to_its_hosts(cloud_app, browser):
    select_hosts(cloud_app, make_spec(make_uuid(1)))
    page = browser.get(OVERVIEW_PATH)
    row = page.html.select_one(".uses.cards tbody tr")
    assert [cell["data-label"] for cell in row.select("td")][:3] == ["Hosts", "Memory", "VCPU"]
    assert row.th.get_text() == "nova"
    link = row.select_one("a.use")
    assert "zone=nova" in link["href"]
    assert "GiB used" in link["title"]
    assert "%" in link.get_text()


def test_failed_requests_are_grouped_by_the_stage_that_left_no_host(cloud_app, browser):
    select_hosts(cloud_app, make_spec(make_uuid(1)))
    for number in (2, 3):
        select_hosts(
            cloud_app, make_spec(make_uuid(number), flavor=make_flavor(vcpus=99 + number)), 409
        )
    page = browser.get(OVERVIEW_PATH)
    assert read_section_text(page, "requests").startswith(
        "3 requests in 24 hours 1 placed · 2 failed"
    )
    assert "2 not enough VCPU" in read_section_text(page, "requests")
    link = page.html.select_one("section[aria-labelledby=requests] li a")
    assert len(browser.get(link["href"]).html.select(".decisions tr[id]")) == 2


def test_findings_about_aggregates_are_shown_with_the_command_that_fixes_them(cloud_app, browser):
    part = browser.get(OVERVIEW_PATH).html.select_one("section[aria-labelledby=rules] [data-load]")
    findings = part["data-load"]
    assert "0 findings" in browser.get(findings).html.select_one("[data-part]").get_text()
    body = {"aggregate": {"name": "gpu"}}
    aggregate = cloud_app.post_json("/compute/v2.1/os-aggregates", body).json["aggregate"]["id"]
    action = f"/compute/v2.1/os-aggregates/{aggregate}/action"
    cloud_app.post_json(action, {"add_host": {"host": "cn1"}})
    cloud_app.post_json(action, {"set_metadata": {"metadata": {"trait:CUSTOM_GPU": "required"}}})
    part = browser.get(findings).html.select_one("[data-part]")
    assert "CUSTOM_GPU" in part.get_text()
    assert part.select_one("[data-copy]")["title"].startswith("placement-sched")


def test_flavors_with_the_lowest_capacity_are_listed_first(cloud_app, browser):
    for name, vcpus in (("small", 1), ("huge", 999)):
        body = {"flavor": {"name": name, "vcpus": vcpus, "ram": 64, "disk": 1}}
        cloud_app.post_json("/compute/v2.1/flavors", body)
    part = browser.get("/console/overview/fits").html.select_one("[data-part]")
    rows = part.select("tbody tr")
    assert [row.th.get_text() for row in rows] == ["huge", "small"]
    assert "0" in rows[0].select_one(".count").get_text()
    assert "not enough VCPU" in rows[0].get_text()
    assert browser.get(OVERVIEW_PATH).html.select_one("[data-load='/console/overview/fits']")


@pytest.mark.parametrize("path", ["", "ask?vcpus=2", "cloud"])
def test_empty_cloud_shows_how_to_add_hosts(app_without_hosts, path):
    """The command was once only on the page Ask."""
    words = TestApp(app_without_hosts).get(f"/console/{path}").html.select_one(".empty").get_text()
    assert "placement-sched fleet load FILE.yaml" in words
    assert "POST /scheduler/v1/compute_nodes" in words


def test_overview_address_with_a_map_filter_redirects_to_the_map(cloud_app, browser):
    assert browser.get("/console/?zone=nova").location.endswith("/console/cloud?zone=nova")


def test_failover_capacity_is_shown_once_it_is_computed(cloud_app, browser):
    assert not browser.get(OVERVIEW_PATH).html.select_one("section[aria-labelledby=failover]")
    select_hosts(cloud_app, make_spec(make_uuid(1), flavor=make_flavor(memory_mb=60000)))
    store_result(cloud_app.app.services.scheduler)
    tile = read_section_text(browser.get(OVERVIEW_PATH), "failover")
    assert tile.startswith("0 hosts without failover capacity")
    assert "All instances find places if a host fails." in tile
    select_hosts(cloud_app, make_spec(make_uuid(2), flavor=make_flavor(memory_mb=60000)))
    store_result(cloud_app.app.services.scheduler)
    page = browser.get(OVERVIEW_PATH)
    assert read_section_text(page, "failover").startswith("2 hosts without failover capacity")
    assert "cn1 : 1 of 1 instances find no place" in read_section_text(page, "failover")
    assert page.html.select_one("section[aria-labelledby=failover] a")["href"].endswith("cn1")


def test_limiting_reason_of_a_flavor_links_to_an_explanation_with_equal_host_count(
    cloud_app, browser
):
    """The link of "not enough memory on 128 hosts" led to a response with 16 such hosts."""
    for name, vcpus in (("small", 4), ("huge", 99)):
        body = {"flavor": {"name": name, "vcpus": vcpus, "ram": 1024, "disk": 10}}
        cloud_app.post_json("/compute/v2.1/flavors", body)
    table = browser.get("/console/overview/fits").html.select_one(".fits")
    assert table.select("th")[3].get_text() == "Then stopped by"
    links = [row.select("a")[-1]["href"] for row in table.select("tbody tr")]
    assert links == ["/console/ask?flavor=huge", "/console/capacity?flavor=small"]
