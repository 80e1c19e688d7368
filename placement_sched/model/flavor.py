"""A flavor as plugins see it (nova's Flavor attribute names)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

#: ``trait:X`` and ``trait<suffix>:X``, the suffix as placement's request groups have it.
TRAIT_KEY = re.compile(r"trait(?P<suffix>[a-zA-Z0-9_-]{0,64}):(?P<trait>.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    """What an instance is made of: memory and swap in MB, disks in GB."""

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
        """Return the flavor that a request's JSON object describes."""
        given = {name: document[name] for name in _PLAIN if document.get(name) is not None}
        extra_specs = document.get("extra_specs") or {}
        return cls(
            **given,
            # The compute API writes no swap as the empty string.
            swap=int(document.get("swap") or 0),
            extra_specs={key: str(value) for key, value in extra_specs.items()},
        )

    def as_document(self) -> dict[str, Any]:
        """Return the JSON object of which :meth:`from_document` makes this flavor again."""
        return {name: getattr(self, name) for name in _PLAIN} | {
            "swap": self.swap,
            "extra_specs": dict(self.extra_specs),
        }

    def get(self, name: str, default: Any = None) -> Any:
        """Return the attribute of this name, as nova's flavors, which can be read like dicts."""
        return getattr(self, name, default)

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None

    def __contains__(self, name: str) -> bool:
        return hasattr(self, name)

    def obj_attr_is_set(self, name: str) -> bool:
        """Return whether there is something under this name, as nova's objects are asked."""
        return getattr(self, name, None) is not None

    @property
    def required_traits(self) -> frozenset[str]:
        """Return the traits that any of its request groups requires."""
        return frozenset(
            match["trait"]
            for key, value in self.extra_specs.items()
            if value == "required" and (match := TRAIT_KEY.fullmatch(key))
        )


_PLAIN = (
    "name",
    "vcpus",
    "memory_mb",
    "root_gb",
    "ephemeral_gb",
    "id",
    "flavorid",
    "rxtx_factor",
    "vcpu_weight",
    "disabled",
    "is_public",
    "description",
)
