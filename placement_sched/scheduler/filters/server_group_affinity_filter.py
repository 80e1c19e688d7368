"""ServerGroupAffinityFilter: members of a server group go together."""

from placement_sched.model.server_group import AFFINITY
from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters import BaseHostFilter, Question
from placement_sched.scheduler.host_state import HostState


class ServerGroupAffinityFilter(BaseHostFilter):
    """Lets only those hosts pass that have members of the request's server group.

    For groups of policy ``affinity``; while the group is nowhere yet, every host passes. A request
    joins a group by ``instance_group``, or by the hint ``group``.
    """

    def for_request(self, spec_obj: RequestSpec) -> Question | None:
        """Return what tells the hosts that the group is on, where one is none of them."""
        group = spec_obj.instance_group
        if group is None or AFFINITY not in group.policies or not group.hosts:
            return None
        hosts = sorted(group.hosts)
        reason = f"the server group is on {', '.join(hosts)}"

        def refusal(host_state: HostState) -> Refusal | None:
            here = host_state.host
            return None if here in group.hosts else Refusal(reason, hosts, here)

        return refusal
