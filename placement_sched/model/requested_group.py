"""A request group from outside of flavor and image: of a port, an accelerator or a PCI device."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from placement_sched.model.nova_object import NovaObject


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedGroup(NovaObject):
    """Resources that whoever asks for them needs together, under nova's RequestGroup names.

    ``requester_id`` becomes the suffix of the group. A provider must be in one aggregate of each
    tuple of ``aggregates`` and in none of ``forbidden_aggregates``.
    """

    requester_id: str | None = None
    resources: Mapping[str, int] = field(default_factory=dict)
    required_traits: frozenset[str] = frozenset()
    forbidden_traits: frozenset[str] = frozenset()
    aggregates: tuple[tuple[str, ...], ...] = ()
    forbidden_aggregates: frozenset[str] = frozenset()
    in_tree: str | None = None
    use_same_provider: bool = True
    #: Where in the request, or in the flavor, it came from, if not from ``requested_resources``.
    source: str | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the group that an item of a request's ``requested_resources`` describes."""
        return cls(
            requester_id=document.get("requester_id"),
            resources=dict(document.get("resources") or {}),
            required_traits=frozenset(document.get("required_traits") or ()),
            forbidden_traits=frozenset(document.get("forbidden_traits") or ()),
            aggregates=tuple(map(_any_of, document.get("aggregates") or ())),
            forbidden_aggregates=frozenset(document.get("forbidden_aggregates") or ()),
            in_tree=document.get("in_tree"),
            use_same_provider=document.get("use_same_provider", True),
        )

    @property
    def is_empty(self) -> bool:
        """Return whether it asks for nothing."""
        return not (
            self.resources
            or self.required_traits
            or self.forbidden_traits
            or self.aggregates
            or self.forbidden_aggregates
        )

    def requiring(self, trait: str) -> Self:
        """Return this group with one more required trait."""
        return replace(self, required_traits=self.required_traits | {trait})


def _any_of(given: str | Sequence[str]) -> tuple[str, ...]:
    """Return the aggregates of which one will do, whether joined by commas or listed."""
    return tuple(given.split(",") if isinstance(given, str) else given)
