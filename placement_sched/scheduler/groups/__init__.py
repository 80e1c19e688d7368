"""Request groups: what flavor, image and outside askers want of providers, each with its source.

Source: nova's documentation, "Flavors" and "Extra Specs" (``resources:``, ``trait:``,
``group_policy``), and the Placement documentation, "Granular Resource Requests".
"""

from collections import Counter

from placement_sched.model.flavor import Flavor
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.groups.amounts import add_amounts
from placement_sched.scheduler.groups.extra_specs import add_extra_specs
from placement_sched.scheduler.groups.gathering import Groups
from placement_sched.scheduler.groups.hardware_traits import add_cpus, add_hardware
from placement_sched.scheduler.groups.image_traits import add_image_traits
from placement_sched.scheduler.groups.requested import add_requested


def groups_of(spec: RequestSpec, *, pinned: bool = True) -> Groups:
    """Return the groups that a request asks for.

    Later askers give way to earlier ones, so the order counts: what extra specs ask in so many
    words takes the place of what the flavor says. With ``pinned`` false, CPU policies are not
    heeded: all CPUs are asked for as VCPU, as hosts offer them that know no PCPU. Raises
    :class:`~placement_sched.errors.Invalid` for what cannot be, or contradicts itself, naming the
    keys.
    """
    groups = Groups()
    add_extra_specs(groups, spec.flavor)
    groups.note_flavor()
    add_image_traits(groups, spec.image)
    if pinned:
        add_cpus(groups, spec.flavor, spec.image)
    add_requested(groups, spec.requested_resources)
    add_amounts(groups, spec)
    add_hardware(groups, spec.flavor, spec.image)
    groups.strip()
    return groups


def amounts_of(flavor: Flavor, *, boot_from_volume: bool) -> tuple[tuple[str, int], ...]:
    """Return how much of each class an instance of a flavor takes, all groups together.

    Memory is in MB, disk in GB. Raises :class:`~placement_sched.errors.Invalid` as
    :func:`groups_of` does.
    """
    total: Counter[str] = Counter()
    for group in groups_of(RequestSpec(flavor=flavor, is_bfv=boot_from_volume)):
        total.update(group.resources)
    return tuple(sorted(total.items()))
