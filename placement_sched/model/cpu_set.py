"""Sets of virtual CPUs as operators write them: ``0-3,^2,8``.

Source: nova's documentation, "CPU topologies".
"""

#: CPUs are numbered below this: no hypervisor gives a guest as many, and a longer set is a slip
#: of the pen that would fill the memory.
MOST_CPUS = 65_536


def cpus_from(text: str) -> frozenset[int]:
    """Return the CPUs that single numbers and ranges name, without those after a ``^``.

    What is taken out is taken out wherever it stands. Raises :class:`ValueError` telling the part
    that cannot be.
    """
    told: set[int] = set()
    left_out: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        (left_out if part.startswith("^") else told).update(_range(part))
    return frozenset(told - left_out)


def _range(part: str) -> range:
    """Return the CPUs of one number, or of two joined by a hyphen."""
    first, hyphen, last = part.removeprefix("^").partition("-")
    try:
        start = int(first)
        end = int(last) if hyphen else start
    except ValueError:
        raise ValueError(f"{part!r} is neither a number nor a range of numbers") from None
    if not 0 <= start <= end:
        raise ValueError(f"the range {part!r} ends before it begins")
    if end >= MOST_CPUS:
        raise ValueError(f"{part!r} goes beyond {MOST_CPUS - 1}, the last CPU there can be")
    return range(start, end + 1)
