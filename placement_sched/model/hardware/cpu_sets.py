# SPDX-License-Identifier: Apache-2.0
"""Sets of virtual CPUs in text form: ``0-3,^2,8``.

Source: nova's documentation, "CPU topologies".
"""

from placement_sched.errors import Invalid
from placement_sched.limits import MAX_CPU_SET_CHARACTERS, MAX_CPUS
from placement_sched.model.flavor import Flavor


def parse_cpus(text: str) -> frozenset[int]:
    """Parse CPU numbers and ranges, less CPUs that ``^`` excludes in any position.

    Raises :class:`ValueError`, with the invalid part, for an invalid text and for a text of more
    than :data:`MAX_CPU_SET_CHARACTERS` characters.
    """
    if len(text) > MAX_CPU_SET_CHARACTERS:
        raise ValueError(
            f"it has {len(text)} characters, and at most {MAX_CPU_SET_CHARACTERS} are supported"
        )
    # A bit per CPU, because each of a thousand parts may name all CPUs.
    included = excluded = 0
    for part in filter(None, (part.strip() for part in text.split(","))):
        cpus = _parse_range(part)
        bits = (1 << cpus.stop) - (1 << cpus.start)
        if part.startswith("^"):
            excluded |= bits
        else:
            included |= bits
    bits = included & ~excluded
    return frozenset(cpu for cpu, bit in enumerate(f"{bits:b}"[::-1]) if bit == "1")


def cpu_set(text: str, source: str = "CPU set") -> frozenset[int]:
    """Parse a CPU set like ``0-3,^2``.

    Raises :class:`Invalid`, naming its ``source``, for an invalid text.
    """
    try:
        return parse_cpus(text)
    except ValueError as error:
        raise Invalid(f"{source}: {text!r} is not a set of CPUs: {error}") from None


def all_cpus(flavor: Flavor) -> frozenset[int]:
    """Return the virtual CPUs of a flavor, numbered from 0.

    Raises :class:`Invalid` for a flavor with more than :data:`MAX_CPUS` CPUs.
    """
    if flavor.vcpus > MAX_CPUS:
        raise Invalid(
            f"flavor has {flavor.vcpus} vcpus: at most {MAX_CPUS} are supported with CPU pinning, "
            "real time and NUMA nodes"
        )
    return frozenset(range(flavor.vcpus))


def masked_cpus(flavor: Flavor, mask: str, source: str) -> frozenset[int]:
    """Parse a CPU mask, relative to all CPUs of the flavor if it begins with ``^``.

    Raises :class:`Invalid`, naming its ``source``, for an invalid mask.
    """
    cpus = cpu_set(mask, source)
    if not mask.strip().startswith("^") or not all_cpus(flavor):
        return cpus
    return cpu_set(f"0-{flavor.vcpus - 1},{mask}", source)


def _parse_range(part: str) -> range:
    first, hyphen, last = part.removeprefix("^").partition("-")
    try:
        start = int(first)
        end = int(last) if hyphen else start
    except ValueError:
        raise ValueError(f"{part!r} is neither a number nor a range of numbers") from None
    if not 0 <= start <= end:
        raise ValueError(f"the range {part!r} ends before it begins")
    if end >= MAX_CPUS:
        raise ValueError(f"{part!r} exceeds {MAX_CPUS - 1}, the highest CPU number")
    return range(start, end + 1)
