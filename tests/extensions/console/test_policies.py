# SPDX-License-Identifier: Apache-2.0
"""The page Policies: each policy, the sources of its options, and comparisons."""

import json

import pytest
from webtest import TestApp

from placement_sched.explain.reader import format_value
from placement_sched.extensions.console.cloud import SOURCES
from tests.extensions.console.pages import read_rows_of_section
from tests.support import program
from tests.support.policies import settings_with_policies
from tests.support.servers import build_environment

POLICIES_PATH = "/console/policies"
POLICIES_CONFIG = """
[scheduler]
policies = dense, sparse
[dense]
cpu_allocation_ratio = 8.0
ram_weight_multiplier = -2.0
enabled_filters = NumInstancesFilter, ComputeFilter
[sparse]
cpu_allocation_ratio = 1.0
"""


@pytest.fixture(scope="module")
def browser(build_shared_app) -> TestApp:
    return TestApp(
        build_shared_app(
            lambda url, folder: settings_with_policies(url, folder, POLICIES_CONFIG)
        ).app
    )


def test_policies_are_listed_with_their_options(browser):
    default, dense, sparse = read_rows_of_section(browser.get(POLICIES_PATH), "all")
    assert "every host without a policy" in default
    assert "DEFAULT.cpu_allocation_ratio = 8" in dense
    assert sparse == "sparse none DEFAULT.cpu_allocation_ratio = 1"


def test_policy_shows_its_filters_weighers_and_sources_of_options(browser):
    page = browser.get(POLICIES_PATH, params={"policy": "dense"})
    filters = page.html.select("section[aria-labelledby=runs] ol")[1]
    names = [item.get_text() for item in filters.find_all("li")]
    assert names == ["NumInstancesFilter", "ComputeFilter"]
    assert "RAMWeigher -2" in read_rows_of_section(page, "runs")
    options = read_rows_of_section(page, "options")
    first = options[0]
    assert first.startswith("DEFAULT.cpu_allocation_ratio 8 the policy's section")
    assert "policies.conf:7" in first
    assert "scheduler.max_attempts 3 default" in options


def test_two_policies_are_shown_side_by_side(browser):
    page = browser.get(POLICIES_PATH, params={"policy": "dense", "beside": "sparse"})
    differing = read_rows_of_section(page, "differences")
    assert "RAMWeigher -2 1" in differing
    assert "DEFAULT.cpu_allocation_ratio 8 1" in differing
    assert not [row for row in differing if "max_attempts" in row]
    same = browser.get(POLICIES_PATH, params={"policy": "dense", "beside": "dense"})
    assert "There are no differences" in same.text


def test_policy_selectors_of_the_configuration_are_shown(browser):
    text = " ".join(
        browser.get(POLICIES_PATH).html.select("section[aria-labelledby=all]")[0].text.split()
    )
    assert "chosen by the scheduler hint sched_policy, then by the availability zone" in text


def test_page_with_a_single_policy_shows_how_to_add_another(sqlite_app):
    page = TestApp(sqlite_app.app).get(POLICIES_PATH)
    assert "sched_policy=NAME" in page.html.select_one(".empty").get_text()
    assert "beside" not in [name for form in page.forms.values() for name in form.fields]


def test_unknown_policy_shows_an_error(browser):
    page = browser.get(POLICIES_PATH, params={"policy": "<b>lost</b>"}, status=404)
    assert "there is no policy '<b>lost</b>'" in page.html.find(role="alert").get_text()


@pytest.mark.system
def test_policies_page_and_policy_command_show_equal_options(
    sqlite_url, sqlite_database, tmp_path, make_app, monkeypatch
):
    monkeypatch.setenv("OS_SCHEDULER__MAX_ATTEMPTS", "7")
    more = "placement_aggregate_required_for_tenants = true\n"
    text = POLICIES_CONFIG.replace(
        "[dense]", f"{more}[filter_scheduler]\nhost_subset_size = 2\n[dense]"
    )
    application = make_app(settings_with_policies(sqlite_url, tmp_path, text)).app
    # A new process has only the options of this configuration.
    config = ("--config-file", tmp_path / "policies.conf")
    command = ("policy", "show", "dense", "--format", "json", *config)
    done = program.run_program(
        *command, cwd=tmp_path, env=build_environment(OS_SCHEDULER__MAX_ATTEMPTS="7")
    )
    options = json.loads(done.stdout)["options"]
    page = TestApp(application).get(POLICIES_PATH, params={"policy": "dense"})
    shown = {
        row.th.get_text(): [part.get_text(" ", strip=True) for part in row.find_all("td")]
        for row in page.html.select("section[aria-labelledby=options] tbody tr")
    }
    # The plugins of other tests in this process have options, too.
    assert {key: cells for key, cells in shown.items() if key in options} == {
        key: [
            format_value(each["value"]) or "(empty)",
            " ".join(filter(None, [SOURCES[each["source"]], each["place"]])),
        ]
        for key, each in options.items()
    }
    sources = {each["source"] for each in options.values()}
    assert sources == {"environment", "configuration", "default", "policy"}


def test_access_section_shows_that_noauth2_checks_no_tokens(browser):
    (text,) = [
        each.get_text(" ", strip=True)
        for each in select_access_sections(browser.get(POLICIES_PATH))
    ]
    assert "auth_strategy = noauth2" in text
    assert "All rules have their defaults" in text


def test_access_section_names_the_policy_file_and_its_rules(
    sqlite_url, sqlite_database, tmp_path, make_app
):
    rules = tmp_path / "rules.yaml"
    rules.write_text('"scheduler:hosts:list": "role:reader"\n"my_own": "role:x"\n')
    text = f"{POLICIES_CONFIG}[oslo_policy]\npolicy_file = {rules}\n"
    page = TestApp(make_app(settings_with_policies(sqlite_url, tmp_path, text)).app).get(
        POLICIES_PATH
    )
    (section,) = select_access_sections(page)
    assert str(rules) in section.get_text()
    assert [each.get_text() for each in section.find_all("li")] == ["scheduler:hosts:list"]


def select_access_sections(page):
    return page.html.select("section[aria-labelledby=access]")
