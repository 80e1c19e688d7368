# SPDX-License-Identifier: Apache-2.0
"""Errors next to a form name the field and the expected value."""

import pytest

from placement_sched.api.in_process import Reply
from placement_sched.extensions.console.client import ApiError, with_form_labels
from tests.extensions.console.pages import browser as browser  # noqa: PLC0414 - a fixture

SIZE_FIELDS = {"vcpus": "1", "ram": "1", "disk": "1"}
LONG_TEXT = "x" * 300
RAM_WEIGHT_FIELD = "filter_scheduler.ram_weight"
#: Page, field, typed value, and the beginning of the error.
INVALID_FORM_VALUES = [
    ("ask", "vcpus", "-1", "VCPUs: -1 is less than the minimum of 0"),
    ("ask", "ram", "9999999999", "Memory: 9999999999 is greater than the maximum of 2147483647"),
    ("capacity", "vcpus", "9" * 20, "VCPUs: 1e+20 is greater than the maximum of 2147483647"),
    ("ask", "count", "0", "Instances: 0 is less than the minimum of 1"),
    ("ask", "zone", LONG_TEXT, "Zone: 'xxx"),
    ("ask", "project", LONG_TEXT, "Project: 'xxx"),
    ("ask", "property", f"{LONG_TEXT}=1", "Extra specs: 'xxx"),
    ("ask", "image_property", f"{LONG_TEXT}=1", "Image properties: 'xxx"),
    ("ask", "image", "unheard-of", "Image: There is no stored image 'unheard-of'"),
    ("ask", "hint", "group=x", "Hints: There is no server group 'x'"),
    ("ask", "force_host", LONG_TEXT, "Only these hosts: 'xxx"),
    ("ask", "ignore_host", LONG_TEXT, "Leave out these hosts: 'xxx"),
    ("ask", "policy", "nope", "Policy: there is no policy 'nope'"),
    ("ask", "override", "x=1", "Options: there is no option 'x'"),
    ("ask", "override", "metrics.weight_setting={}", "Options, metrics.weight_setting: {} is not"),
    ("capacity", "per", "rack", "Count per: 'rack' is not one of zone, aggregate, host, cell"),
    ("capacity", "change", "drain=cn1", "Changes, line 1, drain: there is no host 'cn1'"),
    ("capacity", "change", "add=cn1*0", "Changes, line 1, add count: 0 is less than the minimum"),
    ("capacity", "change", '{"drain": 5}', "Changes, line 1, drain: 5 is not a list"),
    ("capacity", "change", '{"add": {}}', "Changes, line 1, add: 'like' is required"),
    ("capacity", "change", '{"drain": []}', "Changes, line 1, drain: [] should be non-empty"),
    ("capacity/moves", "goal", "x", "Goal: 'x' is not one of fit, pack, spread, comply"),
    ("decisions", "outcome", "x", "Outcome: 'x' is not one of no_valid_host, selected"),
    ("decisions", "instance", "x", "Instance: 'x' is not a uuid"),
    ("decisions", "since", "x", "Since: 'x' is neither an age (30m, 2h, 7d) nor"),
    ("decisions", "policy", LONG_TEXT, "Policy: 'xxx"),
    ("decisions", "since", "99999999w", "Since: 99999999w is before year 1"),
    ("decisions", "marker", "newest", "Marker: 'newest' is not a uuid"),
    ("ask", "flavor", "nope", "Flavor: There is no stored flavor 'nope'"),
    ("ask", "vcpus", "two", "VCPUs: 'two' is not an integer"),
    ("ask", "property", "nonsense", "Extra specs nonsense: expected KEY=VALUE"),
    ("ask", "override", "nonsense", "Options nonsense: expected KEY=VALUE"),
    (
        "ask",
        RAM_WEIGHT_FIELD,
        "1",
        f"Options: there is no option '{RAM_WEIGHT_FIELD}'. Did you mean",
    ),
    (
        "ask",
        f"{RAM_WEIGHT_FIELD}_multiplier",
        "x",
        f"Options, {RAM_WEIGHT_FIELD}_multiplier: 'x' is not a number",
    ),
    ("capacity", "zone", "nowhere", "Zone: no aggregate has the availability zone 'nowhere'"),
    ("capacity/failover", "host_failures", "11", "Failures: 11 is greater than the maximum of 10"),
    ("capacity/failover", "host_failures", "two", "Failures: 'two' is not an integer"),
]
#: Fields that can only show a valid value.
FIELDS_WITH_CHOICES = {"per", "goal", "outcome", "marker"}


@pytest.mark.parametrize(("page", "field", "typed", "message"), INVALID_FORM_VALUES)
def test_invalid_form_value_is_kept_and_the_error_names_field_and_expected_value(
    browser, page, field, typed, message
):
    sizes = SIZE_FIELDS if page in {"ask", "capacity"} else {}
    # The page loads the effect of changes in parts, unless it is complete.
    sizes = sizes | {"complete": "1"} if page == "capacity" else {}
    response = browser.get(f"/console/{page}", {**sizes, field: typed}, status="4*")
    shown = response.html.find(role="alert").get_text(" ", strip=True)
    assert shown.removeprefix("Not answered. ").startswith(message)
    forms = [form for form in response.forms.values() if field in form.fields]
    assert field in FIELDS_WITH_CHOICES or {form[field].value.strip() for form in forms} == {typed}
    if LONG_TEXT in typed:
        assert shown.endswith("is too long: at most 255 characters")
    for technical in ("$", "schema", "validat", "JSON"):
        assert technical not in shown


def test_error_response_of_the_proxied_api_is_unchanged(browser):
    same = {"Sec-Fetch-Site": "same-origin"}
    body = {"request_spec": {"flavor": {"vcpus": -1, "memory_mb": 1}}}
    response = browser.post_json(
        "/console/api/scheduler/v1/explain", body, headers=same, status=400
    )
    (error,) = response.json["errors"]
    assert "(at $.request_spec.flavor.vcpus)" in error["detail"]
    assert error["fault"] == {
        "problem": "-1 is less than the minimum of 0",
        "path": "$.request_spec.flavor.vcpus",
        "keyword": "minimum",
        "value": "-1",
        "expected": 0,
    }


def test_title_of_an_error_does_not_depend_on_the_interpreter():
    """Python 3.13 has another phrase for this status."""
    assert ApiError(Reply(413, {}, b"")).title == "Request Entity Too Large"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"keyword": "anyOf", "value": "1"}, "none of the accepted forms"),
        (
            {"keyword": "pattern", "value": "'a b'", "expected": "^[A-Z0-9_]+$"},
            "is not a valid name",
        ),
        ({}, "something of another kind"),
    ],
)
def test_schema_error_at_a_path_without_form_field_is_shown_in_plain_words(fault, message):
    path = "$.request_spec.retry.hosts[0]"
    fault = {"expected": None, **fault, "problem": "something of another kind", "path": path}
    shown = with_form_labels({"detail": "JSON does not validate", "fault": fault})
    assert shown.startswith("Request spec retry hosts 0")
    assert message in shown


def test_error_messages_without_a_json_path_are_unchanged():
    error = {"detail": "No host fits (2 are down)"}
    assert with_form_labels(error) == error["detail"]
