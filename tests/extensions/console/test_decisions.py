# SPDX-License-Identifier: Apache-2.0
"""The page Decisions: the list and its filters, a decision, its report, and its replay."""

import csv
from datetime import datetime
from urllib.parse import parse_qsl

import pytest

from placement_sched.extensions.console import decisions
from placement_sched.extensions.console.decisions import _parse_when
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid, select_hosts
from tests.support.statements import execute_statements

DECISIONS_PATH = "/console/decisions"
SELECT_PATH = "/scheduler/v1/select_destinations"
UNKNOWN_UUID = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def cloud_app(sqlite_app):
    """Report two hosts. Tests send requests of programs through ``sqlite_app``."""
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
    return sqlite_app


def record_decision(
    app, number: int, *, status: int = 200, sent: str | None = None, **fields
) -> str:
    """Have a request decided, and return the uuid of the decision."""
    body = {"request_spec": make_spec(make_uuid(number), **fields)}
    headers = {"X-Openstack-Request-Id": sent} if sent else {}
    response = app.post_json(SELECT_PATH, body, headers=headers, status=status).json
    return (response["errors"][0] if status == 409 else response)["decision"]


def record_failed_decision(app, number: int, **fields) -> str:
    return record_decision(app, number, status=409, **{"flavor": make_flavor(vcpus=99), **fields})


def read_decision_uuids(page) -> list[str]:
    """Return the uuids of the decisions in a list."""
    return [row["id"].removeprefix("d-") for row in page.html.select(".decisions tr[id]")]


def test_decisions_are_listed_newest_first(cloud_app, browser):
    first, second = record_decision(cloud_app, 1), record_failed_decision(cloud_app, 2)
    page = browser.get(DECISIONS_PATH)
    assert set(read_decision_uuids(page)) == {first, second}
    rows = page.html.select(".decisions tbody tr")
    text = {row["id"]: " ".join(row.get_text(" ").split()) for row in rows}
    assert "Selected" in text[f"d-{first}"]
    assert "No valid host" in text[f"d-{second}"]
    for words in ("m1", "default", "p1", make_uuid(1), "cn"):
        assert words in text[f"d-{first}"]
    assert page.html.select_one(f"a[href='/console/decisions/{first}']")


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("outcome=no_valid_host", 2),
        (f"instance={make_uuid(2)}", 2),
        ("project_id=p1", 1),
        ("flavor=m1&policy=default&kind=select&outcome=selected", 1),
        ("since=1h&project_id=p2", 2),
    ],
)
def test_decision_filter_in_the_url_is_applied_and_kept_in_the_form(
    cloud_app, browser, query, number
):
    uuids = {
        1: record_decision(cloud_app, 1),
        2: record_failed_decision(cloud_app, 2, project_id="p2"),
    }
    page = browser.get(f"{DECISIONS_PATH}?{query}")
    assert read_decision_uuids(page) == [uuids[number]]
    for name, value in parse_qsl(query):
        assert page.forms[1][name].value == value
    assert page.html.select_one("noscript a")["href"].startswith("/console/decisions?")


def test_decision_is_found_by_its_request_id(cloud_app, browser):
    request_id = "req-0b6c1e52-93d7-4f0a-8f21-5a7d3c9e6b40"
    uuid = record_decision(cloud_app, 1, sent=request_id)
    record_decision(cloud_app, 2)
    page = browser.get(DECISIONS_PATH, params={"request_id": request_id})
    assert read_decision_uuids(page) == [uuid]
    assert page.forms[1]["request_id"].value == request_id


def test_decisions_that_rejected_a_host_are_listed_with_reasons(cloud_app, browser):
    select_hosts(cloud_app, make_spec(make_uuid(1), flavor=make_flavor(vcpus=99)), 409)
    page = browser.get(DECISIONS_PATH, params={"rejected": "cn1"})
    assert "99 requested" in page.html.select_one(".reasons").get_text()
    assert "Decisions examined: 1." in page.text


def test_next_link_of_the_decision_list_shows_the_remaining_decisions_with_the_same_filter(
    cloud_app, browser, monkeypatch
):
    monkeypatch.setattr(decisions, "_PAGE_SIZE", 2)
    for number in (1, 2, 3):
        record_failed_decision(cloud_app, number)
    first = browser.get(f"{DECISIONS_PATH}?outcome=no_valid_host")
    second = browser.get(first.html.select_one("a[rel=next]")["href"])
    assert (len(read_decision_uuids(first)), len(read_decision_uuids(second))) == (2, 1)
    assert not set(read_decision_uuids(first)) & set(read_decision_uuids(second))
    assert second.html.select_one("a[rel=next]") is None
    assert second.forms[1]["outcome"].value == "no_valid_host"
    assert second.html.select_one("[data-list]") is None
    assert second.html.select_one("#as-of") is None


def test_empty_decision_list_shows_instructions(browser):
    page = browser.get(DECISIONS_PATH)
    empty = page.html.select_one(".empty").get_text()
    assert "no decisions yet" in empty
    assert "placement-sched select" in empty
    empty = browser.get(f"{DECISIONS_PATH}?host=cn9").html.select_one("#none").get_text()
    assert "No recorded decision" in empty
    assert "there is no host 'cn9'" in empty


def test_decision_is_shown_with_funnel_weights_and_selections(cloud_app, browser):
    page = browser.get(f"{DECISIONS_PATH}/{record_decision(cloud_app, 1)}")
    for words in ("Selected.", "ComputeFilter", "Best 2 of 2 hosts", "VCPU 1", "m1; 1 VCPU,"):
        assert words in page.text
    assert page.html.select_one(f"a[href$='instance={make_uuid(1)}']")


def test_failed_decision_shows_its_recorded_funnel(cloud_app, browser):
    uuid = record_failed_decision(cloud_app, 1)
    cloud_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn3", vcpus=200)])
    page = browser.get(f"{DECISIONS_PATH}/{uuid}")
    assert "No valid host." in page.text
    assert "2 hosts: VCPU" in page.text
    assert page.text.count("cn3") == page.text.count("The request would fit now on cn3.") == 1


def test_request_of_a_decision_opens_in_the_ask_form(cloud_app, browser):
    dedicated = make_flavor(extra_specs={"hw:cpu_policy": "shared"})
    hints = {"different_host": [make_uuid(8), make_uuid(9)]}
    uuid = record_decision(
        cloud_app, 1, flavor=dedicated, scheduler_hints=hints, ignore_hosts=["cn2"]
    )
    page = browser.get(find_ask_link(browser, uuid)["href"])
    assert "cn1" in page.html.select_one("[aria-labelledby$=selections]").get_text()
    form = next(form for form in page.forms.values() if "vcpus" in form.fields)
    assert (form["vcpus"].value, form["ram"].value, form["project"].value) == ("1", "1024", "p1")
    assert form["property"].value.strip() == "hw:cpu_policy=shared"
    assert form["hint"].value.split() == [f"different_host={make_uuid(n)}" for n in (8, 9)]
    uuid = record_decision(cloud_app, 2, requested_destination={"host": "cn1"})
    assert find_ask_link(browser, uuid) is None
    body = {"flavor": {"name": "m1", "vcpus": 1, "ram": 1024, "disk": 10}}
    cloud_app.post_json("/compute/v2.1/flavors", body)
    address = find_ask_link(browser, record_decision(cloud_app, 3))["href"]
    assert "flavor=m1" in address
    assert "vcpus" not in address


def find_ask_link(browser, uuid: str):
    page = browser.get(f"{DECISIONS_PATH}/{uuid}")
    return page.html.find("a", string="Change the request in Ask")


def test_unknown_decision_shows_an_error(browser):
    assert (
        UNKNOWN_UUID
        in browser.get(f"{DECISIONS_PATH}/{UNKNOWN_UUID}", status=404).html.find(role="alert").text
    )


def test_decision_can_be_downloaded_as_a_report(cloud_app, browser):
    uuid = record_failed_decision(cloud_app, 1)
    page = browser.get(f"{DECISIONS_PATH}/{uuid}/report")
    assert page.headers["Content-Disposition"] == f'attachment; filename="decision-{uuid}.html"'
    assert page.html.find("style") is not None
    assert "No valid host." in page.text


def test_replay_shows_how_its_result_differs_from_the_recorded_one(cloud_app, browser):
    uuid = record_failed_decision(cloud_app, 1)
    same = browser.get(f"{DECISIONS_PATH}/{uuid}/replay")
    assert "There are no differences" in same.text
    cloud_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn3", vcpus=200)])
    page = browser.get(f"{DECISIONS_PATH}/{uuid}/replay")
    rows = [row.get_text(" ", strip=True) for row in page.html.select(".compared tbody tr")]
    assert "outcome no_valid_host selected" in rows
    ids = [tag["id"] for tag in page.html.find_all(id=True)]
    assert len(ids) == len(set(ids))


def test_request_of_a_decision_is_replayed_with_recorded_settings(cloud_app, browser):
    page = browser.get(f"{DECISIONS_PATH}/{record_decision(cloud_app, 1)}/replay?settings=then")
    assert page.forms[1]["settings"].value == "then"
    assert "There are no differences" in page.text


def test_replay_with_an_invalid_settings_value_is_400_with_an_error_and_the_form(
    cloud_app, browser
):
    page = browser.get(
        f"{DECISIONS_PATH}/{record_decision(cloud_app, 1)}/replay?settings=never", status=400
    )
    assert "Settings: 'never' is not one of now, then" in page.html.find(role="alert").get_text()
    assert "settings" in page.forms[1].fields


def test_decision_list_shows_totals_failure_reasons_and_counts_per_field_value(cloud_app, browser):
    record_decision(cloud_app, 1)
    failed = record_failed_decision(cloud_app, 2, project_id="p2")
    page = browser.get(DECISIONS_PATH)
    assert page.html.select_one("#list").get_text() == "2 decisions: 1 placed, 1 failed"
    row = page.html.select_one(f"#d-{failed}")
    assert "not enough VCPU" in row.select_one(".why").get_text()
    link = page.html.select_one(".facets a[title='capacity:VCPU']")
    assert link.get_text() == "not enough VCPU"
    assert read_decision_uuids(browser.get(link["href"])) == [failed]
    link = page.html.select_one(".facets a[title='default']")
    assert link.find_next_sibling("span").get_text() == "1 failed of 2"
    link = page.html.select_one(".facets a[title='p2']")
    chosen = browser.get(link["href"])
    assert read_decision_uuids(chosen) == [failed]
    remove = chosen.html.select_one(".facets a[aria-current]")
    assert "p2" in remove.get_text()
    assert len(read_decision_uuids(browser.get(remove["href"]))) == 2


def test_decision_without_a_recorded_kind_shows_the_name_of_its_stage(cloud_app, browser):
    """Decisions of earlier releases have no kind."""
    failed = record_failed_decision(cloud_app, 1)
    execute_statements(
        cloud_app.app.services.database,
        "UPDATE sched_decisions SET reason_kind = NULL, reason_subject = NULL",
    )
    page = browser.get(DECISIONS_PATH)
    assert page.html.select_one(f"#d-{failed} .why b").get_text() == "resources VCPU"


def test_reason_about_an_aggregate_shows_its_name(cloud_app, browser):
    body = {"aggregate": {"name": "rack7", "availability_zone": "az7"}}
    cloud_app.post_json("/compute/v2.1/os-aggregates", body)
    record_decision(cloud_app, 1, status=409, availability_zone="az7")
    page = browser.get(DECISIONS_PATH)
    assert page.html.select_one(".decisions .why b").get_text() == "not in rack7"
    (link,) = page.html.select(".facets a[title^=not_in_aggregate]")
    assert link.get_text() == "not in rack7"
    assert len(read_decision_uuids(browser.get(link["href"]))) == 1
    overview = browser.get("/console/").html.select_one("section[aria-labelledby=requests]")
    assert "1 not in rack7" in " ".join(overview.get_text(" ").split())


def test_bar_of_the_timeline_links_to_the_decisions_of_its_interval(cloud_app, browser):
    record_decision(cloud_app, 1)
    failed = record_failed_decision(cloud_app, 2)
    page = browser.get(f"{DECISIONS_PATH}?outcome=no_valid_host")
    bars = page.html.select(".timeline a")
    assert [bar.title.get_text().split("UTC: ")[1] for bar in bars] == ["0 placed, 1 failed"]
    assert read_decision_uuids(browser.get(bars[0]["href"])) == [failed]
    assert float(page.html.select_one(".timeline rect.hit")["width"]) < 3
    recent = browser.get(f"{DECISIONS_PATH}?since=1m").html.select_one(".timeline rect.hit")
    assert float(recent["width"]) > 3


def test_decision_is_found_by_the_name_of_its_server(cloud_app, browser):
    uuid = record_decision(cloud_app, 1)
    record_decision(cloud_app, 2)
    record = {"host": "cn1", "display_name": "web-1", "project_id": "p1"}
    cloud_app.put_json(f"/scheduler/v1/instances/{make_uuid(1)}", record)
    page = browser.get(f"{DECISIONS_PATH}?instance=web-1")
    assert read_decision_uuids(page) == [uuid]
    assert "web-1" in page.html.select_one(f"#d-{uuid}").get_text()
    assert "web-1" in browser.get(f"{DECISIONS_PATH}/{uuid}").text
    cloud_app.put_json(f"/scheduler/v1/instances/{make_uuid(2)}", record)
    response = browser.get(f"{DECISIONS_PATH}?instance=web-1", status=400)
    assert "2 servers have this name" in response.html.find(role="alert").get_text()


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("yesterday 14:00", "2026-03-01T14:00:00"),
        ("yesterday", "2026-03-01T00:00:00"),
        ("today 9:30", "2026-03-02T09:30:00"),
        ("14:00", "2026-03-02T14:00:00"),
        ("2h", "2026-03-02T10:15:20"),
        ("2026-01-01T00:00:00", "2026-01-01T00:00:00"),
    ],
)
def test_time_filters_of_decisions_accept_a_time_of_day_without_a_date(text, time):
    assert _parse_when(text, datetime(2026, 3, 2, 12, 15, 20), "Since") == time


def test_csv_of_decisions_escapes_values_that_begin_like_formulas(cloud_app, browser):
    uuid = record_decision(cloud_app, 1, project_id="=cmd()")
    response = browser.get(f"{DECISIONS_PATH}.csv?project_id=%3Dcmd()")
    assert response.content_type == "text/csv"
    titles, row = csv.reader(response.text.splitlines())
    shown = dict(zip(titles, row, strict=True))
    assert (shown["uuid"], shown["project_id"]) == (uuid, "'=cmd()")


def test_share_menu_of_decisions_has_link_command_csv_and_json(cloud_app, browser):
    record_decision(cloud_app, 1)
    page = browser.get(f"{DECISIONS_PATH}?since=1h&outcome=selected")
    menu = page.html.select_one(".share")
    assert menu.select_one("#share-link")["value"].endswith("?since=1h&outcome=selected")
    assert "placement-sched decision list" in menu.select_one("#share-command")["value"]
    for link in menu.select("a"):
        assert browser.get(link["href"]).status_code == 200


def test_rejection_reasons_show_names_of_aggregates_instead_of_uuids(cloud_app, browser):
    """Rejections once named aggregates by uuid."""
    aggregate = cloud_app.post_json(
        "/compute/v2.1/os-aggregates", {"aggregate": {"name": "rack7", "availability_zone": "az7"}}
    ).json["aggregate"]
    action = f"/compute/v2.1/os-aggregates/{aggregate['id']}/action"
    cloud_app.post_json(action, {"add_host": {"host": "cn1"}})
    select_hosts(
        cloud_app,
        make_spec(make_uuid(1), flavor=make_flavor(vcpus=99), availability_zone="az7"),
        409,
    )
    page = browser.get(f"{DECISIONS_PATH}?rejected=cn2")
    aggregates = browser.get("/console/api/compute/v2.1/os-aggregates").json["aggregates"]
    uuids = [item["uuid"] for item in aggregates]
    assert page.html.select(".reasons")
    assert not any(uuid in page.text for uuid in uuids)


def test_url_read_by_the_page_script_returns_rows_with_their_counts(cloud_app, browser):
    """New rows stood below an old total, because the script read rows only."""
    uuid = record_decision(cloud_app, 1)
    record_failed_decision(cloud_app, 2)
    page = browser.get(f"{DECISIONS_PATH}?outcome=selected")
    update = browser.get(page.html.select_one("[data-list]")["data-list"])
    assert read_decision_uuids(update) == [uuid]
    regions = {each["data-live"]: each for each in update.html.select("main [data-live]")}
    assert set(regions) == {"heading", "timeline", "facets", "none", "pages"}
    assert regions["heading"].text == "1 decision: 1 placed, 0 failed"


def test_failed_decision_shows_whether_its_request_would_fit_now(cloud_app, browser):
    uuid = record_failed_decision(cloud_app, 1)
    text = browser.get(f"{DECISIONS_PATH}/{uuid}").html.get_text(" ")
    assert "The request would not fit now: 2 hosts" in " ".join(text.split())
    cloud_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn7", vcpus=99)])
    text = browser.get(f"{DECISIONS_PATH}/{uuid}").html.get_text(" ")
    assert "The request would fit now on cn7." in " ".join(text.split())
    placed = record_decision(cloud_app, 2)
    assert "fit now" not in browser.get(f"{DECISIONS_PATH}/{placed}").text


def test_time_range_that_ends_before_its_beginning_is_an_error(browser):
    page = browser.get(f"{DECISIONS_PATH}?since=5m&until=1h", status=400)
    assert page.html.find(role="alert").text == "Until 1h is before Since 5m"
    browser.get(f"{DECISIONS_PATH}?since=1h&until=5m")
    browser.get(f"{DECISIONS_PATH}?since=2026-01-01T12:00:00&until=2026-01-01T11:30:00-01:00")


def test_failed_decision_shows_the_smallest_changes_after_which_a_host_fits(cloud_app, browser):
    cloud_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn3", vcpus=120)])
    uuid = record_failed_decision(cloud_app, 1, ignore_hosts=["cn3"])
    words = browser.get(f"{DECISIONS_PATH}/{uuid}").html.select_one("main .nearest").get_text()
    assert "cn3 would fit, but" in words


def test_requested_host_is_shown_by_its_name(cloud_app, browser):
    """Pages showed the uuid of its resource provider: in_tree cd13d6a7-..."""
    trait = make_flavor(extra_specs={"trait:HW_CPU_X86_AVX": "required"})
    headers = {"OpenStack-API-Version": "placement 1.39"}
    for number in (44, 45):
        report = make_report(f"cn{number}", uuid=make_uuid(number))
        cloud_app.post_json("/scheduler/v1/compute_nodes", [report])
        path = f"/placement/resource_providers/{make_uuid(number)}"
        generation = cloud_app.get(path, headers=headers).json["generation"]
        body = {"traits": ["HW_CPU_X86_AVX"], "resource_provider_generation": generation}
        cloud_app.put_json(f"{path}/traits", body, headers=headers)
    destination = {"host": "cn1"}
    uuid = record_failed_decision(cloud_app, 1, flavor=trait, requested_destination=destination)
    for path in (DECISIONS_PATH, f"{DECISIONS_PATH}/{uuid}", "/console/"):
        text = browser.get(path).html.main.get_text(" ")
        assert "not cn1 (requested host)" in " ".join(text.split())
        assert "in_tree cn1" in text or path == "/console/"


def test_instance_without_a_decision_is_shown_with_its_host(cloud_app, browser):
    record = {"host": "cn1", "display_name": "web-1", "project_id": "p1", "vm_state": "active"}
    cloud_app.put_json(f"/scheduler/v1/instances/{make_uuid(1)}", record)
    page = browser.get(f"{DECISIONS_PATH}?instance={make_uuid(1)}")
    text = " ".join(page.html.main.get_text(" ").split())
    assert "The instance web-1 is active on cn1 ." in text
    assert page.html.select_one("main a[href='/console/hosts/cn1']")
    assert "No recorded decision placed it" in page.html.select_one("#none").get_text()
    unknown = browser.get(f"{DECISIONS_PATH}?instance={UNKNOWN_UUID}")
    assert "No recorded decision matches" in unknown.html.select_one("#none").get_text()
