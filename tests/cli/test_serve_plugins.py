# SPDX-License-Identifier: Apache-2.0
"""A server with third-party plugins that fail at the start or in a request."""

import re

import pytest

from tests.support.scheduling import make_report, make_spec

pytestmark = pytest.mark.system

FAILING_PLUGINS_TEXT = """
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.request_filters import BaseRequestFilter
from placement_sched.scheduler.weights import BaseHostWeigher


def fail(spec_obj):
    how = spec_obj.get_scheduler_hint("how")
    if how == "leave":
        raise SystemExit(3)
    if how == "recurse":
        fail(spec_obj)
    if how:
        raise {"key": KeyError, "value": ValueError}[how]("failure\\nin two lines")


class Filter(BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        if spec_obj.get_scheduler_hint("who") == "filter":
            fail(spec_obj)
        return True


class Weigher(BaseHostWeigher):
    def _weigh_object(self, host_state, spec_obj):
        if spec_obj.get_scheduler_hint("who") == "weigher":
            fail(spec_obj)
        return 1.0


class Request(BaseRequestFilter):
    name = "request"

    def apply(self, spec, world):
        if spec.get_scheduler_hint("who") == "request":
            fail(spec)
        return None
"""
#: Appended to PLUGINS: the filter can be created in the main process, but not in its workers.
FAILING_FILTER_OF_WORKERS_TEXT = """
import os

IMPORTED_BY = os.getpid()


class Filter(BaseHostFilter):
    def __init__(self):
        if os.getpid() != IMPORTED_BY:
            raise RuntimeError("no licence for this process")
"""
PLUGINS_CONF = """
[scheduler]
request_filters = acme_raises.Request
[filter_scheduler]
available_filters = acme_raises.Filter
enabled_filters = Filter
weight_classes = acme_raises.Weigher
"""


def test_failing_plugin_is_reported_and_the_server_continues(serve, tmp_path):
    (tmp_path / "acme_raises.py").write_text(FAILING_PLUGINS_TEXT)
    (tmp_path / "a.conf").write_text(PLUGINS_CONF)
    server = serve("--config-file", "a.conf", PYTHONPATH=str(tmp_path))
    server.send("POST", "/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
    for who, name in (("request", "Request"), ("filter", "Filter"), ("weigher", "Weigher")):
        for how, words in (
            ("key", "KeyError"),
            ("value", "ValueError: failure in two lines"),
            ("recurse", "RecursionError"),
            ("leave", "SystemExit: 3"),
        ):
            request_spec = make_spec(scheduler_hints={"who": who, "how": how})
            for path in ("select_destinations", "explain"):
                body = {"request_spec": request_spec}
                status, response = server.send("POST", f"/scheduler/v1/{path}", body)
                (error,) = response["errors"]
                assert (status, error["code"]) == (500, "scheduler.filter_error")
                assert f"acme_raises.{name} failed: {words}" in error["detail"]
    status, response = server.send(
        "POST", "/scheduler/v1/select_destinations", {"request_spec": make_spec()}
    )
    assert status == 200
    assert response["selections"][0][0]["service_host"] == "cn1"
    assert server.process.poll() is None
    assert "Unexpected exit" not in server.log.read_text()


def test_server_stops_with_the_reason_if_workers_cannot_start(serve, tmp_path):
    (tmp_path / "acme_raises.py").write_text(FAILING_PLUGINS_TEXT + FAILING_FILTER_OF_WORKERS_TEXT)
    (tmp_path / "a.conf").write_text(PLUGINS_CONF)
    server = serve("--config-file", "a.conf", PYTHONPATH=str(tmp_path), ready=None)
    assert server.process.wait(timeout=60) == 1
    log = server.log.read_text()
    assert len(re.findall("Unexpected exit from worker-1", log)) == 2
    assert "stopping: a worker cannot start" in log
    assert "no licence for this process" in log


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[filter_scheduler]\nenabled_filters = Computfilter\n", "Did you mean 'ComputeFilter'?"),
        ("[neutron]\nauth_type = password\n", "[neutron]: Auth plugin requires parameters"),
    ],
    ids=["filter", "neutron"],
)
def test_server_checks_plugins_before_workers_start(run_command, tmp_path, text, words):
    (tmp_path / "a.conf").write_text(text)
    refused = run_command("serve", "--port", "0", "--config-file", "a.conf")
    assert refused.returncode == 1
    assert refused.stdout == ""
    (line,) = refused.stderr.splitlines()
    assert words in line


def test_server_starts_with_a_wrong_pci_alias_as_nova_scheduler_does(serve, tmp_path):
    (tmp_path / "a.conf").write_text('[pci]\nalias = {"name": "x"}\n')
    server = serve("--config-file", "a.conf")
    assert "[pci] alias 'x': " in server.log.read_text()
