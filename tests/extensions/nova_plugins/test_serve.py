# SPDX-License-Identifier: Apache-2.0
"""A server with plugins that import nova."""

import pytest

from tests.cli.conftest import serve as serve  # noqa: PLC0414 - a fixture
from tests.support.scheduling import make_report, make_spec

pytestmark = pytest.mark.system


def test_missing_name_that_a_plugin_hides_is_logged_by_a_server(serve, tmp_path):
    (tmp_path / "acme_hides.py").write_text(
        "from nova import objects\n"
        "from nova.scheduler import filters\n\n\n"
        "class Filter(filters.BaseHostFilter):\n"
        "    def host_passes(self, host_state, spec_obj):\n"
        "        return getattr(objects, 'InstanceActionList', None) is None\n"
    )
    (tmp_path / "a.conf").write_text(
        "[filter_scheduler]\nnova_shim = true\navailable_filters = acme_hides.Filter\n"
        "enabled_filters = Filter\n"
    )
    server = serve("--config-file", "a.conf", PYTHONPATH=str(tmp_path))
    name = "nova.objects.InstanceActionList is not provided here"
    place = f"{tmp_path}/acme_hides.py:7: {name}"
    assert f"config_check [-] plugin: {place}" in server.log.read_text()
    server.send("POST", "/scheduler/v1/compute_nodes", [make_report("cn1")])
    for _ in range(2):
        server.send("POST", "/scheduler/v1/select_destinations", {"request_spec": make_spec()})
    (line,) = [each for each in server.read_log_lines() if f" {place}" in each and "req-" in each]
    assert " WARNING " in line
