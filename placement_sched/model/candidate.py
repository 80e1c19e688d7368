"""What an allocation-candidates search finds: who can serve a request, and with what."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateProvider:
    """A provider as a search finds it; ``id`` and ``generation`` are the table's."""

    id: int
    uuid: str
    generation: int
    root_uuid: str
    parent_uuid: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationRequest:
    """One way to serve a request: amounts by class by provider uuid, and who serves which group."""

    allocations: Mapping[str, Mapping[str, int]]
    mappings: Mapping[str, tuple[str, ...]]
    root_uuid: str

    def as_json(self) -> dict[str, object]:
        """Return the form that ``PUT /allocations`` takes from microversion 1.34 on."""
        return {
            "allocations": {
                uuid: {"resources": dict(amounts)} for uuid, amounts in self.allocations.items()
            },
            "mappings": {suffix: list(uuids) for suffix, uuids in self.mappings.items()},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The answer of a search; empty is an answer.

    ``limited``: there are as many as the limit allows, and perhaps there were more.
    """

    requests: tuple[AllocationRequest, ...] = ()
    providers: tuple[CandidateProvider, ...] = ()
    limited: bool = False
