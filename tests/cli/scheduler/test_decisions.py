# SPDX-License-Identifier: Apache-2.0
"""``decisions``: list, show, replay and purge, on the database and over HTTP."""

import json
import os
import re
import signal
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from placement_sched.api.in_process import make_adapter
from placement_sched.cli.scheduler import decisions as commands
from placement_sched.cli.scheduler.decisions import iterate_new_decisions
from placement_sched.cli.scheduler.scheduler_client import SchedulerClient
from placement_sched.errors import ServiceFailed
from placement_sched.scheduler.claim import ClaimMode
from tests.cli.conftest import copy_filled_database
from tests.support.loopback import serve_application
from tests.support.program import start_program
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid
from tests.support.servers import build_environment, wait_until

pytestmark = pytest.mark.slow
EXHAUSTIVE_MARK = pytest.mark.exhaustive

REQUEST_ID = "req-0b6c1e52-93d7-4f0a-8f21-5a7d3c9e6b40"
UNKNOWN_UUID = "11111111-2222-4333-8444-555555555555"
SELECT_PATH = "/scheduler/v1/select_destinations"


@pytest.fixture(scope="module")
def sqlite_template(sqlite_template, tmp_path_factory):
    """Three hosts and three decisions: a claim, no claim, and no valid host."""
    return copy_filled_database(sqlite_template, tmp_path_factory.mktemp("cloud"), add_decisions)


def add_decisions(app):
    app.post_json("/scheduler/v1/compute_nodes", [make_report(f"cn{n}") for n in (1, 2, 3)])
    headers = {"X-Openstack-Request-Id": REQUEST_ID}
    body = {"request_spec": make_spec(make_uuid(1), ignore_hosts=["cn3"])}
    app.post_json(SELECT_PATH, body, headers=headers)
    body = {"request_spec": make_spec(make_uuid(2), project_id="p2"), "claim": False}
    app.post_json(SELECT_PATH, body)
    body = {"request_spec": make_spec(make_uuid(3), flavor=make_flavor(vcpus=99))}
    app.post_json(SELECT_PATH, body, status=409)


@pytest.fixture
def cloud(sqlite_app):
    return sqlite_app


@pytest.fixture
def run_cli(run_cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # enough for the expected words
    return partial(run_cli, "decisions")


def list_instances(run_cli, *arguments):
    status, printed, error = run_cli("list", "--format", "json", *arguments)
    assert (status, error) == (0, "")
    return [decision["instances"][0]["uuid"] for decision in json.loads(printed)["decisions"]]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], [3, 2, 1]),
        (["--outcome", "selected"], [2, 1]),
        (["--kind", "no_claim"], [2]),
        (["--policy", "default", "--flavor", "m1"], [3, 2, 1]),
        (["--stage", "resources VCPU"], [3]),
        (["--stage", "ComputeFilter"], []),
        (["--reason", "capacity"], [3]),
        (["--reason", "capacity:VCPU"], [3]),
        (["--reason", "capacity:MEMORY_MB"], []),
        (["--project", "p2"], [2]),
        (["--instance", make_uuid(1)], [1]),
        (["--request-id", REQUEST_ID], [1]),
        (["--host", "cn1"], [2, 1]),
        (["--outcome", "no-valid-host"], [3]),
        (["--kind", "no-claim"], [2]),
        (["--since", "1h"], [3, 2, 1]),
        (["--until", "1h"], []),
        (["--until", "2999-01-01"], [3, 2, 1]),
        (["--limit", "2"], [3, 2]),
        (["--rejected", "cn3"], [3, 1]),
    ],
)
def test_decision_list_applies_filters(run_cli, arguments, expected):
    assert list_instances(run_cli, *arguments) == [make_uuid(number) for number in expected]


def test_decision_list_has_columns_for_the_failed_stage_and_its_reason(run_cli):
    arguments = ("--stage", "resources VCPU", "--format", "value", "-c", "Stage", "-c", "Reason")
    assert run_cli("list", *arguments)[1].startswith("resources VCPU 3 hosts meet all constraints")
    printed = run_cli("list", "--format", "value", "-c", "Code")[1]
    assert printed.splitlines()[0] == "capacity:VCPU"


def test_decision_list_continues_after_a_marker(run_cli):
    document = json.loads(run_cli("list", "--format", "json", "--limit", "1")[1])
    assert document["next"] == document["decisions"][0]["uuid"]
    assert list_instances(run_cli, "--marker", document["next"], "--limit", "5") == [
        make_uuid(2),
        make_uuid(1),
    ]
    assert f"--marker {document['next']}" in run_cli("list", "--limit", "1")[1]


def test_decision_list_shows_outcome_request_and_hosts(run_cli):
    status, printed, _ = run_cli(
        "list", "-c", "decision", "-c", "hosts", "-c", "kind", "-c", "request"
    )
    lines = [" ".join(line.split()) for line in printed.splitlines()[2:]]
    assert status == 0
    assert ["no valid host select req-" in lines[0], "no_claim req-" in lines[1]] == [True, True]
    assert "cn1 select req-" in lines[2]


def test_decision_list_by_rejected_host_shows_reasons_and_counts_truncated_funnels(run_cli):
    """Decisions with a host recorded no rejections of the candidate search."""
    status, printed, _ = run_cli("list", "--rejected", "cn2")
    words = " ".join(printed.split())
    assert status == 0
    assert "allocation_candidates resources VCPU:99: VCPU: " in words
    assert words.endswith("3 decisions examined.")
    status, printed, error = run_cli("list", "--rejected", "cn9")
    words = " ".join(printed.split())
    assert words.startswith("no decision matches in sqlite:///")
    assert "3 decisions examined. For 2 of them, the recorded funnel does not show" in words
    assert (status, error.count("\n")) == (1, 1)
    assert error.startswith("placement-sched: --rejected: there is no host 'cn9'. Did you mean 'cn")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--flavor", "nope"), "--flavor: there is no flavor 'nope'. There are: m1, m2.stored"),
        (("--flavor", "m2.store"), "--flavor: there is no flavor 'm2.store'. Did you mean 'm2.st"),
        (("--policy", "Dense"), "--policy: there is no policy 'dense'. There are: default"),
        (("--host", "cn7"), "--host: there is no host 'cn7'. Did you mean 'cn1'?"),
        (
            ("--host", "x", "--policy", "x"),
            (
                "--policy: there is no policy 'x'. There are: default; "
                "--host: there is no host 'x'. There are: cn1, cn2, cn3"
            ),
        ),
    ],
)
@pytest.mark.parametrize(
    "command",
    [
        "list",
        pytest.param("list --format json", marks=EXHAUSTIVE_MARK),
        pytest.param("list --follow", marks=EXHAUSTIVE_MARK),
    ],
)
def test_unknown_name_in_a_decision_filter_is_reported(cloud, run_cli, command, arguments, message):
    document = {"name": "m2.stored", "vcpus": 1, "ram": 64, "disk": 1}
    cloud.post_json("/compute/v2.1/flavors", {"flavor": document})
    status, printed, error = run_cli(*command.split(), *arguments)
    assert status == 1
    assert error.startswith(f"placement-sched: {message}")
    if "json" in command:
        assert json.loads(printed)["decisions"] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("--project", "none"),
        ("--flavor", "m1", "--outcome", "selected", "--host", "cn3"),
        ("--flavor", "m1", "--until", "1h"),
    ],
)
def test_decision_list_without_a_match_names_the_database(run_cli, arguments):
    """No flavor m1 is stored, but decisions name it, as after a deletion."""
    status, printed, error = run_cli("list", *arguments)
    assert (status, error) == (0, "")
    assert re.fullmatch(r"no decision matches in sqlite:///.+\n", printed)


def test_api_list_of_decisions_with_an_unknown_flavor_is_empty_with_a_warning(cloud):
    response = cloud.get("/scheduler/v1/decisions?flavor=nope").json
    detail = "there is no flavor 'nope'. There are: m1"
    warnings = [{"key": "flavor", "detail": detail}]
    assert response == {"decisions": [], "links": [], "warnings": warnings}
    assert "warnings" not in cloud.get("/scheduler/v1/decisions?flavor=m1").json


def test_decision_list_of_an_empty_database_prints_a_message(run_cli):
    assert run_cli("purge", "--all")[0] == 0
    assert run_cli("list")[1].startswith("no decision matches in sqlite:///")
    status, _, error = run_cli("show", "--request-id", "req-9")
    assert status == 1
    assert "no decision of request id req-9 is recorded in sqlite:///" in error


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        (["list", "--marker", "x"], 1, "marker"),
        (["list", "--limit", "0"], 2, "--limit"),
        (["list", "--since", "today"], 2, "--since: 'today' is neither an age (30m, "),
        (["show", UNKNOWN_UUID], 1, UNKNOWN_UUID),
        (["show", "nonsense"], 1, "neither the uuid of a decision nor a request id"),
        (
            ["show", "--instance", UNKNOWN_UUID],
            1,
            f"no decision of instance {UNKNOWN_UUID} is recorded",
        ),
        (["replay", UNKNOWN_UUID], 1, UNKNOWN_UUID),
        (["replay", REQUEST_ID, "--settings", "tomorrow"], 2, "--settings"),
        (["show"], 2, "required"),
        (["purge"], 2, "required"),
        (["purge", "--older-than", "long ago"], 2, "--before: 'long ago' is neither an age (30m, "),
        (["watch", UNKNOWN_UUID], 1, f"No decision with uuid {UNKNOWN_UUID} found"),
        (["watch", "--instance", make_uuid(1)], 1, "selected a host: only a decision without a"),
        *(
            (["watch", UNKNOWN_UUID, "--interval", text], 2, f"such as 90s, 30m, 2h, not '{text}'")
            for text in ("0s", "5", "soon", "999999999w")
        ),
    ],
)
def test_invalid_argument_of_a_decision_command_is_reported(run_cli, arguments, status, reason):
    result, printed, error = run_cli(*arguments)
    assert (result, printed) == (status, "")
    assert reason in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("argument_kind", ["uuid", "request id", "flag", "instance"])
def test_decision_is_shown_by_uuid_request_id_or_instance(cloud, run_cli, argument_kind):
    (uuid,) = [
        decision["uuid"]
        for decision in cloud.get(f"/scheduler/v1/decisions?request_id={REQUEST_ID}").json[
            "decisions"
        ]
    ]
    arguments = {
        "uuid": [uuid],
        "request id": [REQUEST_ID],
        "flag": ["--request-id", REQUEST_ID],
        "instance": ["--instance", make_uuid(1)],
    }[argument_kind]
    status, printed, _ = run_cli("show", *arguments)
    words = " ".join(printed.split())
    assert status == 0
    assert uuid in words
    assert REQUEST_ID in words
    assert "2 hosts passed policy default" in words
    assert "Best 2 of 2" in words
    assert "Claimed" in words
    assert json.loads(run_cli("show", *arguments, "--format", "json")[1])["uuid"] == uuid


def test_decision_show_explains_a_failed_request_and_writes_html(run_cli, tmp_path):
    report = tmp_path / "decision.html"
    status, printed, _ = run_cli("show", "--instance", make_uuid(3), "--html", str(report))
    words = " ".join(printed.split())
    assert status == 0
    assert "No valid host 3 hosts meet all constraints but resources VCPU:99" in words
    assert "99 requested" in words
    assert "<h1>Decision " in report.read_text()
    assert "resources VCPU:99" in report.read_text()


def test_decision_show_of_a_truncated_funnel_prints_host_counts(cloud, run_cli, tmp_path):
    database = cloud.app.services.database
    outline = {
        "request_filters": [{"name": "f", "applied": True, "elapsed_ms": 1.0}],
        "allocation_candidates": {
            "query": "q",
            "providers": 3,
            "hosts": 0,
            "steps": [{"constraint": "resources", "before": 3, "after": 0}],
        },
        "filters": [{"name": "F", "before": 0, "after": 0}],
        "weighers": [],
        "outline": True,
    }
    statement = "UPDATE sched_decisions SET funnel = ? WHERE outcome = 'no_valid_host'"
    text = (json.dumps(outline),)
    database.write(lambda connection: connection.exec_driver_sql(statement, text))
    report = tmp_path / "decision.html"
    status, printed, _ = run_cli("show", "--instance", make_uuid(3), "--html", str(report))
    assert status == 0
    assert "3 removed" in printed
    assert "3 hosts removed" in report.read_text()
    reason = "3 hosts meet all constraints but resources VCPU:99"
    assert f"No valid host  {reason}" in printed
    assert reason in report.read_text()


def test_decision_replay_shows_differences_side_by_side(cloud, run_cli):
    decision = cloud.get(f"/scheduler/v1/decisions?request_id={REQUEST_ID}").json["decisions"][0]
    host = decision["instances"][0]["host"]
    cloud.put_json("/compute/v2.1/os-services/disable", {"host": host, "binary": "nova-compute"})
    status, printed, _ = run_cli("replay", REQUEST_ID)
    words = " ".join(printed.split())
    assert status == 0
    assert f"host of instance {make_uuid(1)} {host}" in words
    assert "then now" in words
    assert f"{host}: allocation_candidates root_required" in words
    document = json.loads(
        run_cli("replay", REQUEST_ID, "--settings", "then", "--format", "json")[1]
    )
    differences = {row["what"] for row in document["differences"]}
    assert differences >= {"hosts found", "first hosts"}


def test_decision_replay_without_changes_reports_no_difference(run_cli):
    status, printed, _ = run_cli("replay", "--instance", make_uuid(2), "--settings", "then")
    assert status == 0
    assert printed.endswith("nothing differs\n")


def test_explain_keep_option_records_a_decision_with_the_overridden_options(run_cli, run_main):
    override = ("--override", "filter_scheduler.ram_weight_multiplier=-1.0")
    printed = run_main("explain", "--vcpus", "2", "--keep", *override)[1]
    uuid = printed.split("Recorded as decision ")[1].split()[0]
    status, printed, _ = run_cli("show", uuid)
    assert status == 0
    assert "explain, made" in printed
    assert "filter_scheduler.ram_weight_multiplier = -1" in printed
    assert "Selected, not claimed" in printed


@pytest.mark.parametrize(
    ("options", "remaining"),
    [
        (("--kind", "no_claim"), [3, 1]),
        (("--outcome", "no_valid_host"), [2, 1]),
        (("--outcome", "selected", "--kind", "select"), [3, 2]),
        ((), []),
    ],
)
def test_decision_purge_deletes_only_the_selected_kind_and_outcome(run_cli, options, remaining):
    status, printed, _ = run_cli("purge", "--all", "--format", "json", *options)
    document = json.loads(printed)
    assert (status, document["decisions"], document["dry_run"]) == (0, 3 - len(remaining), False)
    assert list_instances(run_cli) == [make_uuid(number) for number in remaining]


def test_decision_purge_deletes_only_decisions_older_than_the_given_age(run_cli):
    status, printed, _ = run_cli("purge", "--older-than", "1h")
    assert (status, printed.split()[:2]) == (0, ["0", "decisions"])
    assert len(list_instances(run_cli)) == 3


def test_decision_replay_under_recorded_settings_ignores_current_settings(run_cli, monkeypatch):
    monkeypatch.setenv("OS_FILTER_SCHEDULER__RAM_WEIGHT_MULTIPLIER", "-1.0")
    name = "option filter_scheduler.ram_weight_multiplier"

    def replay_decision_and_list_changed_fields(settings):
        arguments = ("replay", "--instance", make_uuid(2), "--settings", settings)
        differences = json.loads(run_cli(*arguments, "--format", "json")[1])["differences"]
        return {difference["what"] for difference in differences}

    assert name in replay_decision_and_list_changed_fields("now")
    assert replay_decision_and_list_changed_fields("then") == set()


def test_decision_purge_dry_run_prints_the_count_and_deletes_nothing(run_cli):
    status, printed, _ = run_cli("purge", "--all", "--dry-run", "--project", "p2")
    assert (status, printed.split()[:2]) == (0, ["1", "decision"])
    later = (datetime.now() + timedelta(days=2)).date().isoformat()  # noqa: DTZ005 - any later day
    arguments = ("purge", "--before", later, "--format", "json")
    status, printed, _ = run_cli(*arguments, "--project", "p2", "--dry-run")
    assert json.loads(printed)["decisions"] == 1
    assert len(list_instances(run_cli)) == 3
    status, printed, _ = run_cli(*arguments, "--project", "p2")
    assert json.loads(printed)["decisions"] == 1
    assert list_instances(run_cli) == [make_uuid(3), make_uuid(1)]
    assert run_cli("purge", "--before", later)[1].startswith("2 decisions made before")
    assert list_instances(run_cli) == []


def test_followed_decision_list_yields_each_new_decision_once(cloud):
    scheduler = cloud.app.services.scheduler
    client = SchedulerClient(make_adapter(cloud.app))
    batches = iterate_new_decisions(client, {}, client.get("decisions", query={})["decisions"])
    assert next(batches) == []
    for number in (4, 5):
        scheduler.select_destinations(make_spec(make_uuid(number)), claiming=ClaimMode.NONE)
    uuids = [decision["instances"][0]["uuid"] for decision in next(batches)]
    assert uuids == [make_uuid(5), make_uuid(4)]
    assert next(batches) == []


def test_followed_decision_list_without_a_match_starts_empty(cloud):
    scheduler = cloud.app.services.scheduler
    client = SchedulerClient(make_adapter(cloud.app))
    batches = iterate_new_decisions(client, {"project_id": "p3"}, [])
    assert next(batches) == []
    scheduler.select_destinations(make_spec(make_uuid(4)), claiming=ClaimMode.NONE)
    scheduler.select_destinations(make_spec(make_uuid(5), project_id="p3"), claiming=ClaimMode.NONE)
    assert [decision["instances"][0]["uuid"] for decision in next(batches)] == [make_uuid(5)]


@pytest.mark.parametrize("command", ["list", "show", "replay"])
def test_decisions_are_read_from_the_server_url(cloud, run_cli, command):
    arguments = ["--limit", "2"] if command == "list" else [REQUEST_ID]
    with serve_application(cloud.app) as url:
        status, printed, _ = run_cli(command, *arguments, "--url", url, "--format", "json")
    assert status == 0
    direct = json.loads(run_cli(command, *arguments, "--format", "json")[1])
    remote = json.loads(printed)
    if command == "replay":
        assert (remote["then"], remote["differences"]) == (direct["then"], direct["differences"])
    else:
        assert remote == direct


@pytest.mark.parametrize(
    "form",
    [
        "json",
        pytest.param("table", marks=EXHAUSTIVE_MARK),
        pytest.param("csv", marks=EXHAUSTIVE_MARK),
    ],
)
def test_followed_decision_list_ends_on_sigint(cloud, sqlite_url, tmp_path, form):
    out, err = tmp_path / "out", tmp_path / "err"
    variables = build_environment(OS_PLACEMENT_DATABASE__CONNECTION=sqlite_url)
    arguments = ["decision", "list", "--follow", "--limit", "1", "--format", form]
    with Path(os.devnull).open() as stdin, out.open("w") as stdout, err.open("w") as stderr:
        streams = [stdin, stdout, stderr]
        process = start_program(arguments, cwd=tmp_path, env=variables, streams=streams)
        try:
            header = form == "csv"
            assert wait_until(lambda: len(out.read_text().splitlines()) == 1 + header)
            cloud.app.services.scheduler.select_destinations(make_spec(make_uuid(4)))
            assert wait_until(lambda: len(out.read_text().splitlines()) == 2 + header)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        finally:
            process.kill()
    first, second = out.read_text().splitlines()[-2:]
    assert make_uuid(3) in first
    assert make_uuid(4) in second
    assert err.read_text() == ""
    if form == "json":
        assert json.loads(second)["outcome"] == "selected"


def find_uuid_of_failed_decision(cloud):
    return cloud.get("/scheduler/v1/decisions?outcome=no_valid_host").json["decisions"][0]["uuid"]


def test_decision_watch_ends_when_a_host_becomes_valid_for_the_request(cloud, run_cli, monkeypatch):
    uuid, pauses = find_uuid_of_failed_decision(cloud), []

    def add_large_host_at_second_sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 2:
            cloud.post_json("/scheduler/v1/compute_nodes", [make_report("cn7", vcpus=99)])

    monkeypatch.setattr(commands, "sleep", add_large_host_at_second_sleep)
    status, printed, error = run_cli("watch", uuid, "--interval", "30s")
    first, last = printed.splitlines()
    assert (status, error, last) == (0, "", "fits now on cn7")
    assert first.startswith("does not fit: 3 hosts meet all constraints but resources VCPU:99")
    assert pauses == [30.0, 30.0]
    status, printed, _ = run_cli("watch", "--instance", make_uuid(3), "-f", "json")
    assert (status, json.loads(printed)) == (0, {"decision": uuid, "fits": True, "hosts": ["cn7"]})
    assert len(cloud.get("/scheduler/v1/decisions").json["decisions"]) == 3


def test_decision_watch_of_one_of_several_requests_sent_together_is_an_error(cloud, run_cli):
    requests = [
        {"request_spec": make_spec(make_uuid(7), flavor=make_flavor())},
        {"request_spec": make_spec(make_uuid(8), flavor=make_flavor(vcpus=99))},
    ]
    path = "/scheduler/v1/select_destinations"
    response = cloud.post_json(path, {"requests": requests}, status=409).json
    status, _, error = run_cli("watch", response["errors"][0]["decision"])
    assert status == 1
    assert "were sent together" in error


def test_decision_watch_ends_after_the_maximum_wait(cloud, run_cli, monkeypatch):
    clock = iter([0.0, 0.0, 60.0, 90.0])
    pauses = []
    monkeypatch.setattr(commands, "monotonic", lambda: next(clock))
    monkeypatch.setattr(commands, "sleep", pauses.append)
    status, printed, _ = run_cli(
        "watch", find_uuid_of_failed_decision(cloud), "--max-wait", "90s", "-f", "json"
    )
    assert status == 3
    assert json.loads(printed)["fits"] is False
    assert pauses == [60.0, 30.0]


def test_decision_watch_continues_after_a_failed_replay(cloud, run_cli, monkeypatch):
    post, calls = SchedulerClient.post, []

    def replay_decision_or_raise(scheduler, *path, body):
        calls.append(path)
        if len(calls) == 2:
            cloud.post_json("/scheduler/v1/compute_nodes", [make_report("cn7", vcpus=99)])
            raise ServiceFailed("http://cloud does not answer")
        return post(scheduler, *path, body=body)

    monkeypatch.setattr(commands, "sleep", lambda _seconds: None)
    monkeypatch.setattr(SchedulerClient, "post", replay_decision_or_raise)
    status, printed, _ = run_cli("watch", find_uuid_of_failed_decision(cloud))
    assert status == 0
    assert printed.splitlines()[1:] == [
        "does not fit: http://cloud does not answer",
        "fits now on cn7",
    ]
