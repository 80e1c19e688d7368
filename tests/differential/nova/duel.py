# SPDX-License-Identifier: Apache-2.0
"""Random requests to nova's own functions and to our scheduler: what they ask of placement."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Self

from tests.differential.duel import PEER_PYTHON, CaseDuel, without_a_part
from tests.differential.generate.dice import Dice
from tests.differential.nova.compare import Differences, differences
from tests.differential.nova.explained import Seen, explain
from tests.differential.nova.generate.cloud import cloud
from tests.differential.nova.generate.requests import Asked, request
from tests.differential.nova.sides import Ours, Theirs

#: So many requests are made in one cloud.
EPISODE = 25
#: Without which neither side, or only one, would take the request.
_NEEDED = frozenset(
    {"project_id", "flavor", "vcpus", "memory_mb", "extra_specs", "properties", "id"}
)


class NovaDuel(CaseDuel):
    """``seen`` of a tally counts nova's verdicts."""

    name, noun, many = "nova", "requests", 1000
    cases = Path(__file__).parent / "cases"

    @classmethod
    def opened(cls, folder: Path, python: Path = PEER_PYTHON) -> Self:
        return cls(
            Ours(f"sqlite:///{folder / 'ours.db'}"),
            Theirs(f"sqlite:///{folder / 'theirs.db'}", python),
        )

    def questions(self, random: Random) -> Iterator[Asked]:
        dice = Dice(random)
        while True:
            here = cloud(dice)
            for _ in range(EPISODE):
                yield request(dice, here)

    def see(self, asked: Asked) -> tuple[Seen, list[str], Differences]:
        seen = Seen(asked, self.ours.ask(asked), self.theirs.ask(asked), self.theirs.ask)
        return seen, *explain(seen, differences(asked, seen.ours, seen.theirs))

    def good_for(self, asked: Asked, answers: Seen) -> Iterable[Any]:
        return [answers.theirs.verdict]

    def kind(self, asked: Asked, left: Differences) -> tuple[str, ...]:
        return (*sorted(left), *(str(value)[:60] for value in left.get("verdict", ())))

    def kept(self, asked: Asked) -> Any:
        return asked.kept()

    def smaller(self, asked: Asked) -> Iterator[Asked]:
        for options in _less(asked.options):
            yield replace(asked, options=options)
        for number in range(len(asked.cloud.aggregates)):
            kept = asked.cloud.aggregates[:number] + asked.cloud.aggregates[number + 1 :]
            yield replace(asked, cloud=replace(asked.cloud, aggregates=kept))
        for spec in _less(asked.request_spec):
            yield replace(asked, request_spec=spec)


def _less(said: Any) -> Iterator[Any]:
    for less in without_a_part(said, _NEEDED, lists=False):
        document = {**less, "image": None} if "image" in said and "image" not in less else less
        if document != said:
            yield document
