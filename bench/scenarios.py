# SPDX-License-Identifier: Apache-2.0
"""The scenarios of a run, in their order: each loads its world, starts servers, and measures."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import both_servers
import cold
import growth
import memory
import pairs
import questions
import reads
import tables
import targets
import throughput
from counting import counter
from databases import Stock
from sqlalchemy.engine import URL
from targets import Finding
from worlds.equal import EqualWorld
from worlds.flat import FlatWorld
from worlds.nested import NestedWorld
from worlds.nodes import ALWAYS_UP
from worlds.rows import World
from worlds.shared import SharedWorld

#: Hosts or trees of each scenario's worlds, as the targets mean them, and in a quick run. Of
#: "equal" it is how many groups one tree is asked for.
SIZES: Mapping[str, tuple[int, ...]] = {
    "flat": (10_000,),
    "large": (50_000,),
    "nested": (10_000,),
    "shared": (10_000,),
    "equal": (6,),
    "reads": (10_000,),
    "throughput": (10_000,),
    "cold": (10_000,),
    "growth": (1_000, 10_000, 100_000),
    "memory": (50_000,),
}
QUICK: Mapping[str, tuple[int, ...]] = {
    "flat": (1_000,),
    "large": (2_000,),
    "nested": (300,),
    "shared": (500,),
    "equal": (4,),
    "reads": (500,),
    "throughput": (1_000,),
    "cold": (1_000,),
    "growth": (500, 1_000, 2_000),
    "memory": (2_000,),
}


@dataclass(frozen=True, slots=True)
class Effort:
    """How long is measured; see the options of the command for what each means."""

    patience: pairs.Patience
    throughput_rounds: int
    throughput_seconds: float
    growth_rounds: int
    growth_peer_up_to: int
    cold_starts: int
    memory_marks: tuple[int, ...]


@dataclass
class Run:
    """What a run on one database goes by, and what it has measured so far.

    ``database`` is its kind; ``venv`` is None without a peer.
    """

    database: str
    stock: Stock
    venv: Path | None
    seed: int
    sizes: Mapping[str, tuple[int, ...]]
    effort: Effort
    results: list[pairs.Result] = field(default_factory=list)
    curves: list[growth.Curve] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    #: What was wrong, of which nothing else is shown.
    wrong: list[str] = field(default_factory=list)
    report: list[str] = field(default_factory=list)

    def find(self, scenario: str, findings: Iterable[Finding]) -> None:
        """Keep figures, and note where their world is not of the size that was promised for."""
        meant = self.sizes[scenario] == SIZES[scenario]
        promised = self.database in targets.DATABASES
        self.findings += (replace(one, applies=meant, promised=promised) for one in findings)

    def show(self, title: str, lines: Iterable[str]) -> None:
        """Print a section and keep it for the report."""
        load = os.getloadavg()[0]
        heading = f"\n## {self.database}: {title} (load average {load:.1f})\n\n"
        section = heading + "\n".join(lines)
        print(section, flush=True)
        self.report.append(section)

    @contextmanager
    def servers(
        self, database: URL, workers: int = 1
    ) -> Iterator[tuple[both_servers.Server, both_servers.Server | None]]:
        """Run ours and, unless it is left out, the peer on the database."""
        with both_servers.both(database, self.venv, workers) as (ours, *others):
            yield ours, others[0] if others else None


def _flat_world(run: Run, size: int) -> FlatWorld:
    return FlatWorld(size, run.seed, ALWAYS_UP)


def _flat(run: Run) -> None:
    world = _flat_world(run, run.sizes["flat"][0])
    _race(run, "flat", world, questions.named(f"flat {world.size}", questions.flat(world)))


def _large(run: Run) -> None:
    world = _flat_world(run, run.sizes["large"][0])
    _race(run, "large", world, questions.named(f"flat {world.size}", questions.large()))


def _nested(run: Run) -> None:
    world = NestedWorld(run.sizes["nested"][0], run.seed)
    _race(
        run, "nested", world, questions.named(f"nested {world.size} x 7", questions.nested(world))
    )


def _shared(run: Run) -> None:
    world = SharedWorld(run.sizes["shared"][0], run.seed)
    _race(
        run, "shared", world, questions.named(f"shared disk {world.size}", questions.shared(world))
    )


def _equal(run: Run) -> None:
    asked = questions.equal(run.sizes["equal"][0])
    _race(run, "equal", EqualWorld(), questions.named("8 equal children", asked))


def _reads(run: Run) -> None:
    (size,) = run.sizes["reads"]
    flat, nested = _flat_world(run, size), NestedWorld(size, run.seed)

    def of_flat(server: both_servers.Server) -> Iterator[pairs.Asked]:
        return chain(reads.of_providers(flat), reads.of_consumers(flat, server))

    _ask_both(run, "reads", flat, of_flat)
    _ask_both(run, "reads", nested, lambda _server: reads.of_providers(nested))


def _race(run: Run, scenario: str, world: World, asked: Sequence[pairs.Asked]) -> None:
    """Ask both in turns; add what was found to the run."""
    _ask_both(run, scenario, world, lambda _server: asked)


def _ask_both(
    run: Run,
    scenario: str,
    world: World,
    asked: Callable[[both_servers.Server], Iterable[pairs.Asked]],
) -> None:
    """Do the same with what ``asked`` gives, which may look into the world by a server of ours.

    A wrong answer is kept, and the next question asked.
    """
    database = run.stock.holding(world)
    first = len(run.results)
    url = database.render_as_string(hide_password=False)
    with run.servers(database) as (ours, peer), counter(url) as count:
        for question in asked(ours):
            try:
                result = pairs.race(question, ours, peer, run.effort.patience, count)
            except both_servers.WrongAnswer as difference:
                run.wrong.append(str(difference))
                continue
            run.results.append(result)
            run.find(scenario, result.findings())
    run.show(
        f"{scenario}, {type(world).__name__} of {world.size:,}", tables.pairs(run.results[first:])
    )


def _throughput(run: Run) -> None:
    world = _flat_world(run, run.sizes["throughput"][0])
    question = questions.named(f"flat {world.size}", questions.flat(world))[0]
    effort = run.effort
    with run.servers(run.stock.holding(world), throughput.WORKERS) as (ours, peer):
        if peer is None:
            print("throughput: left out, as there is no peer to compare with")
            return
        both = (ours, peer)
        result = throughput.race(
            question, both, effort.throughput_rounds, effort.throughput_seconds
        )
    run.find("throughput", [result.finding])
    shown = f"Reads per second, {throughput.WORKERS} workers, {throughput.CLIENTS} clients"
    run.show(f"{shown}, {question.name}", tables.rates(result))


def _cold(run: Run) -> None:
    world = _flat_world(run, run.sizes["cold"][0])
    database = run.stock.holding(world)

    def start() -> AbstractContextManager[both_servers.Server]:
        return both_servers.ours(database)

    for question in questions.named(f"flat {world.size}", questions.flat(world)[:2]):
        result = cold.measure(question, start, run.effort.cold_starts)
        run.find("cold", [result.finding])


def _growth(run: Run) -> None:
    worlds = {size: _flat_world(run, size) for size in sorted(run.sizes["growth"])}
    with ExitStack() as stack:
        ours: dict[int, both_servers.Server] = {}
        peers: dict[int, both_servers.Server] = {}
        for size, world in worlds.items():
            database = run.stock.holding(world)
            ours[size] = stack.enter_context(both_servers.ours(database))
            if run.venv is not None and size <= run.effort.growth_peer_up_to:
                peers[size] = stack.enter_context(both_servers.peer(database, run.venv))
        asked = questions.flat(worlds[max(worlds)])[:2]
        first_ms = {size: pairs.timed(server, asked[0].path)[0] for size, server in ours.items()}
        curves = [
            *growth.measure(asked, ours, peers, run.effort.growth_rounds),
            *growth.measure_selections(ours, run.effort.growth_rounds),
        ]
        loads = run.stock.load_seconds
        held = growth.Held(
            {size: loads[world] for size, world in worlds.items() if world in loads},
            first_ms,
            {size: server.resident_mb() for size, server in ours.items()},
        )
    run.curves += curves
    run.find("growth", [*(curve.finding for curve in curves), held.finding])
    run.show("Growth", tables.growth(curves, held))


def _memory(run: Run) -> None:
    world = _flat_world(run, run.sizes["memory"][0])
    with both_servers.ours(run.stock.holding(world)) as server:
        result = memory.measure(world, server, run.effort.memory_marks)
    run.find("memory", result.findings)
    run.show("Memory", tables.memory(result))


SCENARIOS: Mapping[str, Callable[[Run], None]] = {
    "flat": _flat,
    "large": _large,
    "nested": _nested,
    "shared": _shared,
    "equal": _equal,
    "reads": _reads,
    "throughput": _throughput,
    "cold": _cold,
    "growth": _growth,
    "memory": _memory,
}
