"""How commands print what a reading of nova's databases found."""

from collections.abc import Iterator
from dataclasses import asdict

from placement_sched.model.document import Json
from placement_sched.nova.sync.findings import Findings

_HEADINGS = ("", "read", "new", "changed", "gone")
_SIGNS = {"new": "+", "changed": "~", "gone": "-"}


def document_of(findings: Findings) -> Json:
    """Return the findings as JSON has them."""
    return {
        "read": {noun: asdict(count) for noun, count in findings.counts.items()},
        "differing": findings.differing,
        "away": list(findings.away),
        "misfits": [{"place": one.place, "reason": one.reason} for one in findings.misfits],
        "differences": [
            {"noun": one.noun, "change": one.kind, "name": one.name, "fields": list(one.fields)}
            for one in findings.unlike
        ],
        "seconds": round(findings.seconds, 3),
    }


def counts_of(findings: Findings) -> Iterator[str]:
    """Yield a table of how much was read of each noun, and how much of it differs."""
    rows = [
        (noun, *map(str, (count.read, count.new, count.changed, count.gone)))
        for noun, count in findings.counts.items()
    ]
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
    for first, *numbers in (_HEADINGS, *rows):
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)]
        yield "  ".join(cells)


def differences_of(findings: Findings) -> Iterator[str]:
    """Yield each difference, after a comparison."""
    for one in findings.unlike:
        fields = f": {', '.join(one.fields)}" if one.fields else ""
        yield f"{_SIGNS[one.kind]} {_singular(one.noun)} {one.name}{fields}"


def faults_of(findings: Findings) -> Iterator[str]:
    """Yield the cells that did not answer, and what cannot be recorded as nova has it."""
    for cell in findings.away:
        yield f"{cell}: its database does not answer; what was recorded of it stays as it was"
    yield from map(str, findings.misfits)


def counted(number: int, nouns: str) -> str:
    """Return a number with a noun given in the plural."""
    return f"{number} {nouns if number != 1 else _singular(nouns)}"


def _singular(nouns: str) -> str:
    return nouns.removesuffix("s")
