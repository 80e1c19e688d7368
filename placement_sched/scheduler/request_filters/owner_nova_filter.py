# SPDX-License-Identifier: Apache-2.0
"""owner_nova_filter: request filter for providers that nova owns."""

from dataclasses import replace

import os_traits

from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    NotApplied,
    RequestFilterContext,
    RequestFilterResult,
    require_traits,
)

_OWNER = os_traits.OWNER_NOVA
#: In a cloud of this many nodes, a single node may lack the trait.
_MIN_NODES = 2


class OwnerNovaFilter(BaseRequestFilter):
    """Request filter that requires providers with the trait OWNER_NOVA.

    Other services, such as cyborg, also have providers in placement, with resource classes that
    nova may request. During an upgrade, the filter is not applied: the trait is required if the
    root providers of nearly all enabled compute nodes have it. A tenth of the nodes may lack it, or
    a single node of at least two. Such nodes are rejected. With ``[filter_scheduler]
    pci_in_placement`` the groups of PCI devices require it too. Always enabled.
    """

    name = "owner_nova_filter"

    def apply(
        self, spec: RequestSpec, context: RequestFilterContext
    ) -> RequestFilterResult | NotApplied | None:
        if _OWNER in spec.root_required:
            return None
        counts = context.count_nodes_lacking_trait(_OWNER)
        if counts is None:
            return None
        lacking, nodes = counts
        if lacking > max(nodes // 10, int(nodes >= _MIN_NODES)):
            return NotApplied(
                f"{lacking} of {nodes} enabled compute nodes lack {_OWNER}, which nova-compute "
                "reports after its upgrade"
            )
        outcome = require_traits(spec, _OWNER)
        requests = spec.pci_requests.requests if spec.pci_requests else ()
        pci_ids = {pci.request_id for pci in requests if pci.alias_name is not None} - {None, ""}
        requesters = [group.requester_id or "" for group in spec.requested_resources]
        ids = [requester for requester in requesters if requester.rpartition("-")[0] in pci_ids]
        if not ids:
            return outcome
        groups = tuple(
            group.with_trait(_OWNER) if group.requester_id in ids else group
            for group in spec.requested_resources
        )
        changes = {**outcome.changes, "requested_resources": ids}
        return RequestFilterResult(replace(outcome.spec, requested_resources=groups), changes)
