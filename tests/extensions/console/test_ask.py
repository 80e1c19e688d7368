# SPDX-License-Identifier: Apache-2.0
"""The page Ask: the form, the response, its stages and hosts, and its report."""

import json
import shlex
from urllib.parse import parse_qs

import pytest
from webtest import TestApp

from tests.extensions.console.ask_page import ASK_PATH, ASK_URL, RAM_WEIGHT, build_host_reports
from tests.extensions.console.ask_page import browser as browser  # noqa: PLC0414 - a fixture
from tests.extensions.console.ask_page import cloud_app as cloud_app  # noqa: PLC0414 - a fixture
from tests.extensions.console.pages import find_link_address, read_text
from tests.support.policies import settings_with_policies
from tests.support.scheduling import make_report

pytestmark = pytest.mark.slow

ASK_URL_WITHOUT_VALID_HOST = f"{ASK_PATH}?vcpus=2&ram=300000&disk=20"
#: Two policies. Under ``packed``, the host with the least free memory is first.
POLICIES_CONFIG = """[DEFAULT]
service_down_time = 86400
[scheduler]
policies = packed
policy_overrides = ram_weight_multiplier
[packed]
ram_weight_multiplier = -5.0
"""


@pytest.fixture
def modifiable_app(sqlite_app):
    """The same hosts in a cloud that a test changes."""
    sqlite_app.post_json("/scheduler/v1/compute_nodes", build_host_reports())
    return sqlite_app


@pytest.fixture
def app_with_policies(tmp_path, sqlite_url, make_app) -> TestApp:
    """A cloud with the policies default and packed."""
    app = make_app(settings_with_policies(sqlite_url, tmp_path, POLICIES_CONFIG))
    app.post_json("/scheduler/v1/compute_nodes", build_host_reports())
    return TestApp(app.app)


def read_conclusion_text(page) -> str:
    return read_text(page.html.select_one(".conclusion"))


def read_host_counts_of_stages(page) -> dict[str, tuple[int, int]]:
    """Return the number of hosts before and after each stage."""
    return {
        read_text(row.th): tuple(int(cell.text) for cell in row.select(".count"))
        for row in page.html.select(".funnel tbody tr:not(.reasons)")
    }


def read_best_hosts(page) -> list[str]:
    return [read_text(row.th) for row in page.html.select(".weights tbody tr")]


# The form


def test_ask_page_without_a_query_shows_a_prefilled_request(browser):
    page = browser.get(ASK_PATH)
    assert not page.html.select(".conclusion")
    assert "No flavor is stored: enter sizes." in read_text(page.html)
    assert read_conclusion_text(page.forms[1].submit().follow()).startswith(
        "✓ Selected. 3 hosts passed"
    )


def test_stored_flavor_can_be_chosen_by_name(modifiable_app):
    body = {"name": "m1.small", "vcpus": 2, "ram": 2048, "disk": 5, "id": "7"}
    modifiable_app.post_json("/compute/v2.1/flavors", {"flavor": body})
    form = TestApp(modifiable_app.app).get(ASK_PATH).forms[1]
    assert form["vcpus"].value == ""
    form["flavor"].select(text="m1.small (2 VCPUs, 2 GiB, 5 GiB disk)")
    page = form.submit().follow()
    assert "MEMORY_MB:2048" in " ".join(read_host_counts_of_stages(page))
    assert page.forms[1]["flavor"].value == "m1.small"


def test_flavor_named_like_another_id_is_chosen_by_id(modifiable_app):
    for name, id_ in (("7", "8"), ("m1", "7")):
        body = {"name": name, "vcpus": 2, "ram": 2048, "disk": 5, "id": id_}
        modifiable_app.post_json("/compute/v2.1/flavors", {"flavor": body})
    values = {
        each["value"]
        for each in TestApp(modifiable_app.app).get(ASK_PATH).html.select("[name=flavor] option")
    }
    assert values == {"", "8", "m1"}


def test_zones_images_and_policies_can_be_chosen(app_with_policies):
    image = {"name": "debian", "disk_format": "qcow2", "container_format": "bare"}
    headers = {"X-Auth-Token": "admin"}
    stored = app_with_policies.post_json("/image/v2/images", image, headers=headers)
    html = app_with_policies.get(ASK_PATH).html
    assert [each["value"] for each in html.select("#zones option")] == ["nova"]
    assert [each["value"] for each in html.select("#images option")] == [stored.json["id"]]
    assert [read_text(each) for each in html.select("[name=policy] option")][1:] == [
        "default",
        "packed",
    ]


def test_ask_form_without_values_shows_an_error(browser):
    page = browser.get(f"{ASK_PATH}?flavor=&vcpus=&beside=", status=400)
    assert "Choose a flavor or enter its sizes" in page.html.find(role="alert").get_text()


def test_request_is_explained_with_simulated_changes(browser):
    fields = {"vcpus": "2", "ram": "1024", "change": "remove=cn1\nadd=cn2*2"}
    page = browser.get(ASK_PATH, params=fields)
    assert page.forms[1]["change"].value.strip() == fields["change"]
    assert "--change remove=cn1 --change" in page.html.find(id="share-command")["value"]
    unchanged = browser.get(ASK_PATH, params={**fields, "change": ""}).follow()
    assert read_conclusion_text(page) != read_conclusion_text(unchanged)
    rejection = browser.get(ASK_PATH, params={**fields, "change": "remove=cn99"}, status="4*")
    assert "cn99" in rejection.html.find(role="alert").get_text()


def test_every_field_of_the_form_is_in_the_request(browser):
    form = browser.get(ASK_PATH).forms[1]
    typed = {
        "count": "2",
        "zone": "nova",
        "project": "p1",
        "property": "hw:numa_nodes=1\ntrait:HW_CPU_X86_AVX=forbidden",
        "image_property": "hw_machine_type=q35",
        "hint": "different_host=a\ndifferent_host=b",
        "force_host": "cn1\ncn2",
        "ignore_host": "cn3",
    }
    for name, value in typed.items():
        form[name] = value
    form[RAM_WEIGHT] = "-2.5"
    form["override"] = 'filter_scheduler.enabled_filters=["ComputeFilter"]'
    page = form.submit().follow()
    body = json.loads(shlex.split(page.html.select_one("#share-curl")["value"])[-1])
    spec = body["request_spec"]
    assert spec["num_instances"] == 2
    assert spec["availability_zone"] == "nova"
    assert spec["project_id"] == "p1"
    assert spec["flavor"]["extra_specs"] == {
        "hw:numa_nodes": "1",
        "trait:HW_CPU_X86_AVX": "forbidden",
    }
    assert spec["image"] == {"properties": {"hw_machine_type": "q35"}}
    assert spec["scheduler_hints"] == {"different_host": ["a", "b"]}
    assert (spec["force_hosts"], spec["ignore_hosts"]) == (["cn1", "cn2"], ["cn3"])
    assert body["overrides"] == {
        RAM_WEIGHT: -2.5,
        "filter_scheduler.enabled_filters": ["ComputeFilter"],
    }
    shown = page.forms[1]
    for name, value in typed.items():
        assert shown[name].value.split() == value.split()
    assert shown[RAM_WEIGHT].value == "-2.5"
    page = browser.get(f"{ASK_URL}&filter_scheduler.host_subset_size=2")
    assert page.forms[1]["filter_scheduler.host_subset_size"].value == "2"


def test_weight_that_equals_the_configured_weight_is_not_sent(browser):
    page = browser.get(ASK_PATH).forms[1].submit().follow()
    body = json.loads(shlex.split(page.html.select_one("#share-curl")["value"])[-1])
    assert "overrides" not in body
    assert page.forms[1][RAM_WEIGHT].value == ""
    (field,) = page.html.find_all("input", attrs={"name": RAM_WEIGHT})
    assert field["placeholder"] == "1"


# The response


def test_page_starts_with_the_conclusion_that_names_the_selected_host(browser):
    page = browser.get(f"{ASK_URL}&{RAM_WEIGHT}=5")
    assert read_conclusion_text(page) == "✓ Selected. 3 hosts passed all stages. cn3 is selected."
    assert page.html.select_one("#funnel").get_text() == "Why not the others"
    assert page.html.select_one("h2").find_previous(class_="conclusion")
    assert read_best_hosts(page) == ["cn3", "cn2", "cn1"]


def test_no_valid_host_page_shows_the_smallest_changes_that_admit_a_host(cloud_app, browser):
    page = browser.get(ASK_URL_WITHOUT_VALID_HOST)
    assert read_conclusion_text(page).startswith("✗ No valid host.")
    assert page.html.select_one("#funnel").get_text() == "Why no host"
    assert "0 of 3 hosts passed. Most: not enough memory" in page.text
    assert "The first number counts hosts before the host filters." in page.text
    response = cloud_app.post_json(
        "/scheduler/v1/explain",
        {"request_spec": {"flavor": {"vcpus": 2, "memory_mb": 300000, "root_gb": 20}}},
    ).json
    words = [each["words"] for each in response["funnel"]["would_fit"]]
    assert words
    assert [read_text(each) for each in page.html.select(".nearest li")] == words


def test_each_stage_that_rejects_hosts_has_a_letter_and_colour(browser):
    page = browser.get(f"{ASK_PATH}?vcpus=2&ram=100000&ignore_host=cn3")
    signs = [read_text(each) for each in page.html.select(".funnel .sign")]
    assert signs == ["A", "B"]
    colours = [each["class"] for each in page.html.select(".funnel .sign rect")]
    assert colours == [["part1"], ["part3"]]
    drawn = json.loads(page.html.select_one(".map-data").text)
    named = {stage["name"]: stage for stage in drawn["stages"]}
    stage = named["resources MEMORY_MB:100000"]
    assert (stage["letter"], stage["words"]) == ("A", "not enough memory for 97.7 GiB")
    reasons = [drawn["reasons"][at] for at in stage["why"]]
    assert stage["nodes"] == ["cn1"]
    assert reasons[0].startswith("MEMORY_MB: 65536 free")


def test_rejected_hosts_of_a_funnel_stage_are_paginated(sqlite_app):
    browser = TestApp(sqlite_app.app)
    sqlite_app.post_json(
        "/scheduler/v1/compute_nodes", [make_report(f"h{n:03}") for n in range(103)]
    )
    page = browser.get(f"{ASK_PATH}?vcpus=99")
    assert "103 hosts" in read_text(page.html.select_one(".reasons"))
    first = browser.get(find_link_address(page, "All 103 rejected hosts"))
    listed = [read_text(row.th) for row in first.html.select("tbody tr")]
    assert "Rejected hosts 1 to 100 of 103" in first
    second = browser.get(find_link_address(first, "Next"))
    listed += [read_text(row.th) for row in second.html.select("tbody tr")]
    assert sorted(listed) == [f"h{n:03}" for n in range(103)]
    assert "VCPU" in read_text(second.html.select_one("tbody td"))
    assert (
        browser.get(find_link_address(second, "Previous"))
        .html.select_one("caption")
        .text.endswith("of 103")
    )


def test_hosts_beyond_the_candidate_limit_are_cut_and_not_rejected(browser):
    page = browser.get(f"{ASK_URL}&override=scheduler.max_placement_results=1")
    assert "3 of 3 hosts fit. The limit cut 2 hosts before the host filters and weighers." in (
        read_text(page.html.select_one("[data-result]"))
    )
    assert page.html.select_one(".why-not .funnel .sign rect")["class"] == ["cut"]
    assert "fit, not weighed" in read_text(page.html.select_one(".where .legend"))
    drawn = json.loads(page.html.select_one(".map-data").text)
    (stage,) = drawn["stages"]
    assert (stage["cut"], stage["removed"], stage["nodes"]) == (True, 2, [])
    cut = min({"cn1", "cn2", "cn3"} - set(drawn["passed"]))
    of_host = read_text(browser.get(f"{page.request.path_qs}&host={cut}").html.select_one("#why"))
    assert "fits, not weighed" in of_host
    assert "rejected" not in of_host
    link = find_link_address(page, stage["name"])
    of_stage = read_text(browser.get(link).html.select_one("main"))
    assert "1 of 3 hosts left, 2 cut." in of_stage
    assert "2 hosts fit, but were cut by the limit and not weighed." in of_stage
    assert "reject" not in of_stage


def test_stage_page_links_to_a_host_with_a_close_link_back_to_the_stage(browser):
    page = browser.get(ASK_URL_WITHOUT_VALID_HOST)
    stage = browser.get(find_link_address(page, "resources MEMORY_MB:300000"))
    host = browser.get(find_link_address(stage, "cn2"))
    assert "✗ rejected" in read_text(host.html.select_one("#why"))
    assert read_host_counts_of_stages(host) == read_host_counts_of_stages(page)
    assert not browser.get(find_link_address(host, "Close")).html.select("#why")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("stage=NoSuchFilter", "No host reached a stage 'NoSuchFilter'"),
        ("stage=resources+MEMORY_MB:300000&page=2", "has 1 pages of rejected hosts, not 2"),
        ("stage=resources+MEMORY_MB:300000&page=0", "has 1 pages of rejected hosts, not 0"),
    ],
)
def test_unknown_stage_in_the_url_is_an_error(browser, query, words):
    page = browser.get(f"{ASK_URL_WITHOUT_VALID_HOST}&{query}", status=404)
    assert words in read_text(page.html.select_one("[role=alert]"))


def test_rejected_host_shows_stages_reasons_and_required_changes(browser):
    page = browser.get(f"{ASK_PATH}?vcpus=99&ram=300000&host=cn1")
    path = {
        read_text(row.th): read_text(row.find_all("td")[-1])
        for row in page.html.select(".path tbody tr")
    }
    assert path["resources VCPU:99"].startswith("✗ VCPU")
    assert path["resources MEMORY_MB:300000"].startswith("✗ MEMORY_MB")
    assert path["ComputeFilter"] == "✓ passes"
    assert read_text(page.html.select_one("#why")).count("to pass:") == 2


def test_host_that_passes_all_filters_shows_its_rank(browser):
    page = browser.get(f"{ASK_URL}&{RAM_WEIGHT}=5&host=cn2")
    assert "passed, rank 2 of 3" in page
    assert "✗" not in read_text(page.html)


def test_unknown_host_links_to_similar_names(browser):
    page = browser.get(f"{ASK_URL}&host=cn22")
    assert "rank" in browser.get(find_link_address(page, "cn2"))


def test_host_that_passes_all_filters_is_compared_with_the_best_host_by_weigher(browser):
    page = browser.get(f"{ASK_URL}&{RAM_WEIGHT}=5&host=cn1")
    rows = {read_text(row.th): read_text(row.td) for row in page.html.select(".against tr")}
    assert rows == {"cn2": "ahead by 1.667: RAM +1.667", "cn3": "ahead by 3.333: RAM +3.333"}


def test_html_fragment_about_a_host_has_only_its_reasons_and_weights(browser):
    page = browser.get(f"{ASK_URL}&host=cn1")
    part = page.html.select_one("[data-map]")["data-part"]
    bare = browser.get(f"{part}cn1")
    assert bare.html.select_one("#why") == page.html.select_one("#why")
    assert not bare.html.select(".funnel, .weights, form.request-form")


def test_submitted_form_explains_the_host_given_in_the_url(browser):
    form = browser.get(f"{ASK_PATH}?host=cn2").forms["request-form"]
    assert form["host"].value == "cn2"
    assert "passed, rank" in form.submit().follow().html.select_one("#why").text


# What if


def test_simulated_changes_and_weights_are_shown_with_a_link_to_remove_them(browser):
    page = browser.get(f"{ASK_URL}&change=drain%3Dcn1,cn2&{RAM_WEIGHT}=5&beside=default")
    stated = read_text(page.html.select_one(".what-if"))
    assert "drained cn1, cn2; ram weight 5 (configured 1)." in stated
    today = browser.get(find_link_address(page, "Back to today"))
    assert not today.html.select(".what-if")
    assert today.request.path_qs == f"{ASK_URL}&beside=default"
    assert len(read_best_hosts(today)) == 3 > len(read_best_hosts(page))


# Side by side


def test_results_of_a_request_under_two_policies_are_shown_side_by_side(app_with_policies):
    page = app_with_policies.get(f"{ASK_URL}&beside=packed")
    table = page.html.select_one(".compared")
    first, second = (read_text(each) for each in page.html.select(".beside .conclusion"))
    assert first == "default ✓ Selected. 3 passed, the best is cn3"
    assert second == "packed ✓ Selected. 3 passed, the best is cn1"
    assert "≠ cn3 is at place 3" in read_text(table)
    assert page.forms[1]["beside"].value == "packed"


def test_shared_request_and_command_compare_the_same_policies(app_with_policies):
    page = app_with_policies.get(f"{ASK_URL}&beside=packed")
    command = shlex.split(page.html.select_one("#share-command")["value"])
    assert command[command.index("--compare") + 1] == "default,packed"
    first, second = page.html.select_one("#share-curl")["value"].split("; curl")
    assert "policy" not in json.loads(shlex.split(first)[-1])
    assert json.loads(shlex.split(second)[-1])["policy"] == "packed"
    page = app_with_policies.get(f"{ASK_URL}&policy=packed&beside=default")
    command = shlex.split(page.html.select_one("#share-command")["value"])
    assert command[command.index("--compare") + 1] == "packed,default"
    assert "--policy" not in command


def test_equal_explanations_of_two_policies_are_reported_as_equal(app_with_policies):
    page = app_with_policies.get(f"{ASK_URL}&beside=default")
    assert "Both results are the same" in page
    assert "≠" not in page


def test_overridden_request_can_be_compared_with_the_configured_options(app_with_policies):
    options = f"{RAM_WEIGHT}=5&override=filter_scheduler.enabled_filters=[%22RamFilter%22]"
    page = app_with_policies.get(f"{ASK_URL}&{options}&beside=default&beside_as_configured=1")
    rows = {read_text(row.th): read_text(row) for row in page.html.select(".compared tbody tr")}
    assert rows["RamFilter"].endswith("≠ not here")
    assert rows["ComputeFilter"].endswith("≠ only here")
    assert "default, options as configured" in page


# Errors


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("flavor=m1&ram=5", "Flavor cannot be combined with VCPUs, Memory, Disk and Extra"),
        ("vcpus=1&beside=nope", "there is no policy 'nope'"),
    ],
)
def test_invalid_request_is_400_with_its_values_still_in_the_form(browser, query, words):
    page = browser.get(f"{ASK_PATH}?{query}", status=400)
    assert words in read_text(page.html.select_one("[role=alert]"))
    for name, values in parse_qs(query).items():
        assert page.forms[1][name].value == values[0]


# The report


def test_explanation_can_be_downloaded_as_an_html_report(browser):
    page = browser.get(f"{ASK_URL}&{RAM_WEIGHT}=5")
    saved = browser.get(find_link_address(page, "Report (HTML)"))
    assert saved.headers["Content-Disposition"] == 'attachment; filename="explanation.html"'
    assert f"{RAM_WEIGHT} = 5" in saved
    assert read_best_hosts(saved) == read_best_hosts(page)
    assert not saved.html.find_all(["a", "script", "link"])
    assert "is not an integer" in browser.get(f"{ASK_PATH}/report?vcpus=x", status=400)


def test_html_report_contains_the_comparison_with_a_second_policy(app_with_policies):
    page = app_with_policies.get(f"{ASK_URL}&beside=packed")
    saved = app_with_policies.get(find_link_address(page, "Report (HTML)"))
    assert saved.html.select_one(".compared") == page.html.select_one(".compared")


def test_weight_of_an_unreported_metric_is_a_user_error(cloud_app, caplog):
    response = cloud_app.get(
        f"{ASK_URL}&override=metrics.weight_setting%3Da%3D1", expect_errors=True
    )
    assert response.status_int < 500
    assert "metrics.weight_setting: host cn1, node cn1 does not report a" in read_text(
        response.html
    )
    assert "Traceback" not in caplog.text


def test_too_deeply_nested_override_is_a_user_error(cloud_app):
    brackets = "%5B" * 20_000
    response = cloud_app.get(
        f"{ASK_URL}&override=scheduler.driver%3D{brackets}", expect_errors=True
    )
    assert response.status_int < 500
