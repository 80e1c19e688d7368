# SPDX-License-Identifier: Apache-2.0
"""Races GET /allocation_candidates and other reads against openstack-placement on one database.

``make bench``, or ``python bench/candidates.py --help``. Every answer is compared with the
peer's while measuring; where one differs, the difference is shown and the exit status is 1.
"""

import argparse
import importlib
import importlib.util
import shlex
import sys
import time
from collections.abc import Mapping

import both_servers
import databases
import tables
from databases import OUT, Stock
from pairs import Patience
from scenarios import QUICK, SCENARIOS, SIZES, Effort, Run
from sqlalchemy.engine import URL


def arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help=f"scenarios, with commas: {','.join(SCENARIOS)}")
    parser.add_argument("--quick", action="store_true", help="small clouds, few rounds")
    parser.add_argument("--hosts", type=int, help="hosts or trees of every scenario's world")
    parser.add_argument(
        "--sizes",
        default="",
        help="the same by scenario: flat=10000,nested=2000,growth=1000:10000:50000",
    )
    parser.add_argument("--rounds", type=int, help="paired requests a question (9; quick 3)")
    parser.add_argument(
        "--seconds",
        type=float,
        help="a server that has used these on one question is not asked it again (60; quick 5)",
    )
    parser.add_argument("--no-peer", action="store_true", help="ours alone, answers unchecked")
    parser.add_argument(
        "--peer-up-to",
        type=int,
        default=100_000,
        help="largest cloud of the growth curve that the peer is asked, once (%(default)s)",
    )
    parser.add_argument("--keep", action="store_true", help="keep the databases for the next run")
    parser.add_argument("--drop-kept", action="store_true", help="drop them, and do nothing else")
    both_servers.add_arguments(parser, several=True)
    given = parser.parse_args()
    given.only = given.only.split(",") if given.only else list(SCENARIOS)
    if unknown := [name for name in given.only if name not in SCENARIOS]:
        parser.error(f"--only: no scenario {', '.join(unknown)}; there are {', '.join(SCENARIOS)}")
    try:
        given.sizes = _sizes(given)
    except ValueError as failure:
        parser.error(f"--sizes: {failure}")
    return given


def _sizes(given: argparse.Namespace) -> Mapping[str, tuple[int, ...]]:
    """Return the sizes of each scenario's worlds; raise :class:`ValueError` where they are none."""
    sizes = dict(QUICK if given.quick else SIZES)
    if given.hosts:
        sizes |= {name: (given.hosts,) for name in sizes if name not in {"equal", "growth"}}
    for part in filter(None, given.sizes.split(",")):
        name, _, shown = part.partition("=")
        if name not in sizes:
            raise ValueError(f"no scenario {name}")
        sizes[name] = tuple(int(size) for size in shown.split(":"))
    if len(sizes["growth"]) < 2:
        raise ValueError("growth needs two sizes or more")
    return sizes


def effort(given: argparse.Namespace) -> Effort:
    """Return how long to measure."""
    quick = given.quick
    return Effort(
        patience=Patience(
            given.rounds or (3 if quick else 9), given.seconds or (5 if quick else 60)
        ),
        throughput_rounds=1 if quick else 3,
        throughput_seconds=3 if quick else 20,
        growth_rounds=5 if quick else 15,
        growth_peer_up_to=given.peer_up_to,
        cold_starts=2 if quick else 5,
        memory_marks=(200, 600) if quick else (1_000, 5_000),
    )


def measure(run: Run, only: list[str]) -> None:
    """Run the scenarios named, in their order; raise :class:`both_servers.WrongAnswer`."""
    for name, scenario in SCENARIOS.items():
        if name in only:
            started = time.perf_counter()
            print(f"{run.database}, {name} ...", file=sys.stderr, flush=True)
            scenario(run)
            took = time.perf_counter() - started
            print(f"{run.database}, {name}: {took:.0f} s", file=sys.stderr, flush=True)


def conclude(run: Run) -> None:
    """Print what was promised beside what was measured; draw the picture."""
    if run.findings:
        run.show("Targets", tables.targets(run.findings))
    if run.wrong:
        run.show("WRONG ANSWERS", run.wrong)
    picture = OUT / f"report-{run.database}.png"
    if importlib.util.find_spec("matplotlib") is None:
        print("\nno picture: matplotlib is missing (pip install --editable '.[bench]')")
    elif importlib.import_module("plots").draw(picture, run.results, run.curves):
        print(f"\nwritten to bench/out: {picture.name}")


def main() -> int:
    """Run what is asked on each database; return 1 where an answer was wrong."""
    given = arguments()
    with databases.started_servers(given) as servers:
        return _run(given, servers)


def _run(given: argparse.Namespace, servers: Mapping[str, URL]) -> int:
    if given.drop_kept:
        dropped = sum(databases.drop_kept(server) for server in servers.values())
        print(f"{dropped} databases dropped")
        return 0
    venv = None if given.no_peer else both_servers.peer_venv(given.peer_venv)
    OUT.mkdir(exist_ok=True)
    report, wrong = [f"`{shlex.join(sys.argv)}`"], False
    for kind, server in servers.items():
        with Stock(server, given.keep) as stock:
            run = Run(kind, stock, venv, given.seed, given.sizes, effort(given))
            try:
                measure(run, given.only)
            except both_servers.WrongAnswer as difference:
                run.wrong.append(str(difference))
            conclude(run)
        wrong |= bool(run.wrong)
        report += run.report
        (OUT / "report.md").write_text("\n".join(report) + "\n")
    print("\nwritten to bench/out: report.md")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
