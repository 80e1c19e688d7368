# SPDX-License-Identifier: Apache-2.0
"""Host filter by image properties of aggregates, as nova 34 decides."""

import pytest

from placement_sched.scheduler.filters.aggregate_image_properties_isolation import (
    AggregateImagePropertiesIsolation,
)
from tests.support.states import (
    build_aggregates,
    build_host_state,
    build_spec,
    find_rejection,
    settings_with,
)

NAMESPACE = "aggregate_image_properties_isolation_namespace"
SEPARATOR = "aggregate_image_properties_isolation_separator"


def rejection(properties, *metadata, **options):
    named = {f"filter_scheduler__{key}": value for key, value in options.items()}
    plugin = AggregateImagePropertiesIsolation.with_settings(settings_with(**named))
    host = build_host_state(aggregates=build_aggregates(*metadata))
    return find_rejection(plugin, host, build_spec(properties=properties))


@pytest.mark.parametrize(
    ("properties", "metadata", "reason"),
    [
        ({}, [], None),
        ({"os_distro": "debian"}, [], None),
        ({"os_distro": "debian"}, [{"os_distro": "debian"}], None),
        ({"os_distro": "debian"}, [{"os_distro": "fedora, debian"}], None),
        ({"os_distro": "debian"}, [{"os_distro": "fedora"}, {"os_distro": "debian"}], None),
        ({}, [{"os_distro": "debian"}], None),
        ({"os_distro": "debian"}, [{"ssd": "true"}], None),
        ({"licence": "a"}, [{"licence": "b"}], None),
        ({"architecture": "x86_64"}, [{"architecture": "aarch64"}], None),
        ({"hw_cpu_cores": "2"}, [{"hw_cpu_cores": "2"}], None),
        ({"hw_boot_menu": "yes"}, [{"hw_boot_menu": "True"}], None),
        ({"hw_boot_menu": "no"}, [{"hw_boot_menu": "True"}], None),
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
def test_host_passes_unless_its_aggregates_have_other_values(properties, metadata, reason):
    assert rejection(properties, *metadata) == reason


def test_keys_outside_the_namespace_are_ignored():
    properties = {"os_distro": "debian", "hw_disk_bus": "scsi"}
    metadata = {"os_distro": "windows", "hw_disk_bus": "virtio"}
    options = {NAMESPACE: "hw", SEPARATOR: "_"}
    answer = "hw_disk_bus: the image has scsi, the aggregates virtio"
    assert rejection(properties, metadata, **options) == answer
    assert rejection({"os_distro": "debian"}, metadata, **options) is None
    assert rejection(properties, metadata, **{NAMESPACE: "hw"}) is None


def test_filter_runs_once_and_on_rebuild():
    assert not AggregateImagePropertiesIsolation().run_filter_for_index(1)
    assert AggregateImagePropertiesIsolation.RUN_ON_REBUILD
