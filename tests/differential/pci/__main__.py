"""``python -m tests.differential.pci``: random hosts' devices to nova's classes and to ours."""

import argparse
import json
import sys
from collections import Counter

from tests.differential.pci.duel import Duel, Finding
from tests.differential.pci.sides import Ours, Theirs


def main() -> int:
    """Run, print, and return 1 where anything differs without an explanation."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential.pci", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=range(1, 5), help="1 to 4")
    parser.add_argument("--requests", type=int, default=5000, help="of each seed")
    parser.add_argument("--most", type=int, default=5, help="how many findings are shown")
    asked = parser.parse_args()
    theirs = Theirs()
    duel, findings, explained = Duel(Ours(), theirs), 0, Counter[str]()
    for seed in asked.seeds:
        tally = duel.run(seed, asked.requests)
        seen = ", ".join(f"{name}: {count}" for name, count in tally.seen.most_common())
        print(f"seed {seed}: {tally.questions} questions (nova {seen})", flush=True)
        for finding in tally.findings[: max(0, asked.most - findings)]:
            _print(finding)
        findings += len(tally.findings)
        explained += tally.explained
    theirs.close()
    print(f"{findings} unexplained differences; explained:")
    for name, count in explained.most_common():
        print(f"{count:6}  {name}")
    return 1 if findings else 0


def _print(finding: Finding) -> None:
    print("--- differs for:", json.dumps(finding.asked.as_json()))
    print("  ours:", finding.ours)
    print("  nova:", finding.theirs)


if __name__ == "__main__":
    sys.exit(main())
