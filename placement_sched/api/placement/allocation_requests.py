"""Allocation requests as JSON: written once for each layout, then filled in with providers."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson

from placement_sched.api.microversion import Version
from placement_sched.api.placement import microversions as mv
from placement_sched.db.batches import AT_ONCE, batches
from placement_sched.model.candidate import AllocationRequest, Layout

#: Stands in a template for the provider in a place; no name of anything has such signs.
_MARK = "<{}>"
_MARKED = re.compile(r"<(\d+)>")


@dataclass(frozen=True, slots=True)
class _Template:
    """The JSON of a layout in pieces, and which place's uuid stands between each two of them."""

    pieces: tuple[str, ...]
    places: tuple[int, ...]

    def filled(self, uuids: tuple[str, ...]) -> str:
        """Return the JSON with the uuid of the provider in each place."""
        first, *others = self.pieces
        named = map(uuids.__getitem__, self.places)
        return first + "".join(chain.from_iterable(zip(named, others, strict=True)))


def render(requests: Iterable[AllocationRequest], version: Version) -> bytes:
    """Return the JSON list of requests in the form of a microversion."""
    told = _each(requests, version)
    joined = [",".join(some).encode() for some in batches(told, AT_ONCE)]
    return b"[%b]" % b",".join(joined)


def _each(requests: Iterable[AllocationRequest], version: Version) -> Iterator[str]:
    templates: dict[int, _Template] = {}
    for layout, uuids, _ in requests:
        template = templates.get(id(layout))
        if template is None:
            template = templates[id(layout)] = _template(layout, version)
        # One provider alone is the usual case, and comes in thousands.
        if len(uuids) == 1:
            yield uuids[0].join(template.pieces)
        else:
            yield template.filled(uuids)


def _template(layout: Layout, version: Version) -> _Template:
    marks = tuple(_MARK.format(place) for place in range(len(layout.amounts)))
    document = _as_json(AllocationRequest(layout, marks, marks[0]), version)
    # What the pattern captures stands at every other place.
    pieces = _MARKED.split(orjson.dumps(document).decode())
    return _Template(tuple(pieces[::2]), tuple(map(int, pieces[1::2])))


def _as_json(request: AllocationRequest, version: Version) -> Mapping[str, Any]:
    if version.has(mv.MAPPINGS):
        return request.as_json()
    if version.has(mv.ALLOCATIONS_BY_PROVIDER_UUID):
        return {"allocations": request.as_json()["allocations"]}
    return {
        "allocations": [
            {"resource_provider": {"uuid": uuid}, "resources": dict(amounts)}
            for uuid, amounts in request.allocations.items()
        ]
    }
