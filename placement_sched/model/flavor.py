# SPDX-License-Identifier: Apache-2.0
"""Flavors under nova's attribute names, and CPU sets such as ``0-3,^2,8``.

Source of the syntax of CPU sets: nova's documentation, "CPU topologies".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from placement_sched.errors import Invalid
from placement_sched.limits import MAX_CPU_SET_CHARACTERS, MAX_CPUS
from placement_sched.model.document import NovaObjectDictCompat

#: ``trait:X`` and ``trait<suffix>:X``, with the suffix of a placement request group.
TRAIT_KEY = re.compile(r"trait(?P<suffix>[a-zA-Z0-9_-]{0,64}):(?P<trait>.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor(NovaObjectDictCompat):
    """A flavor, with memory and swap in MB, and disks in GB."""

    name: str = ""
    vcpus: int = 0
    memory_mb: int = 0
    root_gb: int = 0
    ephemeral_gb: int = 0
    swap: int = 0
    extra_specs: Mapping[str, str] = field(default_factory=dict)
    id: int | str | None = None
    flavorid: str | None = None
    rxtx_factor: float = 1.0
    vcpu_weight: int = 0
    disabled: bool = False
    is_public: bool = True
    description: str | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Read a flavor from its JSON object in a request."""
        values = {name: document[name] for name in _COPIED_KEYS if document.get(name) is not None}
        extra_specs = document.get("extra_specs") or {}
        return cls(
            **values,
            # In the compute API, an empty string means no swap.
            swap=int(document.get("swap") or 0),
            extra_specs={key: str(value) for key, value in extra_specs.items()},
        )

    def as_document(self) -> dict[str, Any]:
        """Return the JSON object that :meth:`from_document` reads."""
        return {name: getattr(self, name) for name in _COPIED_KEYS} | {
            "swap": self.swap,
            "extra_specs": dict(self.extra_specs),
        }

    @property
    def required_traits(self) -> frozenset[str]:
        """Return the traits that any request group of the flavor requires."""
        return frozenset(
            match["trait"].strip()
            for key, value in self.extra_specs.items()
            if value == "required" and (match := TRAIT_KEY.fullmatch(key))
        )


def _build_size(name: str) -> Any:
    """Build the property for a size of a flavor, 0 if the flavor is None."""
    return property(lambda self: getattr(self.flavor or _UNKNOWN, name))


_UNKNOWN = Flavor()


class SizedByFlavor:
    """Base class of objects with the sizes of their flavor as attributes."""

    __slots__ = ()

    vcpus: int = _build_size("vcpus")
    memory_mb: int = _build_size("memory_mb")
    root_gb: int = _build_size("root_gb")
    ephemeral_gb: int = _build_size("ephemeral_gb")


_COPIED_KEYS = tuple(
    item.name for item in fields(Flavor) if item.name not in {"swap", "extra_specs"}
)


def parse_cpus(text: str) -> frozenset[int]:
    """Parse CPU numbers and ranges, except CPUs after ``^``.

    Raises :class:`ValueError`, also above :data:`MAX_CPU_SET_CHARACTERS` characters.
    """
    if len(text) > MAX_CPU_SET_CHARACTERS:
        raise ValueError(
            f"it has {len(text)} characters, and at most {MAX_CPU_SET_CHARACTERS} are supported"
        )
    # Bits are faster than sets if each of a thousand parts names all CPUs.
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


def parse_cpu_set(text: str, source: str = "CPU set") -> frozenset[int]:
    """Parse a CPU set such as ``0-3,^2``.

    Raises :class:`Invalid` for an invalid text. The error names the ``source`` of the text.
    """
    try:
        return parse_cpus(text)
    except ValueError as error:
        raise Invalid(f"{source}: {text!r} is not a set of CPUs: {error}") from None


def list_cpus(flavor: Flavor) -> frozenset[int]:
    """Return the virtual CPUs of a flavor, numbered from 0.

    Raises :class:`Invalid` for a flavor with more than :data:`MAX_CPUS` CPUs.
    """
    if flavor.vcpus > MAX_CPUS:
        raise Invalid(
            f"flavor has {flavor.vcpus} vcpus: at most {MAX_CPUS} are supported with CPU pinning, "
            "real time and NUMA nodes"
        )
    return frozenset(range(flavor.vcpus))


def parse_cpu_mask(flavor: Flavor, mask: str, source: str) -> frozenset[int]:
    """Parse a CPU mask. A mask such as ``^0`` has all other CPUs.

    Raises :class:`Invalid` for an invalid mask. The error names the ``source`` of the mask.
    """
    cpus = parse_cpu_set(mask, source)
    if not mask.strip().startswith("^") or not list_cpus(flavor):
        return cpus
    return parse_cpu_set(f"0-{flavor.vcpus - 1},{mask}", source)


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
