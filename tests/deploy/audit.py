# SPDX-License-Identifier: Apache-2.0
"""``make audit``: known vulnerabilities of what is deployed, as the package index knows them.

It asks the index that pip uses, by the JSON document of each release (``/pypi/NAME/VERSION/json``),
whose ``vulnerabilities`` an index may leave out. So it asks first for a release of which some are
known. Exit status: 0 all packages were checked and none is known, 1 some are known, 3 packages
could not be checked.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import requests
from packaging.utils import canonicalize_name

REQUIREMENTS = Path(__file__).parents[2] / "deploy" / "requirements.txt"
FOUND, UNKNOWN = 1, 3
_PINNED = re.compile(r"^([\w.-]+)(?:\[[\w,]+\])?==([^\s;\\]+)", re.MULTILINE)
_PIP = (sys.executable, "-m", "pip")


class Release(NamedTuple):
    """A package in one version."""

    name: str
    version: str

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.name} {self.version}"


#: PYSEC-2019-217: an index that knows of no vulnerability here knows of none at all.
VULNERABLE = Release("jinja2", "2.10")


class IndexWithoutData(Exception):
    """The index did not say what is known of a release; why."""


def main(index: str | None = None, requirements: Path = REQUIREMENTS) -> int:
    """Ask the index about every release in ``requirements``, and print the verdict."""
    releases = [Release(*found) for found in _PINNED.findall(requirements.read_text())]
    try:
        base = (index or _index()).rstrip("/").removesuffix("/simple")
        _check_data(base)
    except IndexWithoutData as reason:
        print(f"could not be checked: {reason}")
        return UNKNOWN
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda one: _verdict(base, one), releases))
    return _report(dict(zip(releases, found, strict=True)))


def _check_data(base: str) -> None:
    """Raise :class:`IndexWithoutData` where the index has no data on vulnerabilities."""
    if not _known_vulnerabilities(base, VULNERABLE):
        raise IndexWithoutData(f"the index knows no vulnerability, not even of {VULNERABLE}")


def _report(found: dict[Release, list[str] | IndexWithoutData]) -> int:
    unchecked = {one: why for one, why in found.items() if isinstance(why, IndexWithoutData)}
    known = {one: which for one, which in found.items() if not isinstance(which, IndexWithoutData)}
    for one, which in known.items():
        for vulnerability in which:
            print(f"{one}: {vulnerability}")
    number = sum(len(which) for which in known.values())
    print(f"checked {len(known)} packages: {number} known vulnerabilities")
    if unchecked:
        reasons = ", ".join(f"{one} ({why})" for one, why in unchecked.items())
        print(f"could not be checked: {len(unchecked)} of {len(found)} packages: {reasons}")
    if number:
        return FOUND
    return UNKNOWN if unchecked else 0


def _verdict(base: str, release: Release) -> list[str] | IndexWithoutData:
    try:
        return _known_vulnerabilities(base, release)
    except IndexWithoutData as reason:
        return reason


def _known_vulnerabilities(base: str, release: Release) -> list[str]:
    """Return the vulnerabilities that the index knows of a release, in words."""
    try:
        answer = requests.get(
            f"{base}/pypi/{canonicalize_name(release.name)}/{release.version}/json",
            verify=os.environ.get("PIP_CERT") or True,
            timeout=60,
        )
    except requests.RequestException as failure:
        raise IndexWithoutData(f"the index does not answer: {type(failure).__name__}") from failure
    if answer.status_code != requests.codes.ok:
        raise IndexWithoutData(f"the index has no data on {release}: {answer.status_code}")
    try:
        known = answer.json()["vulnerabilities"]
        return [
            f"{one['id']}, fixed in {', '.join(one.get('fixed_in') or ()) or 'no version yet'}"
            for one in known
            if not one.get("withdrawn")
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as failure:
        words = f"the index has no data on vulnerabilities of {release}"
        raise IndexWithoutData(words) from failure


def _index() -> str:
    """Return the index that pip is configured to use, or pip's own default."""
    if named := os.environ.get("PIP_INDEX_URL"):
        return named
    if configured := _pip("config", "get", "global.index-url"):
        return configured
    default = re.search(r"--index-url.*?\(default\s+(\S+?)\)", _pip("install", "--help"), re.DOTALL)
    if default is None:
        raise IndexWithoutData("pip names no index")
    return default[1]


def _pip(*arguments: str) -> str:
    done = subprocess.run(
        [*_PIP, *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    return done.stdout.strip() if done.returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(main())
