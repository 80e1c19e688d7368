"""What is asked of allocation candidates and of lists of providers, as frozen values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TraitTerms:
    """Which traits are wanted: one of every set in ``required``, and none of ``forbidden``."""

    required: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """Return every trait named."""
        return self.forbidden.union(*self.required)


@dataclass(frozen=True, slots=True)
class AggregateTerms:
    """Which aggregates are wanted: one of every set in ``member_of``, none of ``forbidden``.

    Aggregates are named by uuid, in lower case with hyphens.
    """

    member_of: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()

    @property
    def uuids(self) -> frozenset[str]:
        """Return every aggregate named."""
        return self.forbidden.union(*self.member_of)
