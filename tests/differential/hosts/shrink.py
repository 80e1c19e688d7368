"""Cuts a case to the parts without which the difference would not show."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tests.differential.hosts.case import Case
from tests.differential.hosts.duel import Duel, Finding

#: What nova's side reads of everything, or without which neither side takes the request.
_NEEDED = {
    "project_id", "flavor", "name", "vcpus", "memory_mb", "extra_specs", "properties", "image",
    "uuid", "host", "policy", "members", "hosts", "metadata", "instance_uuids",
}  # fmt: skip
#: The parts of a case in which nothing but the named is needed.
_LISTS = ("aggregates", "instances", "chain")


def shrink(duel: Duel, finding: Finding) -> Finding:
    """Return the finding with as small a case as is found by leaving parts out."""
    smaller = True
    while smaller:
        smaller = False
        for case in _without_a_part(finding.case):
            _, _, left = duel.see(case)
            found = Finding(case, left)
            if left and found.kind == finding.kind:
                finding, smaller = found, True
                break
    return finding


def _without_a_part(case: Case) -> Iterator[Case]:
    if len(case.hosts) > 1:
        for number in range(len(case.hosts)):
            yield replace(case, hosts=case.hosts[:number] + case.hosts[number + 1 :])
    for name in _LISTS:
        for kept in _less(list(getattr(case, name))):
            yield replace(case, **{name: tuple(kept)})
    for options in _less(case.options):
        yield replace(case, options=options)
    for spec in _less(case.request_spec):
        yield replace(case, request_spec=spec)
    for number, host in enumerate(case.hosts):
        for key in ("stats", "metrics", "supported_hv_specs"):
            for kept in _shorter(host["report"][key]):
                less = {**host, "report": {**host["report"], key: kept}}
                yield replace(case, hosts=(*case.hosts[:number], less, *case.hosts[number + 1 :]))


def _less(said: Any) -> Iterator[Any]:
    """Yield what is said without one key or item, here or in a value."""
    yield from _shorter(said)
    if isinstance(said, Mapping):
        for key, value in said.items():
            for less in _less(value):
                yield {**said, key: less}
    elif isinstance(said, list):
        for place, value in enumerate(said):
            for less in _less(value):
                yield [*said[:place], less, *said[place + 1 :]]


def _shorter(said: Any) -> Iterator[Any]:
    """Yield what is said without one key or item of its own."""
    if isinstance(said, Mapping):
        for key in said:
            if key not in _NEEDED:
                yield {name: one for name, one in said.items() if name != key}
    elif isinstance(said, list):
        for place in range(len(said)):
            yield said[:place] + said[place + 1 :]
