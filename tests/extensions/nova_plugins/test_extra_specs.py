# SPDX-License-Identifier: Apache-2.0
"""Validators of extra specs from packages for nova."""

import sys

import pytest

from placement_sched.errors import Invalid
from placement_sched.extensions.nova_plugins import finder
from placement_sched.scheduler import extra_specs as validators
from placement_sched.scheduler.extra_specs import check
from tests.scheduler.conftest import install_package as install_package  # noqa: PLC0414 - a fixture

NOVA_VALIDATORS_MODULE_TEXT = """
from nova.api.validation.extra_specs import base


def register():
    values = {"type": str, "enum": ["stack", "spread"]}
    return [base.ExtraSpecValidator(name="acme:mode", description="The mode.", value=values)]
"""


@pytest.fixture(autouse=True)
def cleared_validators():
    """Load the validators again during the test, and after it."""

    def clear_caches():
        validators.list_validators.cache_clear()
        validators._index_validators.cache_clear()

    clear_caches()
    yield clear_caches
    clear_caches()


def test_extra_spec_validators_of_nova_count_with_the_shim(
    install_package, tmp_path, cleared_validators
):
    (tmp_path / "acme_nova_specs.py").write_text(NOVA_VALIDATORS_MODULE_TEXT)
    install_package("[nova.api.extra_spec_validators]\nacme = acme_nova_specs\n")
    check("acme:mode", "bogus")
    modules = set(sys.modules)
    assert finder.install()
    cleared_validators()
    check("acme:mode", "spread")
    with pytest.raises(Invalid, match="'bogus' is not one of: stack, spread"):
        check("acme:mode", "bogus")
    for name in set(sys.modules) - modules:
        if name.partition(".")[0] in {"nova", "acme_nova_specs"}:
            del sys.modules[name]
