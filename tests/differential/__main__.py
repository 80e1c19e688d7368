# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.differential``: random requests to OpenStack's services and to ours.

Each comparison sends its default number of requests, or ``--many``, for each seed. It prints the
unexplained differences. ``make test-only WHAT=differential`` runs all comparisons.
"""

import argparse
import json
import logging
import sys
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from time import monotonic

from tests.differential.comparison import PEER_PYTHON, Comparison, Finding, RunTotals, save_finding
from tests.differential.hosts.comparison import HostsComparison
from tests.differential.nova.comparison import NovaComparison
from tests.differential.numa.comparison import NumaComparison
from tests.differential.pci.comparison import PciComparison
from tests.differential.placement import CandidatesComparison, RequestComparison

COMPARISONS_BY_NAME: dict[str, type[Comparison]] = {
    kind.name: kind
    for kind in (
        RequestComparison,
        CandidatesComparison,
        NovaComparison,
        PciComparison,
        HostsComparison,
        NumaComparison,
    )
}


def main() -> int:
    arguments = _parse_arguments()
    # Ignored options and metadata would be logged as thousands of warnings.
    logging.disable()
    findings = 0
    for name in arguments.comparisons or COMPARISONS_BY_NAME:
        urls = {}
        if issubclass(COMPARISONS_BY_NAME[name], RequestComparison):
            urls = {"ours": arguments.ours, "theirs": arguments.theirs}
        with (
            tempfile.TemporaryDirectory() as folder,
            closing(
                COMPARISONS_BY_NAME[name].open_sides(Path(folder), arguments.peer, **urls)
            ) as comparison,
        ):
            findings += len(_run_seeds(comparison, arguments).findings)
    return 1 if findings else 0


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument(
        "comparisons",
        nargs="*",
        metavar="COMPARISON",
        help=f"of {', '.join(COMPARISONS_BY_NAME)}; default: all",
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=range(1, 5), help="1 to 4")
    parser.add_argument("--many", type=int, help="number of requests per seed")
    parser.add_argument("--peer", type=Path, default=PEER_PYTHON, help="the peers' interpreter")
    parser.add_argument("--ours", help="database URL of our placement; default: SQLite")
    parser.add_argument("--theirs", help="database URL of the peer's; default: SQLite")
    parser.add_argument("--most", type=int, default=10, help="maximum kinds of findings to print")
    parser.add_argument("--whole", action="store_true", help="do not shorten the findings")
    parser.add_argument("--keep", action="store_true", help="save the printed findings as cases")
    arguments = parser.parse_args()
    if unknown := set(arguments.comparisons) - COMPARISONS_BY_NAME.keys():
        parser.error(
            f"unknown comparison {min(unknown)!r}; known: {', '.join(COMPARISONS_BY_NAME)}"
        )
    return arguments


def _run_seeds(comparison: Comparison, arguments: argparse.Namespace) -> RunTotals:
    total, shown = RunTotals(), set()
    for seed in arguments.seeds:
        since = monotonic()
        tally = comparison.run_random_cases(
            seed,
            arguments.many or comparison.default_count,
            lambda done, seed=seed: _print_progress(seed, done),
        )
        _print_totals(f"{comparison.name}, seed {seed}", comparison, tally, monotonic() - since)
        for finding in tally.findings:
            if finding.kind in shown or len(shown) >= arguments.most:
                continue
            shown.add(finding.kind)
            least = finding if arguments.whole else comparison.shorten_finding(finding)
            _print_finding(comparison, least)
            path = save_finding(comparison, least, seed, len(shown)) if arguments.keep else None
            if path:
                print(f"saved as {path}")
        total.add_totals(tally)
    unexplained = len(total.findings)
    print(
        f"{comparison.name}: {total.count} {comparison.noun}, {unexplained} unexplained; explained:"
    )
    for name, count in total.explained.most_common():
        print(f"{count:6}  {name}")
    return total


def _print_progress(seed: int, done: int) -> None:
    if done % 50 == 0 and sys.stderr.isatty():
        print(f"seed {seed}: {done}", end="\r", file=sys.stderr, flush=True)


def _print_totals(head: str, comparison: Comparison, tally: RunTotals, seconds: float) -> None:
    coverage = ", ".join(
        f"{' '.join(key) if isinstance(key, tuple) else key}: {count}"
        for key, count in tally.coverage.most_common()
    )
    print(
        f"{head}: {tally.count} {comparison.noun} in {seconds:.0f} s ({coverage}), "
        f"{tally.explained.total()} explained, {len(tally.findings)} unexplained",
        flush=True,
    )
    for kind, count in Counter(finding.kind for finding in tally.findings).most_common():
        print(f"    {count} x {' '.join(kind)}")


def _print_finding(comparison: Comparison, finding: Finding) -> None:
    print("--- differs for:", _shorten_text(comparison.to_saved_json(finding.case)))
    for aspect, (ours, theirs) in finding.differences.items():
        name = " ".join(aspect) if isinstance(aspect, tuple) else aspect
        print(f"  {name}\n    ours:  {_shorten_text(ours)}\n    peer:  {_shorten_text(theirs)}")
    sys.stdout.flush()


def _shorten_text(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) < 3000 else f"{text[:3000]} ..."


if __name__ == "__main__":
    sys.exit(main())
