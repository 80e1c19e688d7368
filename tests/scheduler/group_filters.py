"""A stranger's filter that reads a request's server group as nova's filters do."""

from placement_sched.scheduler import filters


class ServerGroupAntiAffinityFilter(filters.BaseHostFilter):
    """Refuses the hosts of the group's members."""

    def host_passes(self, host_state, spec_obj):
        group = spec_obj.instance_group
        if group is None or "anti-affinity" not in group.policies:
            return True
        assert len(group.members) >= len(group.hosts) or group.uuid is None
        return host_state.host not in group.hosts
