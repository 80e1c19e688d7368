# SPDX-License-Identifier: Apache-2.0
"""What was measured, as tables in Markdown."""

import statistics
from collections.abc import Iterable, Iterator, Sequence

from growth import Curve, Held
from memory import Result as Memory
from pairs import Result, Side
from targets import Finding
from throughput import Result as Rates


def targets(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield what was promised beside what was measured."""
    yield "| measured | at least | aim at | figure | verdict | beside it |"
    yield "| --- | --: | --: | --: | --- | --- |"
    for one in findings:
        target = one.target
        yield (
            f"| {one.name} | {target.shown(target.at_least)} | {target.shown(target.aim)} "
            f"| {target.show(one.figure)} | {one.verdict} | {one.note} |"
        )


def pairs(results: Sequence[Result]) -> Iterator[str]:
    """Yield what paired requests took."""
    yield (
        "| query | candidates | ours ms (best) | peer ms (best) | ratio (of bests) | ratio of CPU "
        "| ours CPU ms | peer CPU ms | first ms | ours kB | peer kB | ours peak MB | peer peak MB "
        "| SQL statements |"
    )
    yield "| --- |" + " --: |" * 13
    for one in results:
        if one.peer is None:
            yield (
                f"| {one.question.name} | | {_times(one.ours)} | | | | {one.ours.cpu_ms:.1f} | "
                f"| {one.first_ms:.1f} | {one.ours.size / 1000:.0f} | | {one.ours.peak_mb:.0f} | "
                f"| {one.statements} |"
            )
            continue
        found = "" if one.candidates is None else one.candidates
        ratio, best, cpu = one.ratios
        yield (
            f"| {one.question.name} | {found} | {_times(one.ours)} | {_times(one.peer)} "
            f"| {ratio:.0f} ({best:.0f}) | {cpu:.0f} | {one.ours.cpu_ms:.1f} "
            f"| {one.peer.cpu_ms:.0f} | {one.first_ms:.1f} | {one.ours.size / 1000:.0f} "
            f"| {one.peer.size / 1000:.0f} | {one.ours.peak_mb:.0f} | {one.peer.peak_mb:.0f} "
            f"| {one.statements} |"
        )


def _times(side: Side) -> str:
    return f"{side.median:.1f} ({min(side.ms):.1f})"


def rates(result: Rates) -> Iterator[str]:
    """Yield requests per second."""
    yield "| server | requests per second (best) | CPU ms a request |"
    yield "| --- | --: | --: |"
    for name, figures in result.rates.items():
        yield (
            f"| {name} | {statistics.median(figures):.2f} ({max(figures):.2f}) "
            f"| {result.cpu_ms[name]:.1f} |"
        )


def growth(curves: Sequence[Curve], held: Held) -> Iterator[str]:
    """Yield milliseconds by size, and what loading and keeping a cloud of the size takes."""
    sizes = sorted(curves[0].ours_ms)
    yield f"| ms (best) | {' | '.join(f'{size:,} hosts' for size in sizes)} |"
    yield "| --- |" + " --: |" * len(sizes)
    for curve in curves:
        own = (curve.ours_ms[size] for size in sizes)
        cells = (f"{statistics.median(one):.1f} ({min(one):.1f})" for one in own)
        yield f"| ours, {curve.name} | {' | '.join(cells)} |"
        if curve.peer_ms:
            theirs = (curve.peer_ms.get(size) for size in sizes)
            cells = ("" if one is None else f"{one:.0f}" for one in theirs)
            yield f"| peer, once, {curve.name} | {' | '.join(cells)} |"
    for name, figures in (
        ("loading the cloud, s", held.load_seconds),
        ("first request of a worker, ms", held.first_ms),
        ("resident MB of a worker afterwards", held.resident_mb),
    ):
        cells = (f"{figures[size]:.0f}" if size in figures else "" for size in sizes)
        yield f"| {name} | {' | '.join(cells)} |"


def memory(result: Memory) -> Iterator[str]:
    """Yield the resident sizes of a worker."""
    yield f"| a worker of ours, {result.hosts:,} hosts | resident MB |"
    yield "| --- | --: |"
    yield f"| before the first request | {result.fresh_mb:.0f} |"
    for mark, size in sorted(result.after_mb.items()):
        yield f"| after {mark:,} mixed queries | {size:.0f} |"
    yield f"| at most until then | {result.peak_mb:.0f} |"
    yield f"| after one query without a limit more | {result.whole_mb:.0f} |"
