# SPDX-License-Identifier: Apache-2.0
"""The search box of the bar: an exact match opens its page, other matches are listed."""

import pytest
from webtest import TestApp

from tests.support.scheduling import make_report, make_spec, make_uuid

SEARCH_PATH = "/console/search"
REQUEST_ID = "req-0b6c1e52-93d7-4f0a-8f21-5a7d3c9e6b40"
SCRIPT_TAG = '"><script>alert(1)</script>'


@pytest.fixture(scope="module")
def cloud_app(build_shared_app):
    app = build_shared_app()
    app.post_json(
        "/scheduler/v1/compute_nodes", [make_report(name) for name in ("cn1", "cn2", "a/b?x")]
    )
    app.post_json(
        "/compute/v2.1/flavors", {"flavor": {"name": "m9", "vcpus": 1, "ram": 1, "disk": 0}}
    )
    app.post_json("/compute/v2.1/os-aggregates", {"aggregate": {"name": "rack7"}})
    headers = {"X-Openstack-Request-Id": REQUEST_ID}
    app.post_json(
        "/scheduler/v1/select_destinations",
        {"request_spec": make_spec(make_uuid(1))},
        headers=headers,
    )
    body = {"host": "cn1", "display_name": "web-1", "project_id": "p1"}
    app.put_json(f"/scheduler/v1/instances/{make_uuid(1)}", body)
    return app


@pytest.fixture
def browser(cloud_app):
    return TestApp(cloud_app.app)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("cn1", "/console/hosts/cn1"),
        ("CN1", "/console/hosts/cn1"),
        ("a/b?x", "/console/hosts/a%2Fb%3Fx"),
        ("m9", "/console/ask?flavor=m9"),
        ("rack7", "/console/cloud?aggregate=rack7"),
        ("nova", "/console/cloud?zone=nova"),
        ("default", "/console/policies?policy=default"),
        ("web-1", f"/console/decisions?instance={make_uuid(1)}"),
    ],
)
def test_search_with_a_single_exact_match_redirects_to_its_page(cloud_app, browser, text, address):
    response = browser.get(SEARCH_PATH, params={"q": text}, status=303)
    assert response.headers["Location"] == address
    if "?" not in text:
        browser.get(address)


def test_decision_is_found_by_request_id_and_by_its_uuid(cloud_app, browser):
    decisions = cloud_app.get("/scheduler/v1/decisions", {"request_id": REQUEST_ID}).json[
        "decisions"
    ]
    decision = decisions[0]["uuid"]
    for text in (REQUEST_ID, decision):
        response = browser.get(SEARCH_PATH, params={"q": text}, status=303)
        assert response.headers["Location"] == f"/console/decisions/{decision}"


def test_decision_is_found_by_the_first_characters_of_its_uuid(cloud_app, browser):
    query = {"request_id": REQUEST_ID}
    uuid = cloud_app.get("/scheduler/v1/decisions", query).json["decisions"][0]["uuid"]
    response = browser.get(SEARCH_PATH, params={"q": uuid[:8].upper()}, status=303)
    assert response.headers["Location"] == f"/console/decisions/{uuid}"


@pytest.mark.parametrize(("text", "name"), [("defualt", "default"), ("rack-7", "rack7")])
def test_search_without_a_match_suggests_similar_names(browser, text, name):
    page = browser.get(SEARCH_PATH, params={"q": text})
    (link,) = page.html.select(".empty a")
    assert link.text == name
    assert browser.get(link["href"], status=303)


def test_instance_without_a_record_leads_to_its_decision(cloud_app, browser):
    body = {"request_spec": make_spec(make_uuid(2)), "claim": False}
    decision = cloud_app.post_json("/scheduler/v1/select_destinations", body).json["decision"]
    response = browser.get(SEARCH_PATH, params={"q": make_uuid(2)}, status=303)
    assert response.headers["Location"] == f"/console/decisions/{decision}"


def test_several_search_matches_are_listed_by_type_of_object(cloud_app, browser):
    page = browser.get(SEARCH_PATH, params={"q": "cn"})
    rows = [row.get_text(" ", strip=True) for row in page.html.select("tbody tr")]
    assert rows == ["Host cn1 zone nova, up", "Host cn2 zone nova, up"]
    assert page.html.select_one(".find input")["value"] == "cn"


def test_search_text_without_a_match_is_shown_escaped(cloud_app, browser):
    page = browser.get(SEARCH_PATH, params={"q": SCRIPT_TAG})
    assert "No host, server" in page.text
    assert SCRIPT_TAG not in page.text


def test_empty_search_shows_what_to_enter(browser):
    assert "Enter a part of a name" in browser.get(SEARCH_PATH, params={"q": " "}).text
