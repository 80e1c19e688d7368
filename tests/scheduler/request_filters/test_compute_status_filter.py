# SPDX-License-Identifier: Apache-2.0
"""compute_status_filter: disabled hosts are no candidates."""

from placement_sched.scheduler.request_filters.root_traits import ComputeStatusFilter
from tests.scheduler.explained import explained, put_hosts
from tests.scheduler.worlds import applied
from tests.support.scheduling import spec
from tests.support.states import a_spec, settings_with

DISABLED = "COMPUTE_STATUS_DISABLED"
NEWEST = {"OpenStack-API-Version": "compute 2.96"}


def test_every_request_keeps_away_from_disabled_hosts():
    outcome = applied(ComputeStatusFilter, a_spec())
    assert outcome.spec.root_forbidden == {DISABLED}
    assert outcome.changes == {"root_forbidden": [DISABLED]}


def test_traits_that_the_request_forbids_itself_stay_forbidden():
    asked = a_spec(request_level_params={"root_forbidden": ["CUSTOM_OLD"]})
    outcome = applied(ComputeStatusFilter, asked)
    assert outcome.spec.root_forbidden == {DISABLED, "CUSTOM_OLD"}
    assert outcome.changes == {"root_forbidden": [DISABLED]}


def test_request_that_says_so_itself_is_not_changed():
    asked = a_spec(request_level_params={"root_forbidden": [DISABLED]})
    outcome = applied(ComputeStatusFilter, asked)
    assert (outcome.spec, outcome.changes) == (asked, {})


def test_filter_is_always_on():
    assert ComputeStatusFilter().enabled(settings_with())


def disable(app, host):
    services = app.get(f"/compute/v2.1/os-services?host={host}", headers=NEWEST).json["services"]
    address = f"/compute/v2.1/os-services/{services[0]['id']}"
    app.put_json(address, {"status": "disabled"}, headers=NEWEST)


def test_disabled_host_is_refused_by_the_question(app):
    put_hosts(app, cn1=[], cn2=[])
    disable(app, "cn1")
    told = explained(app, spec())
    assert told.told_by("compute_status_filter") == {
        "applied": True,
        "changes": {"root_forbidden": [DISABLED]},
    }
    assert told.query["root_required"] == [f"!{DISABLED}"]
    assert told.hosts == ["cn2"]
    steps = told.answer["funnel"]["allocation_candidates"]["steps"]
    (step,) = (step for step in steps if step["rejected"])
    assert [one["host"] for one in step["rejected"]] == ["cn1"]


def test_request_that_wants_disabled_hosts_is_refused_naming_both(sqlite_app):
    put_hosts(sqlite_app, cn1=[])
    asked = spec(request_level_params={"root_required": [DISABLED]})
    answer = sqlite_app.post_json("/scheduler/v1/explain", {"request_spec": asked}, status=400)
    (error,) = answer.json["errors"]
    assert "request_level_params.root_required" in error["detail"]
    assert "request filter compute_status_filter" in error["detail"]
