# SPDX-License-Identifier: Apache-2.0
"""A report is a single file without references, and shows names as text."""

import re
from datetime import datetime
from html.parser import HTMLParser

import pytest

from placement_sched.cli.report.html import (
    Heading,
    render_capacity_report,
    render_decision_report,
    render_explanation_report,
)
from tests.support.explanations import build_explanation as explanation
from tests.support.explanations import (
    build_selection,
    build_stage,
    build_step,
    build_weighed_host,
    build_weight,
)

HEADING = Heading(title="Explanation", source="sqlite", created_at=datetime(2026, 11, 23, 12, 0, 0))
AGGREGATE_UUID = "3b1f4d3c-6d22-4a7e-9b5e-0c6a4a0d7f11"
MALICIOUS_NAMES = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><script>alert(1)</script>",
    "javascript:alert(1)",
    "{{ 7 * 7 }}",
    "'-alert(1)-'",
    "cn\u202e1",
]
FLAVOR_REQUEST = {
    "flavor": {"name": "m1", "vcpus": 2, "memory_mb": 4096, "root_gb": 10},
    "image": None,
}


class ParsedPage(HTMLParser):
    """The elements, attributes and text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.pieces: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in {"meta", "rect", "line"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in {"meta", "rect", "line"}:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.pieces.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.pieces).split())


def build_explanation(name: str = "cn1") -> dict:
    """Return an explanation with every part that a report can have."""
    result = explanation(
        steps=[build_step("resources", "VCPU:2", 4, 3, [("cn4", f"VCPU: 1 free, not {name}")])],
        filters=[
            build_stage(3, 1, [(name, "down"), ("cn2", f"reason {name}")], name=f"{name}Filter")
        ],
        hosts=[
            build_weighed_host(
                name, 1.5, RAMWeigher=build_weight(0.5, 1.0), CPUWeigher=build_weight(1.0, 2.0)
            )
        ],
        weighers=["RAMWeigher", "CPUWeigher", "DiskWeigher"],
        request_filters=[
            {
                "name": "forbidden_aggregates",
                "applied": True,
                "changes": {"x": [AGGREGATE_UUID, name]},
            }
        ],
    )
    result["funnel"]["warnings"] = [{"key": name, "source": "flavor", "detail": f"ignored: {name}"}]
    selections = [build_selection("i", each, VCPU=2) | {"weight": 1.5} for each in (name, "cn9")]
    result["selections"] = [selections]
    result["verdicts"] = [
        {
            "requested": name,
            "verdict": "rejected",
            "host": name,
            "would_pass": True,
            "reasons": [
                {"stage": "filters", "name": name, "reason": name, "changes": [{"words": name}]}
            ],
        },
        {
            "requested": name,
            "verdict": "unknown",
            "host": None,
            "similar_names": [name],
            "reasons": [],
        },
    ]
    return result


def test_explanation_report_shows_all_parts_of_the_explanation():
    page = ParsedPage(
        render_explanation_report(
            build_explanation(), FLAVOR_REQUEST, HEADING, {AGGREGATE_UUID: "win-lic"}
        )
    )
    for words in (
        "2026-11-23 12:00:00 UTC",
        "Selected.",
        "m1; 2 VCPUs, 4 GiB memory, 10 GiB disk",
        "win-lic",
        "resources VCPU:2",
        "1 host: VCPU: 1 free, not cn1 (cn4)",
        "cn1Filter",
        "RAMWeigher",
        "Weighers without effect: DiskWeigher",
        "alternates: cn9",
        "ignored: cn1",
        "passes after the changes below",
    ):
        assert words in page.text
    assert AGGREGATE_UUID not in page.text
    assert not page.open


def test_explanation_report_without_a_valid_host_shows_the_reason():
    found = explanation(steps=[build_step("resources", "VCPU:2", 4, 0)])
    found["funnel"]["obstacle"] = {"stage": "x", "name": "y", "reason": "no host has 2 VCPU"}
    page = ParsedPage(render_explanation_report(found, FLAVOR_REQUEST, HEADING, {}))
    assert "No valid host. no host has 2 VCPU" in page.text.replace("\u2717 ", "")


@pytest.mark.parametrize("has_constraints", [False, True])
def test_remark_on_the_number_of_a_near_miss_depends_on_its_values(has_constraints):
    report = explanation(steps=[build_step("resources", "VCPU:2", 4, 0)])
    obstacle = {"stage": "x", "name": "y", "reason": "1 host meets all constraints but VCPU:2"}
    if has_constraints:
        obstacle["constraints"] = [{"kind": "capacity", "resource_class": "VCPU"}]
    report["funnel"] |= {"obstacle": obstacle, "would_fit": [{"words": "cn1 would fit"}]}
    page = ParsedPage(render_explanation_report(report, FLAVOR_REQUEST, HEADING, {}))
    assert ("The first number counts hosts" in page.text) == has_constraints


def test_explanation_report_loads_no_other_files_and_has_no_scripts():
    html = render_explanation_report(build_explanation(), FLAVOR_REQUEST, HEADING, {})
    page = ParsedPage(html)
    assert not {"script", "link", "iframe", "img", "object", "embed"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name in {"src", "href", "style"}]
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "url(" not in html
    assert "@import" not in html
    assert not re.findall(r"https?://", html)
    assert "default-src 'none'" in html


@pytest.mark.parametrize("name", MALICIOUS_NAMES)
def test_malicious_name_is_escaped_in_an_explanation_report(name):
    request = {"flavor": {"name": name, "vcpus": 1, "extra_specs": {name: name}}}
    request["project_id"] = name
    heading = Heading(title=name, source=name, created_at=HEADING.created_at, facts=[(name, name)])
    plain = ParsedPage(render_explanation_report(build_explanation(), FLAVOR_REQUEST, HEADING, {}))
    page = ParsedPage(
        render_explanation_report(build_explanation(name), request, heading, {AGGREGATE_UUID: name})
    )
    assert set(page.tags) <= set(plain.tags) | {"tr"}
    assert {name for name, _ in page.attributes} == {name for name, _ in plain.attributes}
    assert " ".join(name.split()) in page.text


def build_recorded_decision(**fields) -> dict:
    recorded = build_explanation()
    return {
        "uuid": AGGREGATE_UUID,
        "created_at": "2026-11-23T11:00:00",
        "kind": "select",
        "request_id": "req-1",
        "global_request_id": None,
        "request": FLAVOR_REQUEST,
        "best": recorded["hosts"],
        **{key: recorded[key] for key in ("outcome", "policy", "funnel", "selections")},
        **fields,
    }


def test_decision_report_shows_recorded_weights():
    amounts = {**build_weight(1.0, 8192.0), "detail": "leaves 4 VCPU"}
    best = [build_weighed_host("cn-heavy", 3.0, RAMWeigher=amounts)]
    report = render_decision_report(build_recorded_decision(best=best), HEADING, {})
    page = ParsedPage(report)
    assert "Best 1 of" in page.text
    assert "cn-heavy" in page.text
    assert 'title="leaves 4 VCPU"' in report


def test_decision_report_says_that_no_funnel_was_recorded():
    decision = build_recorded_decision(funnel=None, best=None, outcome="no_valid_host")
    page = ParsedPage(render_decision_report(decision, HEADING, {}))
    assert "No funnel is recorded with this decision" in page.text


def test_decision_report_shows_ids_and_recorded_data():
    page = ParsedPage(render_decision_report(build_recorded_decision(), HEADING, {}))
    assert AGGREGATE_UUID in page.text
    assert "req-1" in page.text
    assert "global request id" not in page.text
    assert "resources VCPU:2" in page.text


def build_capacity_response(name: str = "az1") -> dict:
    stops = [{"reason": "MEMORY_MB", "hosts": 1}, {"reason": name, "detail": name, "hosts": 2}]
    part = {"capacity": 640, "limited_by": stops, "stranded": {"VCPU": 12345}}
    return {**part, "capacity": 1874, "exact": True, "per": [{"name": name, **part}]}


def test_capacity_report_shows_zones_limiting_resources_and_stranded_amounts():
    page = ParsedPage(
        render_capacity_report(
            build_capacity_response(), {"request_spec": FLAVOR_REQUEST, "per": "zone"}, HEADING, {}
        )
    )
    for words in ("1,874 more fit", "Zone", "az1", "640", "1 host: MEMORY_MB", "12,345"):
        assert words in page.text
    assert not page.open


def test_capacity_report_marks_flavors_with_an_inexact_count():
    bound = {
        **build_capacity_response(),
        "exact": False,
        "inexact_because": ["the budget ended first"],
    }
    both = [{"flavor": "m1", **build_capacity_response()}, {"flavor": "m2", **bound}]
    page = ParsedPage(render_capacity_report({"flavors": both}, {"all_flavors": True}, HEADING, {}))
    assert "1,874 more fit: m1" in page.text
    assert "1,874 more fit, counted so far: m2" in page.text
    assert "m2 1,874 or more" in page.text
    assert "Not exact: the budget ended first" in page.text
    many = {"flavors": [*both, *both, *both]}
    page = ParsedPage(render_capacity_report(many, {"all_flavors": True}, HEADING, {}))
    assert "1,874 more fit: m1" not in page.text
    assert "m2: not exact: the budget ended first" in page.text
    assert not page.open
    nothing = ParsedPage(
        render_capacity_report({"flavors": []}, {"all_flavors": True}, HEADING, {})
    )
    assert "There is no stored flavor." in nothing.text


@pytest.mark.parametrize("name", MALICIOUS_NAMES)
def test_malicious_name_is_escaped_in_a_capacity_report(name):
    request = {"request_spec": {"flavor": name}, "per": "zone"}
    page = ParsedPage(render_capacity_report(build_capacity_response(name), request, HEADING, {}))
    plain = ParsedPage(render_capacity_report(build_capacity_response(), request, HEADING, {}))
    assert page.tags == plain.tags
    assert [name for name, _ in page.attributes] == [name for name, _ in plain.attributes]
