# SPDX-License-Identifier: Apache-2.0
"""AggregateImagePropertiesIsolation, as nova 34 decides the same cases."""

import pytest

from placement_sched.config.conf import read_files
from placement_sched.config.settings import Settings
from placement_sched.scheduler.filters.aggregate_image_properties_isolation import (
    AggregateImagePropertiesIsolation,
)
from placement_sched.scheduler.plugins import make_full_conf
from tests.support.states import a_host, a_spec, aggregates, settings_with

NAMESPACE = "aggregate_image_properties_isolation_namespace"
SEPARATOR = "aggregate_image_properties_isolation_separator"


def refusal(properties, *metadata, **options):
    named = {f"filter_scheduler__{key}": value for key, value in options.items()}
    plugin = AggregateImagePropertiesIsolation.with_settings(settings_with(**named))
    host, spec = a_host(aggregates=aggregates(*metadata)), a_spec(properties=properties)
    found = plugin.refusal(host, spec)
    assert plugin.host_passes(host, spec) is (found is None)
    return found and found.reason


@pytest.mark.parametrize(
    ("properties", "metadata"),
    [
        ({}, []),
        ({"os_distro": "debian"}, []),
        ({"os_distro": "debian"}, [{"os_distro": "debian"}]),
        ({"os_distro": "debian"}, [{"os_distro": "fedora, debian"}]),
        ({"os_distro": "debian"}, [{"os_distro": "fedora"}, {"os_distro": "debian"}]),
        ({}, [{"os_distro": "debian"}]),
        ({"os_distro": "debian"}, [{"ssd": "true"}]),
        ({"licence": "a"}, [{"licence": "b"}]),
        ({"architecture": "x86_64"}, [{"architecture": "aarch64"}]),
        ({"hw_cpu_cores": "2"}, [{"hw_cpu_cores": "2"}]),
        ({"hw_boot_menu": "yes"}, [{"hw_boot_menu": "True"}]),
        ({"hw_boot_menu": "no"}, [{"hw_boot_menu": "True"}]),
    ],
)
def test_host_whose_aggregates_say_nothing_else_passes(properties, metadata):
    assert refusal(properties, *metadata) is None


@pytest.mark.parametrize(
    ("properties", "metadata", "reason"),
    [
        (
            {"os_distro": "debian"},
            [{"os_distro": "windows"}],
            "os_distro: the image has debian, the aggregates windows",
        ),
        (
            {"os_distro": "debian"},
            [{"os_distro": "b,a"}, {"os_distro": "c"}],
            "os_distro: the image has debian, the aggregates a, b, c",
        ),
        (
            {"architecture": "x86_64"},
            [{"hw_architecture": "aarch64"}],
            "hw_architecture: the image has x86_64, the aggregates aarch64",
        ),
        (
            {"hw_cpu_cores": "2"},
            [{"hw_cpu_cores": "4"}],
            "hw_cpu_cores: the image has 2, the aggregates 4",
        ),
        (
            {"hw_boot_menu": "yes"},
            [{"hw_boot_menu": "yes"}],
            "hw_boot_menu: the image has True, the aggregates yes",
        ),
    ],
)
def test_host_whose_aggregates_say_otherwise_is_refused(properties, metadata, reason):
    assert refusal(properties, *metadata) == reason


def test_namespace_leaves_keys_outside_of_it_alone():
    properties = {"os_distro": "debian", "hw_disk_bus": "scsi"}
    metadata = {"os_distro": "windows", "hw_disk_bus": "virtio"}
    options = {NAMESPACE: "hw", SEPARATOR: "_"}
    told = "hw_disk_bus: the image has scsi, the aggregates virtio"
    assert refusal(properties, metadata, **options) == told
    assert refusal({"os_distro": "debian"}, metadata, **options) is None
    assert refusal(properties, metadata, **{NAMESPACE: "hw"}) is None


def test_options_may_stand_where_icehouse_had_them(tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text(f"[DEFAULT]\n{NAMESPACE} = hw\n{SEPARATOR} = _\n")
    options = Settings.from_conf(read_files(make_full_conf(), [str(file)])).filter_scheduler
    assert getattr(options, NAMESPACE) == "hw"
    assert getattr(options, SEPARATOR) == "_"


def test_filter_runs_once_per_request_and_on_rebuild():
    assert not AggregateImagePropertiesIsolation().run_filter_for_index(1)
    assert AggregateImagePropertiesIsolation.RUN_ON_REBUILD
