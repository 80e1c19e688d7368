# SPDX-License-Identifier: Apache-2.0
"""The selected functional tests of nova, and the tests that fail with placement itself."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

SELECTION_FOLDER = Path(__file__).parent
FUNCTIONAL_TESTS_PACKAGE = "nova.tests.functional"
#: Modules and packages below ``FUNCTIONAL_TESTS_PACKAGE`` whose tests use placement. Tests that
#: compare with samples of APIs and notifications are left out: nova does not install the samples.
MODULES_WITH_PLACEMENT = (
    "compute",
    "libvirt",
    "regressions",
    "test_aggregates",
    "test_availability_zones",
    "test_boot_from_volume",
    "test_cold_migrate",
    "test_cross_az_attach",
    "test_cross_cell_migrate",
    "test_ephemeral_encryption",
    "test_graceful_shutdown",
    "test_instance_actions",
    "test_nova_manage",
    "test_report_client",
    "test_routed_networks",
    "test_scheduler",
    "test_server_group",
    "test_server_rescue",
    "test_servers",
    "test_servers_provider_tree",
    "test_servers_resource_request",
    "test_service",
    "test_unified_limits",
    "wsgi",
)
#: Packages whose tests are counted as a single group.
_PACKAGES_COUNTED_AS_GROUPS = ("regressions", "wsgi")


def list_selected_modules() -> list[str]:
    return [f"{FUNCTIONAL_TESTS_PACKAGE}.{module}" for module in MODULES_WITH_PLACEMENT]


def read_requests_by_selected_test() -> Mapping[str, list[str]]:
    classes = _read_yaml_file("sound_selection.yaml")
    return {f"{name}.{test}": why for name in classes for test, why in classes[name].items()}


def read_known_failures() -> Mapping[str, str]:
    return {
        test: row["why"]
        for row in _read_yaml_file("failing_with_placement.yaml")
        for test in row["tests"]
    }


def find_group_of_test(test: str) -> str:
    module = test.removeprefix(f"{FUNCTIONAL_TESTS_PACKAGE}.").rsplit(".", 2)[0]
    return next(
        (name for name in _PACKAGES_COUNTED_AS_GROUPS if module.startswith(f"{name}.")), module
    )


def _read_yaml_file(name: str) -> Any:
    return yaml.safe_load((SELECTION_FOLDER / name).read_text())
