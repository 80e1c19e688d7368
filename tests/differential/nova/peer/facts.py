# SPDX-License-Identifier: Apache-2.0
"""Results of nova's database queries, from the cloud of a request."""

from types import SimpleNamespace
from unittest import mock

from nova import objects
from nova.scheduler import request_filter

NEW_COMPUTE_VERSION, OLD_COMPUTE_VERSION = request_filter.MIN_COMPUTE_VERSION_OWNER_TRAIT, 1


class FakeNovaData:
    """The cloud of a request, in the place of nova's databases."""

    def __init__(self, case):
        self._aggregates = [
            SimpleNamespace(uuid=item["uuid"], metadata=item["metadata"])
            for item in case["aggregates"]
        ]
        self._nodes = [
            SimpleNamespace(uuid=item["uuid"], host=item["host"], hypervisor_hostname=item["node"])
            for item in case["nodes"]
        ]
        self._version = NEW_COMPUTE_VERSION if case["owned"] else OLD_COMPUTE_VERSION

    def patch_aggregates(self):
        return mock.patch.multiple(
            objects.AggregateList,
            get_by_metadata=self._list_aggregates_by_metadata,
            get_non_matching_by_metadata_keys=self._list_aggregates_without_metadata,
        )

    def patch_service_version(self):
        return mock.patch.object(
            objects.service, "get_minimum_version_all_cells", return_value=self._version
        )

    def get_compute_nodes_by_host_or_node(self, _context, host, name, cell=None):
        return [
            node
            for node in self._nodes
            if host in (None, node.host) and name in (None, node.hypervisor_hostname)
        ]

    def _list_aggregates_by_metadata(self, _context, key=None, value=None):
        return [
            aggregate
            for aggregate in self._aggregates
            if any(key in (None, k) and value in (None, v) for k, v in aggregate.metadata.items())
        ]

    def _list_aggregates_without_metadata(self, _context, named, prefix, value):
        return [
            aggregate
            for aggregate in self._aggregates
            if any(
                k.startswith(prefix) and v == value and k not in named
                for k, v in aggregate.metadata.items()
            )
        ]
