# SPDX-License-Identifier: Apache-2.0
"""``make audit``: vulnerabilities of the deployed packages, from the package index.

The index of pip has a JSON document of each release (``/pypi/NAME/VERSION/json``), whose
``vulnerabilities`` are optional. A vulnerable release is therefore read first. Exit status: 0 all
packages were checked and have no vulnerability, 1 packages have vulnerabilities, 3 packages could
not be checked.
"""

import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import requests
from packaging.utils import canonicalize_name

from tests.support.commands import run_captured

REQUIREMENTS_FILE = Path(__file__).parents[2] / "deploy" / "requirements.txt"
EXIT_VULNERABLE, EXIT_UNCHECKED = 1, 3
_PINNED_REQUIREMENT = re.compile(r"^([\w.-]+)(?:\[[\w,]+\])?==([^\s;\\]+)", re.MULTILINE)
_PIP_COMMAND = (sys.executable, "-m", "pip")


class Release(NamedTuple):
    """A version of a package."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


#: PYSEC-2019-217. An index without this vulnerability has no data at all.
VULNERABLE_RELEASE = Release("jinja2", "2.10")


class IndexWithoutData(Exception):
    """The index has no data on a release. The message has the reason."""


def print_vulnerabilities(index: str | None = None, requirements: Path = REQUIREMENTS_FILE) -> int:
    """Read every release of ``requirements`` from the index, and print the verdict."""
    releases = [Release(*match) for match in _PINNED_REQUIREMENT.findall(requirements.read_text())]
    try:
        base = (index or _find_index()).rstrip("/").removesuffix("/simple")
        _check_index_has_data(base)
    except IndexWithoutData as reason:
        print(f"could not be checked: {reason}")
        return EXIT_UNCHECKED
    with ThreadPoolExecutor(4) as pool:
        verdicts = list(
            pool.map(lambda release: _list_vulnerabilities_or_reason(base, release), releases)
        )
    return _print_verdicts(dict(zip(releases, verdicts, strict=True)))


def _check_index_has_data(base: str) -> None:
    """Raise :class:`IndexWithoutData` if the index has no data on vulnerabilities."""
    if not _list_known_vulnerabilities(base, VULNERABLE_RELEASE):
        raise IndexWithoutData(
            f"the index knows no vulnerability, not even of {VULNERABLE_RELEASE}"
        )


def _print_verdicts(verdicts: dict[Release, list[str] | IndexWithoutData]) -> int:
    unchecked = {
        release: verdict
        for release, verdict in verdicts.items()
        if isinstance(verdict, IndexWithoutData)
    }
    checked = {release: verdicts[release] for release in verdicts if release not in unchecked}
    for release, vulnerabilities in checked.items():
        for vulnerability in vulnerabilities:
            print(f"{release}: {vulnerability}")
    number = sum(map(len, checked.values()))
    print(f"checked {len(checked)} packages: {number} known vulnerabilities")
    if unchecked:
        reasons = ", ".join(f"{release} ({reason})" for release, reason in unchecked.items())
        print(f"could not be checked: {len(unchecked)} of {len(verdicts)} packages: {reasons}")
    if number:
        return EXIT_VULNERABLE
    return EXIT_UNCHECKED if unchecked else 0


def _list_vulnerabilities_or_reason(base: str, release: Release) -> list[str] | IndexWithoutData:
    try:
        return _list_known_vulnerabilities(base, release)
    except IndexWithoutData as reason:
        return reason


def _list_known_vulnerabilities(base: str, release: Release) -> list[str]:
    """Return a sentence for each vulnerability of a release in the index."""
    try:
        response = requests.get(
            f"{base}/pypi/{canonicalize_name(release.name)}/{release.version}/json",
            verify=os.environ.get("PIP_CERT") or True,
            timeout=60,
        )
    except requests.RequestException as failure:
        raise IndexWithoutData(f"the index does not answer: {type(failure).__name__}") from failure
    if response.status_code != requests.codes.ok:
        raise IndexWithoutData(f"the index has no data on {release}: {response.status_code}")
    try:
        rows = response.json()["vulnerabilities"]
        return [
            f"{row['id']}, fixed in {', '.join(row.get('fixed_in') or ()) or 'no version yet'}"
            for row in rows
            if not row.get("withdrawn")
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as failure:
        words = f"the index has no data on vulnerabilities of {release}"
        raise IndexWithoutData(words) from failure


def _find_index() -> str:
    """Return the index of pip's configuration, or pip's default."""
    if named := os.environ.get("PIP_INDEX_URL"):
        return named
    if configured := _run_pip("config", "get", "global.index-url"):
        return configured
    default = re.search(
        r"--index-url.*?\(default\s+(\S+?)\)", _run_pip("install", "--help"), re.DOTALL
    )
    if default is None:
        raise IndexWithoutData("pip names no index")
    return default[1]


def _run_pip(*arguments: str) -> str:
    done = run_captured([*_PIP_COMMAND, *arguments], timeout=60)
    return done.stdout.strip() if done.returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(print_vulnerabilities())
