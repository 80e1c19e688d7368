"""owner_nova_filter: ask for providers that are nova's own."""

from dataclasses import replace

import os_traits

from placement_sched.model.request_spec import RequestedGroup, RequestSpec
from placement_sched.scheduler.request_filters import BaseRequestFilter, Outcome, World, requiring

_OWNER = os_traits.OWNER_NOVA


class OwnerNovaFilter(BaseRequestFilter):
    """Requires root providers, and providers of PCI devices, that are marked as nova's own.

    Other services keep providers in placement as well, cyborg for instance, of classes that may be
    asked of nova's too. The trait OWNER_NOVA is required only while the root provider of every
    compute node whose service is enabled has it: a cloud in which some nodes do not put it there
    yet, during an upgrade, loses none of them. With ``[filter_scheduler] pci_in_placement`` the
    groups of PCI devices require it as well. Always on.
    """

    name = "owner_nova_filter"

    def apply(self, spec: RequestSpec, world: World) -> Outcome | None:
        """Return the request for nova's own; None where that is asked, or some lack the mark."""
        if _OWNER in spec.root_required or not world.all_nodes_have(_OWNER):
            return None
        outcome = requiring(spec, _OWNER)
        marked = [group.requester_id for group in spec.requested_resources if _is_pci(spec, group)]
        if not marked:
            return outcome
        groups = tuple(
            one.requiring(_OWNER) if one.requester_id in marked else one
            for one in spec.requested_resources
        )
        changes = {**outcome.changes, "requested_resources": marked}
        return Outcome(replace(outcome.spec, requested_resources=groups), changes)


def _is_pci(spec: RequestSpec, group: RequestedGroup) -> bool:
    """Return whether a group asks for a device of one of the request's PCI requests."""
    requests = spec.pci_requests.requests if spec.pci_requests else ()
    asked = {one.request_id for one in requests if one.alias_name is not None and one.request_id}
    return bool(group.requester_id) and str(group.requester_id).rpartition("-")[0] in asked
