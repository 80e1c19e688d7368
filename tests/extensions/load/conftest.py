# SPDX-License-Identifier: Apache-2.0
"""A Prometheus server with recorded responses, and settings that name it."""

import pytest

from tests.cli.conftest import run_cli as run_cli  # noqa: PLC0414 - a fixture
from tests.cli.conftest import run_main as run_main  # noqa: PLC0414 - a fixture
from tests.extensions.load.fake_prometheus import FakePrometheus
from tests.support.loopback import run_fake_service


@pytest.fixture
def prometheus():
    service = FakePrometheus()
    with run_fake_service(service):
        yield service


@pytest.fixture
def with_load(prometheus):
    """Return a function that adds options of [load] to settings."""

    def add(settings, **options):
        values = {"prometheus_url": prometheus.url, "host_queries": ["cpu: cpu"], **options}
        return settings.with_overrides({f"load.{name}": each for name, each in values.items()})

    return add
