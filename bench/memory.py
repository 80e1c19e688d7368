# SPDX-License-Identifier: Apache-2.0
"""How much memory a worker holds after many different requests."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from random import Random
from urllib.parse import urlencode

from both_servers import Server
from questions import PLAIN
from targets import Finding, at_most
from worlds.flat import FlatWorld
from worlds.hardware import CUSTOM_TRAITS

HELD = at_most(400, unit=" MB")
#: What the size may grow between the two marks and still be called the same: bounded caches of
#: statements fill, and the heap is never as tight twice.
GROWTH = at_most(1.05)
#: Once in so many queries everything is asked for.
WHOLE = 250


@dataclass(frozen=True, slots=True)
class Result:
    """Resident megabytes at the start, after each mark, and at the peak; after all of one size."""

    hosts: int
    fresh_mb: float
    after_mb: dict[int, float]
    peak_mb: float
    #: After one request without a limit.
    whole_mb: float

    @property
    def findings(self) -> tuple[Finding, Finding]:
        """Return the size after the first mark, and its growth to the last."""
        marks = sorted(self.after_mb)
        first, last = self.after_mb[marks[0]], self.after_mb[marks[-1]]
        where = f"{self.hosts} hosts"
        return (
            Finding(f"memory after {marks[0]} queries, {where}", first, HELD),
            Finding(f"memory, query {marks[0]} to {marks[-1]}, {where}", last / first, GROWTH),
        )


def mixture(world: FlatWorld, seed: int) -> Iterator[str]:
    """Yield paths without end: flavors, traits, aggregates and limits as a scheduler mixes them.

    Now and then one asks for all there is, so that every summary has been made before the first
    mark: what is kept of them is bounded, and is not what growth is looked for.
    """
    random, places = Random(f"mixture {seed}"), world.places
    for number in count(1):
        if number % WHOLE == WHOLE // 2:
            yield f"/allocation_candidates?{urlencode([('resources', 'VCPU:1')])}"
        vcpus = random.choice((1, 2, 4, 8, 16))
        resources = f"VCPU:{vcpus},MEMORY_MB:{vcpus * random.choice((1024, 2048, 4096))}"
        terms = [("resources", f"{resources},DISK_GB:{random.randint(1, 10) * 10}")]
        if random.random() < 0.4:
            wanted = random.sample(CUSTOM_TRAITS, random.randint(1, 2))
            terms.append(("required", ",".join((wanted[0], *(f"!{one}" for one in wanted[1:])))))
        if random.random() < 0.4:
            members = random.choice((places.zones, places.tags, places.racks))
            some = random.sample(members, min(random.randint(1, 5), len(members)))
            terms.append(("member_of", f"{random.choice(('in:', '!in:'))}{','.join(some)}"))
        terms.append(("limit", str(random.choice((1, 10, 100, 1000, 1000)))))
        yield f"/allocation_candidates?{urlencode(terms)}"


def measure(world: FlatWorld, server: Server, marks: tuple[int, ...]) -> Result:
    """Ask ``server``, which has one worker, that many queries; return what it held meanwhile."""
    fresh, after = server.resident_mb(), {}
    for number, path in enumerate(mixture(world, world.seed), start=1):
        server.get(path)
        if number in marks:
            print(f"  memory, query {number} ...", file=sys.stderr, flush=True)
            after[number] = server.resident_mb()
        if number == max(marks):
            break
    peak = server.peak_mb()
    server.get(f"/allocation_candidates?{urlencode([('resources', PLAIN)])}")
    return Result(world.size, fresh, after, peak, server.resident_mb())
