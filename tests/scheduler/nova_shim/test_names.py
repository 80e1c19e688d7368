# SPDX-License-Identifier: Apache-2.0
"""The names of nova that are found in the source of a plugin."""

import pytest

from placement_sched.scheduler.nova_shim.finder import NovaName, list_names

SOURCE = """
import os, nova.conf
from nova import (context as c,
                  objects)
from nova.scheduler import filters, mixins
CONF = nova.conf.CONF
CONF.import_opt("x", "nova.scheduler.filters.ram_filter")
importutils.import_class("nova.scheduler.filters.core_filter")


class A(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        import nova.huawei.tools as tools
        objects.Quotas.get(c.get_admin_context())
        objects.InstanceList.get_by_filters({})
        objects.InstanceList.get_by_host({})
        return os.nova.thing and tools
"""


def test_every_imported_and_used_nova_name_is_found_with_its_line():
    names = {use.name: use.line for use in list_names(SOURCE)}
    assert names == {
        "nova.conf": 2,
        "nova.context": 3,
        "nova.objects": 3,
        "nova.scheduler.filters": 5,
        "nova.scheduler.mixins": 5,
        "nova.conf.CONF": 6,
        "nova.scheduler.filters.core_filter": 8,
        "nova.scheduler.filters.BaseHostFilter": 11,
        "nova.huawei.tools": 13,
        "nova.objects.Quotas": 14,
        "nova.context.get_admin_context": 14,
        "nova.objects.InstanceList.get_by_filters": 15,
        "nova.objects.InstanceList": 15,
    }


def test_only_imported_names_are_listed_with_imports_only():
    found = list_names("import nova.conf\nnova.conf.CONF\n", imports_only=True)
    assert [use.name for use in found] == ["nova.conf"]


@pytest.mark.parametrize(
    ("name", "is_provided", "hint"),
    [
        ("nova.scheduler.filters", True, "change nova.scheduler to placement_sched.scheduler"),
        ("nova.scheduler.filters.utils", True, "change nova.scheduler to"),
        ("nova.conf", True, "change nova.conf to placement_sched.config"),
        ("nova.context", True, "nova.context is provided by the nova shim"),
        ("nova.exception.ComputeHostNotFound", True, "is provided by the nova shim"),
        ("nova.filters", True, "nova.filters is provided by the nova shim"),
        ("nova.scheduler.mixins.Mixin", False, "nova.scheduler.mixins is not provided here"),
        ("nova.objects.Quotas", False, "nova.objects.Quotas is not provided here"),
        ("nova.objects.InstanceList.get_by_host", True, "is provided by the nova shim"),
        ("nova.objects.InstanceList.get_by_filters", False, "get_by_filters is not provided here"),
        ("oslo.config", True, "oslo.config is provided by the nova shim"),
    ],
)
def test_nova_name_is_provided_or_not_and_has_a_hint_how_to_change_it(name, is_provided, hint):
    found = NovaName(1, name)
    assert found.is_provided == is_provided
    assert hint in found.hint
