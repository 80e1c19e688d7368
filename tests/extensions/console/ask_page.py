# SPDX-License-Identifier: Apache-2.0
"""Three hosts for tests of the Ask page."""

import pytest
from webtest import TestApp

from tests.support.scheduling import make_report

ASK_PATH = "/console/ask"
ASK_URL = f"{ASK_PATH}?vcpus=2&ram=4096&disk=20"
RAM_WEIGHT = "filter_scheduler.ram_weight_multiplier"


def build_host_reports(count: int = 3) -> list[dict]:
    return [make_report(f"cn{one}", memory_mb=65536 * one) for one in range(1, count + 1)]


@pytest.fixture(scope="module")
def cloud_app(build_shared_app):
    """Three hosts with increasing amounts of memory, which no test changes."""
    app = build_shared_app()
    app.post_json("/scheduler/v1/compute_nodes", build_host_reports())
    return app


@pytest.fixture
def browser(cloud_app):
    return TestApp(cloud_app.app)
