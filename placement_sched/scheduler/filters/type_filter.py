"""TypeAffinityFilter and AggregateTypeAffinityFilter: hosts for certain flavors."""

from collections.abc import Iterable
from dataclasses import replace

from placement_sched.model.flavor import Flavor
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostState,
    Refusal,
    Remedy,
    RequestSpec,
)
from placement_sched.scheduler.filters.utils import aggregate_values_from_key


class TypeAffinityFilter(BaseHostFilter):
    """Rejects hosts that have instances of another flavor than the request's.

    So each host has instances of one flavor alone. Flavors are the same by id, or by name where
    one of them has none; an instance whose flavor is not known is of another one. As it was until
    nova 16 (Pike); goes well with a ``ram_weight_multiplier`` below 0, which fills hosts.
    """

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return the flavors of the instances on the host that are not the request's."""
        asked = spec_obj.flavor
        flavors = (instance.flavor for instance in host_state.instances.values())
        found = sorted({one.name if one else "unknown" for one in flavors if not _same(one, asked)})
        if not found:
            return None
        reason = f"flavor {asked.name} requested, the host has instances of {', '.join(found)}"
        return Refusal(reason, asked.name, found)

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return how many instances are of other flavors."""
        there = host_state.instances.items()
        left = {uuid: one for uuid, one in there if _same(one.flavor, spec_obj.flavor)}
        number = len(host_state.instances) - len(left)
        words = f"move away {number} instances of other flavors"
        after = {"instances": left}
        yield Remedy("remove_instances", words, {"instances": number}, host=after)


def _same(one: Flavor | None, other: Flavor) -> bool:
    if one is None:
        return False
    ids = [flavor.flavorid or flavor.id for flavor in (one, other)]
    return one.name == other.name if None in ids else str(ids[0]) == str(ids[1])


class AggregateTypeAffinityFilter(BaseHostFilter):
    """Lets hosts pass whose aggregates name the request's flavor, or none.

    The name of the flavor must be in ``instance_type`` of an aggregate's metadata; commas separate
    names. A host none of whose aggregates has the key is for every flavor.
    """

    run_filter_once_per_request = True

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return the request's flavor and those that the host is for."""
        values = aggregate_values_from_key(host_state, "instance_type")
        names = sorted({name.strip() for value in values for name in value.split(",")})
        asked = spec_obj.flavor.name
        if not names or asked in names:
            return None
        reason = f"flavor {asked} requested, the host is for {', '.join(names)}"
        return Refusal(reason, asked, names)

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return the flavors that the host is for."""
        values = aggregate_values_from_key(host_state, "instance_type")
        names = sorted({name.strip() for value in values for name in value.split(",")})
        words = f"ask for flavor {' or '.join(names)}, or add {spec_obj.flavor.name} to "
        words += "instance_type of its aggregates"
        asked = replace(spec_obj, flavor=replace(spec_obj.flavor, name=names[0]))
        yield Remedy("ask", words, {"flavors": names}, spec=asked)
