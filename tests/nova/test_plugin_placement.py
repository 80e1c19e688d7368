# SPDX-License-Identifier: Apache-2.0
"""Reads of the Placement API by plugins in nova-scheduler and nova-shadow."""

import multiprocessing
from contextlib import closing

import pytest

from placement_sched.app import provide_placement
from placement_sched.extensions.nova_plugins import report_client
from placement_sched.extensions.shadow.service import Shadow
from placement_sched.nova.message_bus import read_transport
from placement_sched.nova.service import Hooks, SharedState, Worker
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


def test_plugins_of_nova_shadow_read_the_placement_api(settings):
    shadow = Shadow(settings, read_transport((), RABBIT_URL), provide_placement=provide_placement)
    with closing(shadow.follower):
        assert read_provider_names() == []
    shadow.database.dispose()


def test_plugins_of_nova_scheduler_read_the_placement_api(settings):
    listening = multiprocessing.RawArray("b", 1)
    live = LiveSettings(settings, in_use=tuple)
    shared = SharedState(live, Hooks(lambda _context: None, provide_placement), listening)
    worker = Worker(0, shared)
    assert read_provider_names() == []
    worker.terminate()
