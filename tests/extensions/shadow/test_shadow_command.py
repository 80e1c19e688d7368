# SPDX-License-Identifier: Apache-2.0
"""``nova-shadow`` with missing settings, and its report."""

import json
from datetime import datetime

import pytest

from placement_sched.db.transaction import Database
from placement_sched.extensions.shadow import store
from placement_sched.model import shadow_result
from placement_sched.model.context import RequestIds
from placement_sched.model.decision import SHADOW, Decision
from placement_sched.model.shadow_result import ShadowResult
from placement_sched.store import decisions
from tests.conftest import make_settings
from tests.support import program
from tests.support.scheduling import make_uuid
from tests.support.servers import build_environment

pytestmark = pytest.mark.slow

NOVA_CONF = "[api_database]\nconnection = sqlite:///nova_api.db\n"
MESSAGE_BUS_CONF = "[DEFAULT]\ntransport_url = rabbit://u:s3cret@mq/\n"
PLACEMENT_CONF = "[placement_database]\nconnection = sqlite:///sched.db\n"


@pytest.fixture
def run_with_conf(tmp_path):
    """Return a function that runs a command with a configuration file of these lines."""

    def run_with_conf_text(lines, *arguments):
        file = tmp_path / "nova.conf"
        file.write_text(lines)
        command = (*arguments, "--config-file", str(file))
        return program.run_program(*command, cwd=tmp_path, env=build_environment())

    return run_with_conf_text


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (MESSAGE_BUS_CONF + PLACEMENT_CONF, "[api_database] connection is not set"),
        (MESSAGE_BUS_CONF + NOVA_CONF, "[placement_database] connection is not set"),
        (NOVA_CONF + PLACEMENT_CONF, "[DEFAULT] transport_url is not set"),
        (
            NOVA_CONF + PLACEMENT_CONF + "[DEFAULT]\ntransport_url = kafka://u:s3cret@mq/\n",
            "[DEFAULT] transport_url: kafka is not RabbitMQ",
        ),
    ],
)
def test_missing_setting_of_nova_shadow_is_reported_in_one_line(run_with_conf, lines, message):
    done = run_with_conf(lines, "nova-shadow")
    assert done.returncode == 1
    assert done.stderr.startswith(f"placement-sched: {message}")
    assert len(done.stderr.splitlines()) == 1
    assert "s3cret" not in done.stderr


SHADOW_RESULT_TIME = datetime(2026, 11, 22, 12, 0, 0)


@pytest.fixture
def shadow_conf(sqlite_url):
    """A configuration file whose database has a single disagreement."""
    database = Database(make_settings(sqlite_url))
    decision = Decision(
        uuid="d1",
        outcome="selected",
        project_id="p",
        digest="d",
        request={},
        result={"selections": []},
        request_ids=RequestIds("req-1"),
        kind=SHADOW,
    )
    result = ShadowResult(
        decision="d1",
        position=0,
        instance=make_uuid(1),
        verdict=shadow_result.OTHER_HOST,
        our_host="cn1",
        nova_host="cn2",
        detail={"why": "cn2 weighs less"},
    )

    def write_rows(connection):
        decisions.record(connection, decision, SHADOW_RESULT_TIME)
        store.record(connection, [result], SHADOW_RESULT_TIME)

    database.write(write_rows)
    database.dispose()
    return f"[placement_database]\nconnection = {sqlite_url}\n"


def test_shadow_report_lists_each_disagreement(run_with_conf, shadow_conf):
    done = run_with_conf(shadow_conf, "nova-shadow", "report")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "1 request for 1 instance"
    assert "  cn2 weighs less" in lines


def test_shadow_report_is_printed_as_json(run_with_conf, shadow_conf):
    report = json.loads(
        run_with_conf(shadow_conf, "nova-shadow", "report", "--format", "json").stdout
    )
    assert (report["agreement"], report["verdicts"]) == (0.0, {"other_host": 1})
    (row,) = report["disagreements"]
    assert (row["our_host"], row["nova_host"], row["request_id"]) == ("cn1", "cn2", "req-1")


@pytest.mark.parametrize(
    ("since", "requests"), [("2026-11-22T12:00:01Z", 0), ("2026-11-22T12:00:00Z", 1), ("9999d", 1)]
)
def test_shadow_report_counts_requests_since_the_given_time(
    run_with_conf, shadow_conf, since, requests
):
    done = run_with_conf(shadow_conf, "nova-shadow", "report", "--format", "json", "--since", since)
    assert json.loads(done.stdout)["requests"] == requests


@pytest.mark.parametrize("since", ["yesterday", "9999999999999d"])
def test_invalid_since_option_of_shadow_report_is_an_error(run_with_conf, shadow_conf, since):
    done = run_with_conf(shadow_conf, "nova-shadow", "report", "--since", since)
    assert done.returncode == 2
    assert done.stderr.startswith("placement-sched: ")
    assert "--since" in done.stderr
    assert len(done.stderr.splitlines()) == 1
