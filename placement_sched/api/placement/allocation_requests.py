"""Allocation requests as JSON: written once for each layout, then filled in with providers."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import orjson

from placement_sched.api.microversion import Version
from placement_sched.api.placement import microversions as mv
from placement_sched.model.candidate import AllocationRequest, Layout

#: Stands in a template for the provider in a place; no name of anything has such signs.
_MARK = "<{}>"
_MARKED = re.compile(r"<(\d+)>")


@dataclass(frozen=True, slots=True)
class _Template:
    """The JSON of a layout with %s for each uuid, and who picks these from the places."""

    text: str
    pick: Callable[[tuple[str, ...]], Any]


def render(requests: Iterable[AllocationRequest], version: Version) -> bytes:
    """Return the JSON list of requests in the form of a microversion."""
    templates: dict[int, _Template] = {}
    told = []
    for layout, uuids, _ in requests:
        template = templates.get(id(layout))
        if template is None:
            template = templates[id(layout)] = _template(layout, version)
        told.append(template.text % template.pick(uuids))
    return f"[{','.join(told)}]".encode()


def _template(layout: Layout, version: Version) -> _Template:
    marks = tuple(_MARK.format(place) for place in range(len(layout.amounts)))
    document = _as_json(AllocationRequest(layout, marks, marks[0]), version)
    text = orjson.dumps(document).decode().replace("%", "%%")
    places = [int(place) for place in _MARKED.findall(text)]
    return _Template(_MARKED.sub("%s", text), itemgetter(*places))


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
