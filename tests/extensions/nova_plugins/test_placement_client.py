# SPDX-License-Identifier: Apache-2.0
"""Reads of the Placement API by plugins in nova-scheduler."""

import multiprocessing

import pytest

from placement_sched.extensions.nova_plugins import report_client
from placement_sched.nova.service import SharedState, Worker
from placement_sched.scheduler.live_settings import LiveSettings
from tests.support.states import read_settings_text

RABBIT_URL = "rabbit://guest:guest@127.0.0.1:1/"


@pytest.fixture
def settings(sqlite_url, monkeypatch, tmp_path):
    monkeypatch.setattr(report_client._Placement, "get", None)
    return read_settings_text(
        tmp_path,
        f"""
[DEFAULT]
transport_url = {RABBIT_URL}
[api_database]
connection = sqlite://
[database]
connection = sqlite://
[placement_database]
connection = {sqlite_url}
[placement]
providers_in_memory = false
""",
    ).with_overrides({"filter_scheduler.nova_shim": True})


def read_provider_names():
    response = report_client.report_client_singleton().get("/resource_providers")
    return [provider["name"] for provider in response.json()["resource_providers"]]


def test_plugins_of_nova_scheduler_read_the_placement_api(settings):
    listening = multiprocessing.RawArray("b", 1)
    live = LiveSettings(settings, in_use=tuple)
    shared = SharedState(live, lambda _context: None, listening)
    worker = Worker(0, shared)
    assert read_provider_names() == []
    worker.terminate()
