"""TypeAffinityFilter: one flavor on a host."""

from placement_sched.model.flavor import Flavor
from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.host_state import HostState


class TypeAffinityFilter(BaseHostFilter):
    """Refuses hosts that have instances of another flavor than the request's.

    So each host has instances of one flavor alone. Flavors are told apart by their id, or by name
    where one of them has none; an instance whose flavor is not known is of another one. As it was
    until nova 16 (Pike); goes well with a ``ram_weight_multiplier`` below 0, which fills hosts.
    """

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return the flavors of the instances on the host that are not the request's."""
        asked = spec_obj.flavor
        others = {
            "unknown" if instance.flavor is None else instance.flavor.name
            for instance in host_state.instances.values()
            if instance.flavor is None or not _same(instance.flavor, asked)
        }
        if not others:
            return None
        found = sorted(others)
        reason = f"flavor {asked.name} asked, instances of {', '.join(found)} are here"
        return Refusal(reason, asked.name, found)


def _same(one: Flavor, other: Flavor) -> bool:
    ids = [flavor.flavorid or flavor.id for flavor in (one, other)]
    if None in ids:
        return one.name == other.name
    return str(ids[0]) == str(ids[1])
