"""Many refusals in few lines: alike reasons together, counted, with one host for example."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_NUMBER = re.compile(r"(?<![\w.-])-?\d+(?:\.\d+)?(?![\w-])(?!\.\w)")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why ``count`` hosts were refused; ``example`` is the first of them."""

    count: int
    text: str
    example: str


def grouped(rejected: Iterable[Mapping[str, Any]]) -> list[Reason]:
    """Return the reasons of a stage's ``rejected`` hosts, most frequent first.

    Reasons that differ in numbers only are one; where the numbers differ their range is shown:
    ``4096 free`` and ``8192 free`` become ``4096..8192 free``.
    """
    alike: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for entry in rejected:
        alike[_NUMBER.sub("#", entry["reason"])].append(entry)
    found = [
        Reason(
            len(entries),
            _spanning([entry["reason"] for entry in entries]),
            named(entries[0]["host"], entries[0]["node"]),
        )
        for entries in alike.values()
    ]
    return sorted(found, key=lambda reason: (-reason.count, reason.text))


def named(host: str, node: str) -> str:
    """Return how a node is called: by its host, and by its own name where that is another."""
    return host if host == node else f"{host} ({node})"


def _spanning(reasons: Sequence[str]) -> str:
    """Return one sentence for reasons of the same words: each number, or the range it takes."""
    columns = iter(zip(*(_NUMBER.findall(reason) for reason in reasons), strict=True))

    def span(_match: re.Match[str]) -> str:
        numbers = sorted(set(next(columns)), key=float)
        return numbers[0] if len(numbers) == 1 else f"{numbers[0]}..{numbers[-1]}"

    return _NUMBER.sub(span, reasons[0])
