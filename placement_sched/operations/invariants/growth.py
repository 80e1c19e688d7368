"""Verifies between two moments what one cannot show: generations of what stays only grow."""

from dataclasses import dataclass

from placement_sched.db.transaction import Database
from placement_sched.model.results.invariants import Invariant, Violation
from placement_sched.operations.invariants.sentences import violation_of
from placement_sched.store.invariants.references import (
    Generations,
    consumer_generations,
    provider_generations,
)


@dataclass(frozen=True, slots=True)
class GenerationsSeen:
    """The generations of a moment, by number, uuid, and when it was made.

    What is made again has another number; but SQLite gives that of the last consumer again, which
    then differs only where it was made in another second.
    """

    providers: Generations
    consumers: Generations


def generations(database: Database) -> GenerationsSeen:
    """Return the generations of this moment."""
    with database.snapshot() as connection:
        return GenerationsSeen(provider_generations(connection), consumer_generations(connection))


def fallen(before: GenerationsSeen, after: GenerationsSeen) -> tuple[Violation, ...]:
    """Return what has a lower generation ``after`` than ``before``."""
    pairs = (
        ("provider", before.providers, after.providers),
        ("consumer", before.consumers, after.consumers),
    )
    return tuple(
        violation_of(
            Invariant.GENERATION_FELL,
            {"what": what, "uuid": key[1], "before": old, "after": new[key]},
        )
        for what, earlier, new in pairs
        for key, old in earlier.items()
        if key in new and new[key] < old
    )
