"""The files of what is known from before: generations of a moment, and acknowledged writes.

Both have one JSON object in each line, so that an error in them has a line, and a client can add to
its own after each answer. That of generations begins with a line that says how many there are of
each: a file that was cut is not taken for a whole one.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import orjson

from placement_sched.errors import Invalid
from placement_sched.model.naming import canonical
from placement_sched.model.results.invariants import (
    AcknowledgedWrites,
    Generations,
    GenerationsSeen,
)

#: What the first line of a file of generations says that it is.
_FORMAT = "placement_sched generations, 1"
_WRITE = '{"consumer": UUID, "allocations": {UUID: {"resources": {NAME: AMOUNT}}}}'


def generation_lines(seen: GenerationsSeen, now: datetime) -> Iterator[bytes]:
    """Yield the lines of a file from which :func:`read_generations` reads the same again."""
    kinds = (("provider", seen.providers), ("consumer", seen.consumers))
    counts = {f"{kind}s": len(some) for kind, some in kinds}
    yield _line({"format": _FORMAT, "taken_at": now.isoformat(), **counts})
    for kind, some in kinds:
        for (number, uuid, made), generation in some.items():
            at = None if made is None else made.isoformat()
            yield _line({kind: uuid, "id": number, "created_at": at, "generation": generation})


def read_generations(name: str, lines: Iterable[bytes]) -> GenerationsSeen:
    """Return the generations that a file holds.

    Raises :class:`Invalid`, with the name of the file and the number of the line.
    """
    documents = _documents(name, lines)
    number, head = next(documents, (1, {}))
    if head.get("format") != _FORMAT:
        raise _wrong(name, number, "this is not a file that --snapshot wrote")
    kinds: dict[str, Generations] = {"provider": {}, "consumer": {}}
    for number, document in documents:
        kind = "provider" if "provider" in document else "consumer"
        try:
            made = document["created_at"]
            at = None if made is None else datetime.fromisoformat(made)
            key = int(document["id"]), str(document[kind]), at
            kinds[kind][key] = int(document["generation"])
        except (LookupError, TypeError, ValueError):
            expected = "a provider or consumer with id, created_at and generation"
            raise _wrong(name, number, f"expected {expected}") from None
    for kind, some in kinds.items():
        if head.get(f"{kind}s") != len(some):
            words = f"{len(some)} {kind}s follow, where the first line has {head.get(f'{kind}s')}"
            raise _wrong(name, number, words)
    return GenerationsSeen(kinds["provider"], kinds["consumer"])


def read_acknowledged(name: str, lines: Iterable[bytes]) -> AcknowledgedWrites:
    """Return the writes that a file holds, in their order.

    Raises :class:`Invalid`, with the name of the file and the number of the line.
    """
    writes = AcknowledgedWrites()
    for number, document in _documents(name, lines):
        known = {"consumer", "allocations", "answered"}
        answered = document.get("answered", True)
        consumer = document.get("consumer")
        amounts = _amounts(document.get("allocations"))
        if unknown := sorted(document.keys() - known):
            raise _wrong(name, number, f"{unknown[0]!r} is none of {', '.join(sorted(known))}")
        if not isinstance(consumer, str) or amounts is None or not isinstance(answered, bool):
            raise _wrong(name, number, f"expected {_WRITE}")
        writes.note(canonical(consumer), amounts, answered=answered)
    return writes


def _amounts(allocations: Any) -> dict[tuple[str, str], int] | None:
    """Return the amounts of the allocations of a request; None where they have another form."""
    found: dict[tuple[str, str], int] = {}
    try:
        for provider, part in allocations.items():
            for name, used in part["resources"].items():
                if type(used) is not int:
                    return None
                found[canonical(provider), name] = used
    except (AttributeError, LookupError, TypeError):
        return None
    return found


def _documents(name: str, lines: Iterable[bytes]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the object of each line that is not blank, with its number."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            document = orjson.loads(line)
        except ValueError as wrong:
            raise _wrong(name, number, f"not JSON: {wrong}") from None
        if not isinstance(document, dict):
            raise _wrong(name, number, "expected a JSON object")
        yield number, document


def _line(document: Mapping[str, Any]) -> bytes:
    return orjson.dumps(document) + b"\n"


def _wrong(name: str, number: int, words: str) -> Invalid:
    return Invalid(f"{name}: line {number}: {words}")
