"""Where a request may go, as asked and as request filters narrow it (nova's Destination)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from placement_sched.model.allocation import canonical
from placement_sched.model.nova_object import NovaObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination(NovaObject):
    """A wanted host, node or cell, and provider aggregates.

    Each item of ``aggregates`` is a comma-joined list of uuids, of which a host must be in one;
    items are ANDed. A host must be in none of ``forbidden_aggregates``.
    """

    host: str | None = None
    node: str | None = None
    cell: str | None = None
    aggregates: tuple[str, ...] = ()
    forbidden_aggregates: tuple[str, ...] = ()
    allow_cross_cell_move: bool = False

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the destination that a request's JSON object describes; null counts as absent."""
        return cls(
            host=document.get("host"),
            node=document.get("node"),
            cell=document.get("cell"),
            aggregates=tuple(document.get("aggregates") or ()),
            forbidden_aggregates=tuple(document.get("forbidden_aggregates") or ()),
            allow_cross_cell_move=bool(document.get("allow_cross_cell_move")),
        )

    @property
    def only_cell(self) -> str | None:
        """Return the cell to which this confines, as cells are kept; None where there is none.

        Where a move to another cell is allowed, the cell named is only the preferred one.
        """
        return canonical(self.cell) if self.cell and not self.allow_cross_cell_move else None

    @property
    def preferred_cell(self) -> str | None:
        """Return the cell to stay in where others are allowed, as cells are kept, or None."""
        return canonical(self.cell) if self.cell and self.allow_cross_cell_move else None

    def requiring(self, uuids: Iterable[str]) -> Self:
        """Return this, confined to hosts in at least one of the aggregates of these uuids."""
        return replace(self, aggregates=(*self.aggregates, ",".join(uuids)))

    def forbidding(self, uuids: Iterable[str]) -> Self:
        """Return this without hosts in any of these aggregates; earlier ones stay forbidden."""
        known = self.forbidden
        added = [uuid for uuid in uuids if uuid not in known]
        return replace(self, forbidden_aggregates=(*self.forbidden_aggregates, *added))

    @property
    def forbidden(self) -> frozenset[str]:
        """Return each forbidden aggregate, spelled as aggregates are kept.

        Items of ``forbidden_aggregates`` may be joined by commas, and spelled as a caller likes.
        """
        return frozenset(
            canonical(uuid) for joined in self.forbidden_aggregates for uuid in joined.split(",")
        )
