"""Random hosts and requests to both sides, and what came of them."""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from tests.differential.generate.dice import Dice
from tests.differential.pci.explained import EXPLANATIONS
from tests.differential.pci.generate import Asked, asked
from tests.differential.pci.sides import Answer, Ours, Theirs


@dataclass(frozen=True)
class Finding:
    """A question that is answered otherwise than by nova, without an explanation."""

    asked: Asked
    ours: Answer
    theirs: Answer


@dataclass
class Tally:
    """What came of a run; ``seen`` counts what the questions were good for."""

    questions: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    explained: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)


class Duel:
    """Two sides, asked in turn."""

    def __init__(self, ours: Ours, theirs: Theirs) -> None:
        self._ours = ours
        self._theirs = theirs

    def run(self, seed: int, questions: int) -> Tally:
        """Put random questions, and return how often what differed."""
        tally, dice = Tally(), Dice(Random(seed))
        for _ in range(questions):
            question = asked(dice)
            ours, theirs, names = self.see(question)
            tally.questions += 1
            tally.seen.update(_good_for(question, theirs))
            tally.explained.update(names)
            if ours != theirs and not names:
                tally.findings.append(Finding(question, ours, theirs))
        return tally

    def see(self, question: Asked) -> tuple[Answer, Answer, list[str]]:
        """Return both answers, and the names of what explains that they differ.

        It does where nova, asked what the explanation makes of the question, answers as we do.
        """
        ours, theirs = self._ours.ask(question), self._theirs.ask(question)
        if ours == theirs:
            return ours, theirs, []
        every = question
        for explanation in EXPLANATIONS:
            mended, every = explanation.mend(question), explanation.mend(every)
            if mended != question and self._theirs.ask(mended) == ours:
                return ours, theirs, [explanation.name]
        names = [one.name for one in EXPLANATIONS if one.mend(question) != question]
        return ours, theirs, names if names and self._theirs.ask(every) == ours else []


def _good_for(question: Asked, theirs: Answer) -> list[str]:
    """Return what a question shows."""
    kept, offered = len(theirs.candidates), len(question.candidates)
    told = {
        "failed": bool(theirs.failed),
        "supported": theirs.supports,
        "refused": not theirs.supports,
        "several requests supported": theirs.supports and len(question.requests) > 1,
        "of providers": theirs.supports and any(map(bool, _groups(question))),
        "near": theirs.supports and bool(question.numa_cells),
        "passed": theirs.passes,
        "candidates dropped": 0 < kept < offered,
    }
    return [name for name, shown in told.items() if shown]


def _groups(question: Asked) -> list[str]:
    """Return the groups of the mappings that are for devices asked for by an alias."""
    ids = [one["request_id"] for one in question.requests if one["alias_name"]]
    return [suffix for suffix in question.mappings or {} if suffix.rpartition("-")[0] in ids]
