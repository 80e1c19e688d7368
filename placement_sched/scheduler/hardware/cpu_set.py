"""Sets of virtual CPUs in extra specs."""

from placement_sched.errors import Invalid
from placement_sched.model.cpu_set import MOST_CPUS, cpus_from
from placement_sched.model.flavor import Flavor


def cpu_set(text: str, where: str = "CPU set") -> frozenset[int]:
    """Return the CPUs that a text like ``0-3,^2`` names.

    Raises :class:`Invalid`, naming ``where`` the text stands, for a text that cannot be.
    """
    try:
        return cpus_from(text)
    except ValueError as wrong:
        raise Invalid(f"{where} cannot be {text!r}: {wrong}") from None


def all_cpus(flavor: Flavor) -> frozenset[int]:
    """Return the virtual CPUs of a flavor, numbered from 0.

    Raises :class:`Invalid` for a flavor of more than can be told apart by number.
    """
    if flavor.vcpus > MOST_CPUS:
        raise Invalid(
            f"flavor has {flavor.vcpus} vcpus: of more than {MOST_CPUS} none can be told apart, "
            "as pinning, real time and NUMA nodes need"
        )
    return frozenset(range(flavor.vcpus))


def masked_cpus(flavor: Flavor, mask: str, where: str) -> frozenset[int]:
    """Return the CPUs of a mask: one that begins with ``^`` takes CPUs out of all the flavor's.

    Raises :class:`Invalid`, naming ``where`` the mask stands, for a mask that cannot be.
    """
    named = cpu_set(mask, where)
    if not mask.strip().startswith("^") or not all_cpus(flavor):
        return named
    return cpu_set(f"0-{flavor.vcpus - 1},{mask}", where)
