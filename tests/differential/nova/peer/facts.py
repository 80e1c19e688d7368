# SPDX-License-Identifier: Apache-2.0
"""What nova would look up in its databases, answered from the facts that a request brings."""

from types import SimpleNamespace
from unittest import mock

from nova import objects
from nova.scheduler import request_filter

NEW, OLD = request_filter.MIN_COMPUTE_VERSION_OWNER_TRAIT, 1


class Facts:
    """The facts of one request, put in the place of nova's databases while it is answered."""

    def __init__(self, told):
        self._aggregates = [
            SimpleNamespace(uuid=one["uuid"], metadata=one["metadata"])
            for one in told["aggregates"]
        ]
        self._nodes = [
            SimpleNamespace(uuid=one["uuid"], host=one["host"], hypervisor_hostname=one["node"])
            for one in told["nodes"]
        ]
        self._version = NEW if told["owned"] else OLD

    def patched_aggregates(self):
        return mock.patch.multiple(
            objects.AggregateList,
            get_by_metadata=self._by_metadata,
            get_non_matching_by_metadata_keys=self._aggregates_without_metadata,
        )

    def patched_service_version(self):
        return mock.patch.object(
            objects.service, "get_minimum_version_all_cells", return_value=self._version
        )

    def get_compute_nodes_by_host_or_node(self, _context, host, node, cell=None):
        return [
            one
            for one in self._nodes
            if host in (None, one.host) and node in (None, one.hypervisor_hostname)
        ]

    def _by_metadata(self, _context, key=None, value=None):
        return [
            one
            for one in self._aggregates
            if any(key in (None, k) and value in (None, v) for k, v in one.metadata.items())
        ]

    def _aggregates_without_metadata(self, _context, named, prefix, value):
        return [
            one
            for one in self._aggregates
            if any(
                k.startswith(prefix) and v == value and k not in named
                for k, v in one.metadata.items()
            )
        ]
