# SPDX-License-Identifier: Apache-2.0
"""Flavors, under nova's Flavor attribute names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from placement_sched.model.document import NovaObjectDictCompat

#: ``trait:X`` and ``trait<suffix>:X``, with the suffix of a placement request group.
TRAIT_KEY = re.compile(r"trait(?P<suffix>[a-zA-Z0-9_-]{0,64}):(?P<trait>.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor(NovaObjectDictCompat):
    """The size of an instance: memory and swap in MB, disks in GB."""

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
        """Return the flavor of a request's JSON object."""
        values = {name: document[name] for name in _PLAIN if document.get(name) is not None}
        extra_specs = document.get("extra_specs") or {}
        return cls(
            **values,
            # The compute API represents no swap as the empty string.
            swap=int(document.get("swap") or 0),
            extra_specs={key: str(value) for key, value in extra_specs.items()},
        )

    def as_document(self) -> dict[str, Any]:
        """Return the JSON object that :meth:`from_document` reads."""
        return {name: getattr(self, name) for name in _PLAIN} | {
            "swap": self.swap,
            "extra_specs": dict(self.extra_specs),
        }

    @property
    def required_traits(self) -> frozenset[str]:
        """Return the traits that any request group of the flavor requires."""
        return frozenset(
            match["trait"]
            for key, value in self.extra_specs.items()
            if value == "required" and (match := TRAIT_KEY.fullmatch(key))
        )


class SizedByFlavor:
    """Base class of objects with a flavor, and with its sizes under nova's names."""

    __slots__ = ()

    @property
    def _sizes(self) -> Flavor:
        raise NotImplementedError

    @property
    def vcpus(self) -> int:
        """Return the flavor's virtual CPUs."""
        return self._sizes.vcpus

    @property
    def memory_mb(self) -> int:
        """Return the flavor's memory in MB."""
        return self._sizes.memory_mb

    @property
    def root_gb(self) -> int:
        """Return the flavor's root disk in GB."""
        return self._sizes.root_gb

    @property
    def ephemeral_gb(self) -> int:
        """Return the flavor's ephemeral disk in GB."""
        return self._sizes.ephemeral_gb


_PLAIN = tuple(item.name for item in fields(Flavor) if item.name not in {"swap", "extra_specs"})
