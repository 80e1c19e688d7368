# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.differential``: the same random questions to the peers and to ours.

Each comparison asks as much as its own default, or ``--many``, of each seed, and prints what
differs without being explained. ``make test-only WHAT=differential`` runs all of them.
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

from tests.differential.duel import PEER_PYTHON, Comparison, Finding, Tally, save_finding
from tests.differential.hosts.duel import HostsComparison
from tests.differential.nova.duel import NovaComparison
from tests.differential.numa.duel import NumaComparison
from tests.differential.pci.duel import PciComparison
from tests.differential.placement import CandidatesComparison, RequestComparison

COMPARISONS: dict[str, type[Comparison]] = {
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
    asked = _arguments()
    # What is ignored in options and metadata is logged as a warning, of which there are thousands.
    logging.disable()
    findings = 0
    for name in asked.comparisons or COMPARISONS:
        urls = {}
        if issubclass(COMPARISONS[name], RequestComparison):
            urls = {"ours": asked.ours, "theirs": asked.theirs}
        with (
            tempfile.TemporaryDirectory() as folder,
            closing(COMPARISONS[name].open_sides(Path(folder), asked.peer, **urls)) as comparison,
        ):
            findings += len(_run_seeds(comparison, asked).findings)
    return 1 if findings else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument(
        "comparisons",
        nargs="*",
        metavar="COMPARISON",
        help=f"of {', '.join(COMPARISONS)}; default: all",
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=range(1, 5), help="1 to 4")
    parser.add_argument("--many", type=int, help="how much is asked of each seed")
    parser.add_argument("--peer", type=Path, default=PEER_PYTHON, help="the peers' interpreter")
    parser.add_argument("--ours", help="database URL of our placement; default: SQLite")
    parser.add_argument("--theirs", help="database URL of the peer's; default: SQLite")
    parser.add_argument("--most", type=int, default=10, help="how many kinds of findings are shown")
    parser.add_argument("--whole", action="store_true", help="do not shorten what is shown")
    parser.add_argument("--keep", action="store_true", help="keep what is shown as a case")
    asked = parser.parse_args()
    if unknown := set(asked.comparisons) - COMPARISONS.keys():
        parser.error(f"unknown comparison {min(unknown)!r}; known: {', '.join(COMPARISONS)}")
    return asked


def _run_seeds(comparison: Comparison, asked: argparse.Namespace) -> Tally:
    total, shown = Tally(), set()
    for seed in asked.seeds:
        since = monotonic()
        tally = comparison.run(
            seed, asked.many or comparison.many, lambda done, seed=seed: _progress(seed, done)
        )
        _print_tally(f"{comparison.name}, seed {seed}", comparison, tally, monotonic() - since)
        for finding in tally.findings:
            if finding.kind in shown or len(shown) >= asked.most:
                continue
            shown.add(finding.kind)
            least = finding if asked.whole else comparison.shorten(finding)
            _print_finding(comparison, least)
            path = save_finding(comparison, least, seed, len(shown)) if asked.keep else None
            if path:
                print(f"kept as {path}")
        total.add(tally)
    unexplained = len(total.findings)
    print(
        f"{comparison.name}: {total.asked} {comparison.noun}, {unexplained} unexplained; explained:"
    )
    for name, count in total.explained.most_common():
        print(f"{count:6}  {name}")
    return total


def _progress(seed: int, done: int) -> None:
    if done % 50 == 0 and sys.stderr.isatty():
        print(f"seed {seed}: {done}", end="\r", file=sys.stderr, flush=True)


def _print_tally(head: str, comparison: Comparison, tally: Tally, seconds: float) -> None:
    seen = ", ".join(
        f"{' '.join(one) if isinstance(one, tuple) else one}: {count}"
        for one, count in tally.seen.most_common()
    )
    print(
        f"{head}: {tally.asked} {comparison.noun} in {seconds:.0f} s ({seen}), "
        f"{tally.explained.total()} explained, {len(tally.findings)} unexplained",
        flush=True,
    )
    for kind, count in Counter(finding.kind for finding in tally.findings).most_common():
        print(f"    {count} x {' '.join(kind)}")


def _print_finding(comparison: Comparison, finding: Finding) -> None:
    print("--- differs for:", _shorten_text(comparison.as_saved(finding.asked)))
    for aspect, (ours, theirs) in finding.differences.items():
        name = " ".join(aspect) if isinstance(aspect, tuple) else aspect
        print(f"  {name}\n    ours:  {_shorten_text(ours)}\n    peer:  {_shorten_text(theirs)}")
    sys.stdout.flush()


def _shorten_text(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) < 3000 else f"{text[:3000]} ..."


if __name__ == "__main__":
    sys.exit(main())
