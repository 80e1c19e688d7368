"""Races GET /allocation_candidates against openstack-placement on one PostgreSQL database.

``make bench``, or ``python bench/candidates.py --help``. Every answer is compared with the
peer's while measuring; one that differs ends the race with the difference shown and status 1.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import orjson
import rivals
import worlds
from counting import Counter, counter

PLAIN = "VCPU:4,MEMORY_MB:8192,DISK_GB:50"
NOBODYS_AGGREGATE = "00000000-0000-4000-8000-000000000000"


@dataclass(frozen=True, slots=True)
class Question:
    """One query: its name in the table, and its parameters with and without the limit."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    limit: int | None

    @property
    def everything(self) -> str:
        """Return the path that asks for all there is."""
        return f"/allocation_candidates?{urlencode(self.parameters)}"

    @property
    def path(self) -> str:
        """Return the path asked."""
        return self.everything if self.limit is None else f"{self.everything}&limit={self.limit}"


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured of one question; times are in milliseconds, one a round."""

    question: Question
    candidates: int
    ours_ms: Sequence[float]
    peer_ms: Sequence[float]
    cold_ms: float
    ours_bytes: int
    peer_bytes: int
    statements: int

    @property
    def ratio(self) -> float:
        """Return how many times the peer takes what we take, by medians."""
        return statistics.median(self.peer_ms) / statistics.median(self.ours_ms)

    @property
    def best_ratio(self) -> float:
        """Return the same by the quickest of each, which other work on the machine hardly sways."""
        return min(self.peer_ms) / min(self.ours_ms)


def questions(world: worlds.FlatWorld) -> tuple[Question, ...]:
    """Return what is asked of a flat cloud."""

    def ask(name: str, limit: int | None = 1000, resources: str = PLAIN, **terms: Any) -> Question:
        pairs = [("resources", resources)]
        for key, values in terms.items():
            pairs += [(key, value) for value in values]
        return Question(name, tuple(pairs), limit)

    flag, custom, unwanted = "HW_CPU_X86_AVX", *worlds.CUSTOM_TRAITS[1:3]
    zones, tags = ",".join(world.zones[:2]), ",".join(world.tags[:3])
    return (
        ask("limit=1000"),
        ask("limit=10", 10),
        ask("2 required, 1 forbidden trait", required=[f"{flag},{custom},!{unwanted}"]),
        ask("in: and !in: aggregates", member_of=[f"in:{zones}", f"!in:{tags}"]),
        ask("!in: 19 aggregates", member_of=[f"!in:{','.join(world.tags[:19])}"]),
        ask("one rack", member_of=[world.racks[0]]),
        ask("few fit", resources="VCPU:4,MEMORY_MB:600000"),
        ask("nobody fits (resources)", resources="VCPU:4,MEMORY_MB:9000000"),
        ask("nobody fits (traits)", required=[worlds.UNUSED_TRAIT]),
        ask("nobody fits (aggregates)", member_of=[NOBODYS_AGGREGATE]),
        ask("no limit", None),
    )


def race(
    question: Question, ours: rivals.Server, peer: rivals.Server, rounds: int, count: Counter
) -> Result:
    """Ask both in turns and compare all they say; return the times.

    Raises :class:`rivals.WrongAnswer` with the difference.
    """
    cold_ms, _ = _timed(ours, question.path)
    whole = orjson.loads(peer.get(question.everything))
    times: dict[str, list[float]] = {"ours": [], "peer": []}
    sizes: dict[str, int] = {}
    fitting = 0
    for number in range(rounds):
        pair = (ours, peer) if number % 2 else (peer, ours)
        for server in pair:
            elapsed, body = _timed(server, question.path)
            times[server.name].append(elapsed)
            sizes[server.name] = len(body)
            fitting = compare(server.name, question, orjson.loads(body), whole)
    return Result(
        question=question,
        candidates=fitting,
        ours_ms=tuple(times["ours"]),
        peer_ms=tuple(times["peer"]),
        cold_ms=cold_ms,
        ours_bytes=sizes["ours"],
        peer_bytes=sizes["peer"],
        statements=count(rivals.Request("GET", question.path)),
    )


def _timed(server: rivals.Server, path: str) -> tuple[float, bytes]:
    started = time.perf_counter()
    body = server.get(path)
    return (time.perf_counter() - started) * 1000, body


def compare(
    name: str, question: Question, answer: Mapping[str, Any], whole: Mapping[str, Any]
) -> int:
    """Return how many candidates ``answer`` has.

    Raises :class:`rivals.WrongAnswer` unless they are as many as asked for, each once, each among
    those of ``whole`` (the peer's unlimited answer), with the very summaries of their providers.
    """
    found = [_canonical(request) for request in answer["allocation_requests"]]
    allowed = {_canonical(request) for request in whole["allocation_requests"]}
    wanted = len(allowed) if question.limit is None else min(question.limit, len(allowed))
    where = f"{name}, {question.name}"
    if len(found) != wanted or len(set(found)) != wanted:
        raise rivals.WrongAnswer(
            f"{where}: {len(found)} candidates, {len(set(found))} distinct, {wanted}"
        )
    if strange := set(found) - allowed:
        raise rivals.WrongAnswer(f"{where}: no candidate of the peer: {sorted(strange)[:3]}")
    used = {uuid for request in answer["allocation_requests"] for uuid in request["allocations"]}
    summaries = answer["provider_summaries"]
    if summaries.keys() != used:
        differing = sorted(summaries.keys() ^ used)
        raise rivals.WrongAnswer(f"{where}: summaries and candidates differ by {differing[:3]}")
    for uuid, summary in summaries.items():
        expected = whole["provider_summaries"][uuid]
        if _plain(summary) != _plain(expected):
            raise rivals.WrongAnswer(f"{where}: summary of {uuid}:\n  {summary}\nbut\n  {expected}")
    return len(found)


def _canonical(request: Mapping[str, Any]) -> bytes:
    return orjson.dumps(request, option=orjson.OPT_SORT_KEYS)


def _plain(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return a summary whose traits compare whatever their order."""
    return {**summary, "traits": sorted(summary["traits"])}


def table(results: Sequence[Result]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield (
        "| query | candidates | ours ms (best) | peer ms (best) | ratio (of bests) | first ms "
        "| ours kB | peer kB | SQL statements |"
    )
    yield "| --- | --: | --: | --: | --: | --: | --: | --: | --: |"
    for one in results:
        yield (
            f"| {one.question.name} | {one.candidates} | {_times(one.ours_ms)} "
            f"| {_times(one.peer_ms)} | {one.ratio:.0f} ({one.best_ratio:.0f}) "
            f"| {one.cold_ms:.1f} | {one.ours_bytes / 1000:.0f} | {one.peer_bytes / 1000:.0f} "
            f"| {one.statements} |"
        )


def _times(measured: Sequence[float]) -> str:
    return f"{statistics.median(measured):.1f} ({min(measured):.1f})"


def arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=9, help="requests to each, a query")
    parser.add_argument("--quick", action="store_true", help="500 hosts, 3 rounds")
    rivals.add_arguments(parser)
    given = parser.parse_args()
    if given.quick:
        given.hosts, given.rounds = 500, 3
    return given


def main() -> int:
    """Run the race; return 1 where an answer was wrong."""
    given = arguments()
    venv = rivals.peer_venv(given.peer_venv)
    world = worlds.FlatWorld(given.hosts, given.seed)
    results = []
    with rivals.throwaway_database(given.server) as database:
        url = database.render_as_string(hide_password=False)
        started = time.perf_counter()
        filled = worlds.open_database(url)
        worlds.load(filled, world)
        filled.dispose()
        print(f"{world.hosts} hosts loaded in {time.perf_counter() - started:.1f} s", flush=True)
        with (
            rivals.ours(database) as ours,
            rivals.peer(database, venv) as peer,
            counter(url) as count,
        ):
            for question in questions(world):
                print(f"  {question.name} ...", file=sys.stderr, flush=True)
                try:
                    results.append(race(question, ours, peer, given.rounds, count))
                except rivals.WrongAnswer as difference:
                    print(f"WRONG ANSWER: {difference}")
                    return 1
    print("\n".join(table(results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
