# SPDX-License-Identifier: Apache-2.0
"""Host filter by image properties of aggregates, as nova 34 decides."""

import pytest

from placement_sched.scheduler.filters.aggregate_image_properties_isolation import (
    AggregateImagePropertiesIsolation,
)
from tests.support.states import (
    build_aggregates,
    build_host_state,
    build_settings,
    build_spec,
    find_rejection,
)

NAMESPACE_OPTION = "aggregate_image_properties_isolation_namespace"
SEPARATOR_OPTION = "aggregate_image_properties_isolation_separator"


def find_filter_rejection(properties, *metadata, **options):
    named = {f"filter_scheduler__{key}": value for key, value in options.items()}
    plugin = AggregateImagePropertiesIsolation.with_settings(build_settings(**named))
    host = build_host_state(aggregates=build_aggregates(*metadata))
    return find_rejection(plugin, host, build_spec(properties=properties))


DEBIAN_IMAGE, BOOT_MENU_IMAGE = {"os_distro": "debian"}, {"hw_boot_menu": "yes"}


@pytest.mark.parametrize(
    ("properties", "metadata", "values"),
    [
        ({}, [], None),
        (DEBIAN_IMAGE, [], None),
        (DEBIAN_IMAGE, [DEBIAN_IMAGE], None),
        (DEBIAN_IMAGE, [{"os_distro": "fedora, debian"}], None),
        (DEBIAN_IMAGE, [{"os_distro": "fedora"}, DEBIAN_IMAGE], None),
        ({}, [DEBIAN_IMAGE], None),
        (DEBIAN_IMAGE, [{"ssd": "true"}], None),
        ({"licence": "a"}, [{"licence": "b"}], None),
        ({"architecture": "x86_64"}, [{"architecture": "aarch64"}], None),
        ({"hw_cpu_cores": "2"}, [{"hw_cpu_cores": "2"}], None),
        (BOOT_MENU_IMAGE, [{"hw_boot_menu": "True"}], None),
        ({"hw_boot_menu": "no"}, [{"hw_boot_menu": "True"}], None),
        (DEBIAN_IMAGE, [{"os_distro": "windows"}], ("debian", "windows")),
        (DEBIAN_IMAGE, [{"os_distro": "b,a"}, {"os_distro": "c"}], ("debian", "a, b, c")),
        ({"architecture": "x86_64"}, [{"hw_architecture": "aarch64"}], ("x86_64", "aarch64")),
        ({"hw_cpu_cores": "2"}, [{"hw_cpu_cores": "4"}], ("2", "4")),
        (BOOT_MENU_IMAGE, [BOOT_MENU_IMAGE], ("True", "yes")),
    ],
)
def test_host_passes_unless_its_aggregates_have_other_image_properties(
    properties, metadata, values
):
    key = next(iter(metadata[0])) if metadata else ""
    reason = values and f"{key}: the image has {values[0]}, the aggregates {values[1]}"
    assert find_filter_rejection(properties, *metadata) == reason


def test_image_properties_outside_the_namespace_are_ignored():
    properties = {"os_distro": "debian", "hw_disk_bus": "scsi"}
    metadata = {"os_distro": "windows", "hw_disk_bus": "virtio"}
    options = {NAMESPACE_OPTION: "hw", SEPARATOR_OPTION: "_"}
    result = "hw_disk_bus: the image has scsi, the aggregates virtio"
    assert find_filter_rejection(properties, metadata, **options) == result
    assert find_filter_rejection({"os_distro": "debian"}, metadata, **options) is None
    assert find_filter_rejection(properties, metadata, **{NAMESPACE_OPTION: "hw"}) is None
