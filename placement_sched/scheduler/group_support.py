"""Whether the plugins enabled heed the policy of a request's server group.

As in nova, a policy that nobody would heed is refused, rather than ignored.
"""

from collections.abc import Mapping
from types import MappingProxyType

from placement_sched.errors import Invalid
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.loading import Plugins

#: The class that heeds each policy, by nova's names: a filter or a weigher, or one derived of it.
HEEDED_BY: Mapping[str, str] = MappingProxyType(
    {
        "affinity": "ServerGroupAffinityFilter",
        "anti-affinity": "ServerGroupAntiAffinityFilter",
        "soft-affinity": "ServerGroupSoftAffinityWeigher",
        "soft-anti-affinity": "ServerGroupSoftAntiAffinityWeigher",
    }
)


def check(spec: RequestSpec, plugins: Plugins) -> None:
    """Raise :class:`Invalid` where no enabled plugin heeds the policy of the request's group.

    A rebuild is not asked: its instance stays where it is.
    """
    if spec.instance_group is None or spec.is_rebuild:
        return
    wanted = HEEDED_BY[spec.instance_group.policy]
    enabled = (*plugins.filters, *plugins.weighers)
    if not any(kind.__name__ == wanted for each in enabled for kind in type(each).__mro__):
        raise Invalid(
            f"The server group's policy {spec.instance_group.policy} is not supported: {wanted} "
            "is not enabled (at $.request_spec.instance_group)"
        )
