"""``make audit``: known vulnerabilities of what is deployed, as the package index knows them.

Exit status: 0 none are known, 1 some are, 3 the index did not answer, so that nothing is known.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

REQUIREMENTS = Path(__file__).parents[2] / "deploy" / "requirements.txt"
PROGRAM = (sys.executable, "-m", "pip_audit")
UNKNOWN = 3


def main(program: Sequence[str] = PROGRAM) -> int:
    """Run pip-audit, and say in plain words what came of it."""
    asked = ["--disable-pip", "--require-hashes", "--requirement", str(REQUIREMENTS)]
    done = subprocess.run(
        [*program, *asked, "--format", "json", "--progress-spinner", "off"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        last = (done.stderr.strip().splitlines() or ["pip-audit printed nothing"])[-1]
        print(f"nothing is known: the package index did not answer, or not as it should: {last}")
        return UNKNOWN
    found = [(one, known) for one in packages for known in one.get("vulns", ())]
    for one, known in found:
        mended = ", ".join(known.get("fix_versions", ())) or "no version yet"
        print(f"{one['name']} {one['version']}: {known['id']}, mended in {mended}")
    skipped = [one["name"] for one in packages if "skip_reason" in one]
    if len(skipped) == len(packages):
        print("nothing is known: the package index has no data on vulnerabilities")
        return UNKNOWN
    if skipped:
        print(f"not known by the index: {', '.join(skipped)}")
    print(f"{len(found)} known vulnerabilities in {len(packages) - len(skipped)} packages")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
