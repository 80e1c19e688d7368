"""Sets of virtual CPUs as operators write them: ``0-3,^2,8``.

Source: nova's documentation, "CPU topologies".
"""

from placement_sched.errors import Invalid
from placement_sched.limits import MAX_CPU_SET_CHARACTERS, MAX_CPUS
from placement_sched.model.flavor import Flavor


def cpus_from(text: str) -> frozenset[int]:
    """Return the CPUs that numbers and ranges name, without those after a ``^``.

    A ``^`` counts wherever it is. Raises :class:`ValueError` naming the part that is not valid, and
    for a text of more than :data:`MAX_CPU_SET_CHARACTERS` characters.
    """
    if len(text) > MAX_CPU_SET_CHARACTERS:
        raise ValueError(
            f"it has {len(text)} characters, and at most {MAX_CPU_SET_CHARACTERS} are supported"
        )
    # One bit for each CPU, because each of a thousand parts may name all CPUs.
    named = left_out = 0
    for part in filter(None, (part.strip() for part in text.split(","))):
        cpus = _range(part)
        bits = (1 << cpus.stop) - (1 << cpus.start)
        if part.startswith("^"):
            left_out |= bits
        else:
            named |= bits
    bits = named & ~left_out
    return frozenset(cpu for cpu, bit in enumerate(f"{bits:b}"[::-1]) if bit == "1")


def cpu_set(text: str, where: str = "CPU set") -> frozenset[int]:
    """Return the CPUs of a text like ``0-3,^2``.

    Raises :class:`Invalid`, naming ``where`` the text is set, for one that is not valid.
    """
    try:
        return cpus_from(text)
    except ValueError as wrong:
        raise Invalid(f"{where}: {text!r} is not a set of CPUs: {wrong}") from None


def all_cpus(flavor: Flavor) -> frozenset[int]:
    """Return the virtual CPUs of a flavor, numbered from 0.

    Raises :class:`Invalid` for a flavor of more than :data:`MAX_CPUS`.
    """
    if flavor.vcpus > MAX_CPUS:
        raise Invalid(
            f"flavor has {flavor.vcpus} vcpus: at most {MAX_CPUS} are supported with CPU pinning, "
            "real time and NUMA nodes"
        )
    return frozenset(range(flavor.vcpus))


def masked_cpus(flavor: Flavor, mask: str, where: str) -> frozenset[int]:
    """Return the CPUs of a mask: one that begins with ``^`` takes CPUs out of all the flavor's.

    Raises :class:`Invalid`, naming ``where`` the mask is set, for one that is not valid.
    """
    named = cpu_set(mask, where)
    if not mask.strip().startswith("^") or not all_cpus(flavor):
        return named
    return cpu_set(f"0-{flavor.vcpus - 1},{mask}", where)


def _range(part: str) -> range:
    first, hyphen, last = part.removeprefix("^").partition("-")
    try:
        start = int(first)
        end = int(last) if hyphen else start
    except ValueError:
        raise ValueError(f"{part!r} is neither a number nor a range of numbers") from None
    if not 0 <= start <= end:
        raise ValueError(f"the range {part!r} ends before it begins")
    if end >= MAX_CPUS:
        raise ValueError(f"{part!r} goes beyond {MAX_CPUS - 1}, the highest CPU number")
    return range(start, end + 1)
