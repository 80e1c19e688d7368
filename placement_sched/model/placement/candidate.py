"""Allocation candidates: the providers that can serve a request, and the amounts of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class CandidateProvider(NamedTuple):
    """A provider as a search finds it; ``id`` and ``generation`` are the table's."""

    id: int
    uuid: str
    generation: int
    root_uuid: str
    parent_uuid: str | None


@dataclass(frozen=True, slots=True)
class Layout:
    """What each provider of a request gives, and which group it serves: by place, not by name.

    The requests of one answer come in thousands and differ by their providers; their layouts are
    few. ``amounts`` has the amount by class of each place (none where a group asks only for
    traits), ``mappings`` the places by suffix.
    """

    amounts: tuple[Mapping[str, int], ...]
    mappings: Mapping[str, tuple[int, ...]]


class AllocationRequest(NamedTuple):
    """One way to serve a request: the uuid of the provider in each place of the layout."""

    layout: Layout
    uuids: tuple[str, ...]
    root_uuid: str

    @property
    def allocations(self) -> dict[str, Mapping[str, int]]:
        """Return the amounts by class by provider uuid."""
        gives = zip(self.uuids, self.layout.amounts, strict=True)
        return {uuid: amounts for uuid, amounts in gives if amounts}

    @property
    def mappings(self) -> dict[str, tuple[str, ...]]:
        """Return the uuids of the providers of each group, by its suffix."""
        uuids = self.uuids
        return {
            suffix: tuple(uuids[place] for place in places)
            for suffix, places in self.layout.mappings.items()
        }

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

    ``limited``: there are as many as the limit allows, and perhaps there were more. ``trees`` are
    all providers of the trees that its providers are of (None where that is not known).
    """

    requests: tuple[AllocationRequest, ...] = ()
    providers: tuple[CandidateProvider, ...] = ()
    limited: bool = False
    trees: tuple[CandidateProvider, ...] | None = None


def together(several: Sequence[Candidates]) -> Candidates:
    """Return what several searches found, each provider once, in their order."""
    if len(several) == 1:
        return several[0]
    providers = {provider.id: provider for one in several for provider in one.providers}
    return Candidates(
        requests=tuple(request for one in several for request in one.requests),
        providers=tuple(providers.values()),
        limited=any(one.limited for one in several),
    )
