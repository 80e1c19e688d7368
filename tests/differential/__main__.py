"""``python -m tests.differential``: random requests to both services; tells what differs."""

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from time import monotonic

from tests.differential.duel import Duel, Finding, Tally
from tests.differential.shrink import shrink
from tests.differential.sides import PEER_PYTHON, Ours, Peer


def main() -> int:
    """Run, print, and return 1 where anything differs without an explanation."""
    asked = _arguments()
    folder = Path(tempfile.mkdtemp())
    ours = Ours(asked.ours or f"sqlite:///{folder / 'ours.db'}")
    theirs = Peer(asked.theirs or f"sqlite:///{folder / 'theirs.db'}", asked.peer)
    duel = Duel(ours, theirs)
    shown: set[tuple[str, ...]] = set()
    total = Tally()
    try:
        for seed in asked.seeds or range(1, 11):
            since = monotonic()
            tally = duel.run(seed, asked.requests)
            _tell(seed, tally, monotonic() - since)
            for finding in tally.findings:
                if finding.kind not in shown and len(shown) < asked.most:
                    shown.add(finding.kind)
                    _show(shrink(duel, finding, asked.shrink) if asked.shrink else finding, asked)
            total.requests += tally.requests
            total.explained += tally.explained
            total.findings += tally.findings
    finally:
        theirs.close()
        ours.close()
        shutil.rmtree(folder)
    print(f"{total.requests} requests, {len(total.findings)} unexplained differences; explained:")
    for name, count in total.explained.most_common():
        print(f"{count:6}  {name}")
    return 1 if total.findings else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", help="default: 1 to 10")
    parser.add_argument("--requests", type=int, default=2000, help="of each seed")
    parser.add_argument("--peer", type=Path, default=PEER_PYTHON, help="the peer's interpreter")
    parser.add_argument("--ours", help="database URL of ours; default: SQLite")
    parser.add_argument("--theirs", help="database URL of the peer; default: SQLite")
    parser.add_argument(
        "--shrink",
        type=float,
        default=60,
        help="seconds to cut a history short; 0 shows the last request only",
    )
    parser.add_argument("--most", type=int, default=10, help="how many kinds of findings are shown")
    return parser.parse_args()


def _tell(seed: int, tally: Tally, seconds: float) -> None:
    statuses = ", ".join(f"{status}: {count}" for status, count in sorted(tally.statuses.items()))
    print(
        f"seed {seed}: {tally.requests} requests in {seconds:.0f} s ({statuses}), "
        f"{sum(tally.explained.values())} explained, {len(tally.findings)} unexplained",
        flush=True,
    )
    for kind, count in Counter(finding.kind for finding in tally.findings).most_common():
        print(f"    {count} x {' '.join(kind)}")


def _show(finding: Finding, asked: argparse.Namespace) -> None:
    print("--- differs after:")
    for request in finding.history if asked.shrink else finding.history[-1:]:
        print("   ", json.dumps(request.as_json()))
    for aspect, (ours, theirs) in finding.differences.items():
        print(f"  {aspect}\n    ours:  {_short(ours)}\n    peer:  {_short(theirs)}")
    sys.stdout.flush()


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) < 1500 else f"{text[:1500]} ..."


if __name__ == "__main__":
    sys.exit(main())
