# SPDX-License-Identifier: Apache-2.0
"""Lists of traits. ``gabbits/traits.yaml`` has the other cases."""

import pytest

from tests.api.placement.provider_requests import list_values_of_key

pytestmark = pytest.mark.all_databases


def test_traits_are_listed_by_exact_name(app_with_custom_names):
    for name, names in [
        ("in:CUSTOM_A,CUSTOM_B", ["CUSTOM_A", "CUSTOM_B"]),
        ("in:custom_a,CUSTOM_B", ["CUSTOM_B"]),
        ("in:CUSTOM_A%20", []),
        ("in:Custom_A", []),
        ("startswith:CUSTOM_A", ["CUSTOM_A", "CUSTOM_AB"]),
        ("startswith:cus", []),
        ("startswith:CUSTOM_a", []),
        ("startswith:CUSTOM%25", []),
    ]:
        assert (
            sorted(list_values_of_key(app_with_custom_names, f"/traits?name={name}", "traits"))
            == names
        ), name
