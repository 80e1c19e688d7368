# SPDX-License-Identifier: Apache-2.0
"""The page Capacity: how many more fit, what changes come to, and advice on moves."""

import pytest
from webtest import TestApp

from tests.support.scheduling import instance, report, spec

PAGE = "/console/capacity"
MOVES = f"{PAGE}/moves"
ATTACK = "<img src=x onerror=alert(1)>"


def store_flavor(app, name: str, vcpus: int) -> None:
    flavor = {"name": name, "vcpus": vcpus, "ram": 1024, "disk": 10}
    app.post_json("/compute/v2.1/flavors", {"flavor": flavor})


@pytest.fixture
def cloud(sqlite_app):
    """Two hosts of 16 vCPUs, four times allocated, and two stored flavors."""
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [report("cn1"), report("cn2")])
    store_flavor(sqlite_app, "small", 4)
    store_flavor(sqlite_app, "large", 16)
    return sqlite_app


@pytest.fixture
def browser(sqlite_app) -> TestApp:
    return TestApp(sqlite_app.app)


def read_rows(page, of: str) -> list[str]:
    found = page.html.select(f"section[aria-labelledby={of}] tbody tr")
    return [row.get_text(" ", strip=True) for row in found]


def read_verdict(page) -> str:
    return page.html.select_one(".conclusion").get_text()


def test_first_visit_shows_instructions(cloud, browser):
    page = browser.get(PAGE)
    assert "Choose flavors" in page.html.select_one(".empty").get_text()
    assert [box["value"] for box in page.html.select("input[name=flavor]")] == ["large", "small"]


def test_one_flavor_is_counted(cloud, browser):
    page = browser.get(f"{PAGE}?flavor=small")
    assert "32 more fit" in read_verdict(page)
    assert "VCPU" in read_rows(page, "capacity")[0]


def test_several_flavors_are_shown_in_one_table(cloud, browser):
    page = browser.get(f"{PAGE}?flavor=small&flavor=large&per=host")
    names = [row.split()[0] for row in read_rows(page, "capacity")]
    assert names == ["small", "cn1", "cn2", "large", "cn1", "cn2"]
    assert page.forms[0]["per"].value == "host"


def test_all_flavors_are_counted(cloud, browser):
    counted = [row.split()[:2] for row in read_rows(browser.get(f"{PAGE}?all=1"), "capacity")]
    assert sorted(counted) == [["large", "8"], ["small", "32"]]


def test_flavor_by_sizes_is_counted_like_the_ask_page(cloud, browser):
    page = browser.get(f"{PAGE}?vcpus=8&ram=1024&disk=1&zone=nova")
    assert "16 more fit" in read_verdict(page)
    assert page.forms[0]["zone"].value == "nova"


def test_changes_show_capacity_before_and_after(cloud, browser):
    page = browser.get(PAGE, params={"flavor": "small", "change": "drain=cn1\nadd=cn2*2"})
    assert read_rows(page, "compared") == ["All hosts 32 48 +16"]
    assert "Capacity after the changes" in page.text


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ("drain=cn1&drain=cn2", "drain=cn1,cn2"),
        ("remove=cn1", "remove=cn1"),
        ("add=cn1:3", "add=cn1*3"),
    ],
)
def test_changes_of_a_link_fill_the_form(cloud, browser, query, line):
    page = browser.get(f"{PAGE}?{query}")
    assert page.forms[0]["change"].value.strip() == line
    assert sorted(row.split()[0] for row in read_rows(page, "compared")) == ["large", "small"]


def test_empty_form_shows_an_error(cloud, browser):
    page = browser.get(f"{PAGE}?vcpus=&ram=&change=", status=400)
    assert "Choose a flavor" in page.html.find(role="alert").get_text()


def test_empty_fields_are_removed_from_the_url(cloud, browser):
    answer = browser.get(f"{PAGE}?vcpus=8&ram=&zone=&per=host&flavor=")
    assert answer.status_int == 303
    assert answer.location.endswith(f"{PAGE}?vcpus=8&per=host")


def test_drained_host_shows_the_target_of_each_instance(cloud, browser):
    body = {"request_spec": spec(instance(1), force_hosts=["cn1"])}
    cloud.post_json("/scheduler/v1/select_destinations", body)
    page = browser.get(f"{PAGE}?drain=cn1")
    assert read_rows(page, "moves") == [f"1 {instance(1)} cn1 cn2"]
    stuck = browser.get(f"{PAGE}?drain=cn1&drain=cn2")
    assert f"{instance(1)} cn1" in read_rows(stuck, "moves")[0]
    assert "1 cannot move" in stuck.text


def test_changes_show_moves_without_stored_flavors(sqlite_app, browser):
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [report("cn1"), report("cn2")])
    page = browser.get(f"{PAGE}?drain=cn1")
    assert "No flavor is stored: enter sizes" in page.text
    assert "No instance has to move" in page.text


def test_change_without_moves_is_reported(cloud, browser):
    assert "No instance has to move" in browser.get(f"{PAGE}?drain=cn1").text


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("flavor=lost", "lost"),
        ("vcpus=many", "VCPUs many: expected a whole number"),
        ("flavor=small&change=lift=cn1", "What if lift=cn1: expected drain="),
        ("drain=cn9", "cn9"),
        ("flavor=small&per=row", "per"),
        ("flavor=small&zone=nowhere", "nowhere"),
        ("flavor=small&vcpus=2", "Flavor cannot be combined with VCPUs"),
    ],
)
def test_invalid_request_shows_an_error_and_keeps_the_form(cloud, browser, query, words):
    page = browser.get(f"{PAGE}?{query}", status="4*")
    assert words in page.html.find(role="alert").get_text()
    if "change" in query:
        assert page.forms[0]["change"].value.strip() == "lift=cn1"


def test_answer_can_be_downloaded_as_a_report(cloud, browser):
    page = browser.get(f"{PAGE}?flavor=small&change=drain%3Dcn1")
    href = page.html.find("a", string="Download as report")["href"]
    saved = browser.get(href)
    assert saved.headers["Content-Disposition"] == 'attachment; filename="capacity.html"'
    assert "16 more fit" in read_verdict(saved)
    assert "drain=cn1" in saved.text


def test_advice_on_moves_for_a_goal_is_shown(cloud, browser):
    assert "conclusion" not in browser.get(MOVES).text
    page = browser.get(f"{MOVES}?goal=spread&moves=2")
    assert page.html.select_one(".conclusion").get_text(strip=True)
    assert page.forms[0]["goal"].value == "spread"


def test_flavors_and_zones_can_be_chosen_for_advice(cloud, browser):
    html = browser.get(f"{PAGE}/moves").html
    assert [one["value"] for one in html.select("#flavors option")] == ["large", "small"]
    assert [one["value"] for one in html.select("#zones option")] == ["nova"]


@pytest.mark.parametrize(
    ("query", "words"), [("goal=fit", "request_spec"), ("goal=pack&moves=few", "Moves few")]
)
def test_invalid_advice_request_is_rejected(cloud, browser, query, words):
    page = browser.get(f"{MOVES}?{query}", status=400)
    assert words in page.html.find(role="alert").get_text()


def test_names_are_escaped(cloud, browser):
    store_flavor(cloud, ATTACK, 1)
    page = browser.get(PAGE, params={"flavor": ATTACK, "change": f"drain={ATTACK}"}, status="4*")
    assert page.html.find("img") is None
    assert browser.get(PAGE, params={"flavor": ATTACK, "per": "host"}).html.find("img") is None
