# SPDX-License-Identifier: Apache-2.0
"""Packages can add attributes to hosts, which only third-party plugins read."""

import pytest

from placement_sched.errors import ConfigurationError
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.host_state import set_host_attributes
from tests.conftest import make_settings
from tests.support.scheduling import make_report, make_spec
from tests.support.states import build_host_state, read_settings_text

HOSTS_OF_ATTRIBUTE_READS = []


class PatchedHostFilter(BaseHostFilter):
    """Passes hosts by an added attribute."""

    def host_passes(self, host_state, spec_obj):
        return host_state.is_patched and "COMPUTE_NODE" not in host_state.traits


def read_host_attributes(host_state, traits):
    HOSTS_OF_ATTRIBUTE_READS.append(host_state.host)
    return {"is_patched": host_state.stats.get("patched") == "yes", "traits": traits, "host": "no"}


@pytest.fixture
def registered_host_attributes(install_package, tmp_path):
    """Use the function of an entry point."""
    install_package(f"[placement_sched.host_attributes]\nacme = {__name__}:read_host_attributes\n")
    read_settings_text(tmp_path, "")
    HOSTS_OF_ATTRIBUTE_READS.clear()
    yield
    set_host_attributes([])


def build_app_with_patched_host(make_app, url, **options):
    names = {f"filter_scheduler__{name}": value for name, value in options.items()}
    app = make_app(make_settings(url, **names))
    patched = make_report("cn1", stats={"patched": "yes"})
    app.post_json("/scheduler/v1/compute_nodes", [patched, make_report("cn2")])
    return app


def test_plugin_reads_host_attributes(registered_host_attributes, make_app, sqlite_url):
    path = f"{__name__}.PatchedHostFilter"
    app = build_app_with_patched_host(
        make_app, sqlite_url, available_filters=[path], enabled_filters=["PatchedHostFilter"]
    )
    response = app.post_json("/scheduler/v1/explain", {"request_spec": make_spec()}).json
    assert [host["host"] for host in response["hosts"]] == ["cn1"]
    assert sorted(HOSTS_OF_ATTRIBUTE_READS) == ["cn1", "cn2"]


def test_shipped_filters_do_not_read_host_attributes(
    registered_host_attributes, make_app, sqlite_url
):
    app = build_app_with_patched_host(make_app, sqlite_url)
    flavor = {"name": "m1", "vcpus": 1, "memory_mb": 1, "root_gb": 1}
    flavor["extra_specs"] = {"is_patched": "True", "capabilities:is_patched": "True"}
    body = {"request_spec": make_spec(flavor=flavor)}
    assert app.post_json("/scheduler/v1/explain", body).json["hosts"] == []
    assert HOSTS_OF_ATTRIBUTE_READS == []


def test_unknown_host_attribute_is_an_error():
    host = build_host_state()
    with pytest.raises(AttributeError, match="'HostState' object has no attribute 'traits'"):
        _ = host.traits
    host.traits = frozenset({"X"})
    assert host.traits == {"X"}


def test_invalid_entry_point_of_host_attributes_is_an_error(install_package, tmp_path):
    install_package("[placement_sched.host_attributes]\nacme = acme_none:f\n")
    with pytest.raises(ConfigurationError, match=r"acme \(acme_none:f\) of placement_sched\.host_"):
        read_settings_text(tmp_path, "")
