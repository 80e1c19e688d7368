# SPDX-License-Identifier: Apache-2.0
"""``nova-scheduler`` and ``nova-shadow`` with wrong URLs."""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from tests.nova.cloud.rabbitmq import RabbitMQ, run_private_rabbitmq
from tests.nova.scheduling import (
    NovaDeployment,
    open_nova_deployment_with_two_hosts,
    wait_until_true,
)
from tests.support import program
from tests.support.servers import build_environment

pytestmark = pytest.mark.slow

SERVICES = (["nova-scheduler", "--workers", "2"], ["nova-shadow"])
#: Seconds for repeated attempts of a service.
_WATCHED_SECONDS = 4.0


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory) -> Iterator[RabbitMQ]:
    with run_private_rabbitmq(tmp_path_factory.mktemp("bus") / "rabbitmq") as own:
        own.wait_until_ready()
        yield own


@pytest.fixture
def deployment(tmp_path, rabbitmq, sqlite_template) -> Iterator[NovaDeployment]:
    with open_nova_deployment_with_two_hosts(tmp_path, rabbitmq.url, sqlite_template) as opened:
        yield opened


@contextmanager
def run_service(words: list[str], file: Path) -> Iterator[tuple[object, Path]]:
    """Yield the process of a service and the file with its output."""
    log = file.with_suffix(".log")
    with ExitStack() as stack:
        output = stack.enter_context(log.open("w"))
        nothing = stack.enter_context(Path(os.devnull).open())
        process = program.start_program(
            [words[0], "--config-file", file, *words[1:]],
            cwd=file.parent,
            env=build_environment(),
            streams=[nothing, output, output],
        )
        stack.callback(process.wait, timeout=60)
        stack.callback(process.terminate)
        yield process, log


@pytest.mark.parametrize("words", SERVICES, ids=["scheduler", "shadow"])
@pytest.mark.parametrize(
    ("password", "virtual_host", "reason"),
    [("wrong", "", "ACCESS_REFUSED"), ("guest", "nosuch", "vhost nosuch not found")],
)
def test_rejected_user_or_virtual_host_is_logged_once_and_tried_again(
    deployment, rabbitmq, words, password, virtual_host, reason
):
    url = rabbitmq.url.replace("guest:guest", f"guest:{password}") + virtual_host
    file = deployment.write_configuration("ctl1", DEFAULT__transport_url=url)
    with run_service(words, file) as (process, log):
        wait_until_true(lambda: reason in log.read_text())
        time.sleep(_WATCHED_SECONDS)
        text = log.read_text()
        assert process.poll() is None
    assert text.count(reason) == 1
    assert "Traceback" not in text
    assert " ended (" not in text
    assert "guest:wrong" not in text


@pytest.mark.exhaustive
@pytest.mark.parametrize("words", SERVICES, ids=["scheduler", "shadow"])
@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ({"username": "nobody", "password": "wrong"}, "rejects the user"),
        ({"database": "ps_absent"}, "does not exist"),
    ],
)
@pytest.mark.parametrize("option", ["api_database__connection", "placement_database__connection"])
def test_wrong_database_url_is_logged_without_a_traceback(
    deployment, mysql_server, words, option, part, reason
):
    url = make_url(mysql_server).set(**part)
    file = deployment.write_configuration(
        "ctl1", **{option: url.render_as_string(hide_password=False)}
    )
    with run_service(words, file) as (process, log):
        wait_until_true(lambda: reason in log.read_text())
        time.sleep(_WATCHED_SECONDS)
        text = log.read_text()
        assert process.poll() is None
    assert "Traceback" not in text
    assert " ended (" not in text
    assert "wrong" not in text
    assert text.count(reason) <= 4  # once for each process
