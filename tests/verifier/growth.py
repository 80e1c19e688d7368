# SPDX-License-Identifier: Apache-2.0
"""Comparison of a database with its earlier generations and with acknowledged writes."""

from collections.abc import Iterator, Mapping

from placement_sched.db.transaction import Connection, Database
from placement_sched.model.checks import Violation
from tests.verifier import class_names, recorded_claims, references
from tests.verifier.model import AcknowledgedWrites, Fault, GenerationsSeen
from tests.verifier.sentences import amounts_of, violation_of

_Found = Iterator[tuple[Fault, Mapping[str, object]]]


def read_generations(database: Database) -> GenerationsSeen:
    with database.snapshot() as connection:
        return references.read_generations(connection)


def fallen_generations(before: GenerationsSeen, after: GenerationsSeen) -> tuple[Violation, ...]:
    return tuple(violation_of(*fault) for fault in _find_fallen(before, after))


def lost_writes(database: Database, writes: AcknowledgedWrites) -> tuple[Violation, ...]:
    with database.snapshot() as connection:
        return tuple(violation_of(*fault) for fault in _find_lost(connection, writes))


def _find_fallen(before: GenerationsSeen, after: GenerationsSeen) -> _Found:
    pairs = (
        ("provider", before.providers, after.providers),
        ("consumer", before.consumers, after.consumers),
    )
    for what, earlier, new in pairs:
        for key, old in earlier.items():
            if key in new and new[key] < old:
                about = {"what": what, "uuid": key[1], "before": old, "after": new[key]}
                yield Fault.GENERATION_FELL, about


def _find_lost(connection: Connection, writes: AcknowledgedWrites) -> _Found:
    held = recorded_claims.held_amounts(connection, sorted(writes.by_consumer))
    # The times of the writes are not recorded. A renamed class may have had its old name.
    names = class_names.ClassNames(connection)
    for consumer, expected in writes.by_consumer.items():
        holds = held.get(consumer, {})
        if not any(
            class_names.is_equal_amount(amounts, holds, names.unchanged_since_request(amounts))
            for amounts in expected
        ):
            yield (
                Fault.ACKNOWLEDGED_LOST,
                {
                    "consumer": consumer,
                    "held": amounts_of(holds),
                    "expected": " or ".join(map(amounts_of, expected)),
                },
            )
