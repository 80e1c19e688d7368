"""Cuts a request to the parts without which the difference would not show."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tests.differential.nova.duel import Duel, Finding
from tests.differential.nova.generate.requests import Asked

#: Without which neither side, or only one, would take the request.
_NEEDED = {"project_id", "flavor", "vcpus", "memory_mb", "extra_specs", "properties", "id"}


def shrink(duel: Duel, finding: Finding) -> Finding:
    """Return the finding with as small a request and cloud as is found by leaving parts out."""
    smaller = True
    while smaller:
        smaller = False
        for asked in _without_a_part(finding.asked):
            _, _, left = duel.see(asked)
            found = Finding(asked, left)
            if left and found.kind == finding.kind:
                finding, smaller = found, True
                break
    return finding


def _without_a_part(asked: Asked) -> Iterator[Asked]:
    for options in _less(asked.options):
        yield replace(asked, options=options)
    for number in range(len(asked.cloud.aggregates)):
        kept = asked.cloud.aggregates[:number] + asked.cloud.aggregates[number + 1 :]
        yield replace(asked, cloud=replace(asked.cloud, aggregates=kept))
    for spec in _less(asked.request_spec):
        yield replace(asked, request_spec=spec)


def _less(said: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what is said without one key, here or in a value."""
    for key, value in said.items():
        if key not in _NEEDED and value is not None:
            rest = {name: one for name, one in said.items() if name != key}
            yield {**rest, "image": None} if key == "image" else rest
        if isinstance(value, Mapping) and value:
            for less in _less(value):
                yield {**said, key: less}
