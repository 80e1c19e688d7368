"""ServerGroupAntiAffinityFilter: members of a server group keep apart."""

from placement_sched.model.server_group import ANTI_AFFINITY, MOST_PER_HOST
from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters import BaseHostFilter, Question
from placement_sched.scheduler.host_state import HostState


class ServerGroupAntiAffinityFilter(BaseHostFilter):
    """Refuses hosts that have as many members of the request's server group as one host may have.

    For groups of policy ``anti-affinity``; a host may have ``max_server_per_host`` members (a rule
    of the group), one where the group has no such rule. The host that an instance is on already,
    and is only moved about, passes. A request joins a group by ``instance_group``, or by the hint
    ``group``; a host that a group described in the request names has one member at least.
    """

    def for_request(self, spec_obj: RequestSpec) -> Question | None:
        """Return what tells how many members of the group are on a host, and how many may be."""
        group = spec_obj.instance_group
        if group is None or group.policy != ANTI_AFFINITY:
            return None
        members = frozenset(group.members)
        most = group.rules.get(MOST_PER_HOST, 1)

        def refusal(host_state: HostState) -> Refusal | None:
            here = host_state.instances
            if spec_obj.instance_uuid in here:
                return None
            number = max(len(here.keys() & members), int(host_state.host in group.hosts))
            if number < most:
                return None
            noun = "member" if number == 1 else "members"
            reason = f"{number} {noun} of the server group here, {most} allowed"
            return Refusal(reason, most, number)

        return refusal
