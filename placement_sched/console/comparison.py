"""One request under two policies, side by side, with what differs in words."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from placement_sched.console.pictures import BEST
from placement_sched.model.decision import SELECTED
from placement_sched.model.document import Json
from placement_sched.model.explanation_reader import compared_stages, named, obstacle, passed

_NONE = "-"


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """A stage or a place: what stands for it under each policy, and how the second differs."""

    name: str
    cells: tuple[str, str]
    difference: str


@dataclass(frozen=True, slots=True)
class Compared:
    """Two answers to one request: what each is called, conclusions, stages and best hosts."""

    names: tuple[str, str]
    conclusions: tuple[tuple[bool, str], tuple[bool, str]]
    stages: tuple[ComparedRow, ...]
    hosts: tuple[ComparedRow, ...]

    @property
    def differs(self) -> bool:
        """Return whether anything is different."""
        rows = [*self.stages, *self.hosts]
        first, second = self.conclusions
        return first != second or any(row.difference for row in rows)


def compared(answers: Sequence[Json], names: tuple[str, str]) -> Compared:
    """Return two explanations side by side, called by these names."""
    first, second = answers
    return Compared(
        names=names,
        conclusions=(_conclusion(first), _conclusion(second)),
        stages=tuple(_stage(name, *reports) for name, reports in compared_stages(answers)),
        hosts=tuple(_places(first["hosts"], second["hosts"])),
    )


def _conclusion(answer: Json) -> tuple[bool, str]:
    if answer["outcome"] != SELECTED:
        return False, obstacle(answer)
    best = answer["hosts"][0]
    words = f"{passed(answer):,} passed, the best is {named(best['host'], best['node'])}"
    return True, words


def _stage(name: str, first: Json | None, second: Json | None) -> ComparedRow:
    if first is None or second is None:
        difference = "only here" if first is None else "not here"
    else:
        difference = _more(second["after"] - first["after"])
    return ComparedRow(name, (_count(first), _count(second)), difference)


def _count(report: Json | None) -> str:
    """Return how many hosts a stage left, and of how many where it refused some."""
    if report is None:
        return _NONE
    before, after = report["before"], report["after"]
    refused = "" if before == after else f" of {before:,}"
    return f"{after:,}{refused}" if before else "not reached"


def _more(by: int) -> str:
    if not by:
        return ""
    return f"{by:,} more left" if by > 0 else f"{-by:,} fewer left"


def _places(first: Sequence[Json], second: Sequence[Json]) -> Iterator[ComparedRow]:
    """Yield the best hosts of both, place by place, and what became of the first policy's."""
    ranks = {_name(host): rank for rank, host in enumerate(second, 1)}
    for place in range(min(BEST, max(len(first), len(second)))):
        cells = (_host(first, place), _host(second, place))
        difference = ""
        if place < len(first):
            difference = _moved(_name(first[place]), place + 1, ranks)
        elif place < len(second):
            difference = f"{_name(second[place])} passes only here"
        yield ComparedRow(str(place + 1), cells, difference)


def _moved(name: str, rank: int, ranks: Mapping[str, int]) -> str:
    then = ranks.get(name)
    if then is None:
        return f"{name} does not pass"
    return "" if then == rank else f"{name} is at place {then}"


def _host(hosts: Sequence[Json], place: int) -> str:
    if place >= len(hosts):
        return _NONE
    return f"{_name(hosts[place])}, {hosts[place]['weight']:.3f}"


def _name(host: Json) -> str:
    return named(host["host"], host["node"])
