# SPDX-License-Identifier: Apache-2.0
"""What is deployed is written with hashes, and ``make audit`` says what is known of it."""

import json
import re
import tomllib
from configparser import ConfigParser

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deploy import DEPLOY
from tests.deploy.audit import FOUND, UNKNOWN, main
from tests.support.loopback import reserve_port, serve_application
from tests.support.repository import ROOT

pytestmark = pytest.mark.slow

TEXT = (DEPLOY / "requirements.txt").read_text()
#: Extras that are deployed.
DEPLOYED = ("server", "postgresql", "mysql", "memcached")
PINNED = dict(re.findall(r"^([\w.-]+)(?:\[[\w,]+\])?==([^\s;\\]+)", TEXT, re.MULTILINE))


def read_requirements() -> list[Requirement]:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = (setup["options.extras_require"][name] for name in DEPLOYED)
    lines = "\n".join([setup["options"]["install_requires"], *extras]).split("\n")
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("one", read_requirements(), ids=lambda one: one.name)
def test_requirement_is_pinned_to_an_allowed_version(one):
    pinned = {canonicalize_name(name): version for name, version in PINNED.items()}
    assert one.specifier.contains(pinned[canonicalize_name(one.name)])


def test_wheel_is_built_by_the_pinned_setuptools():
    """So ``pip install --no-build-isolation`` finds what would be downloaded without a hash."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
    needed = [Requirement(one) for one in build["requires"]]
    assert [one.name for one in needed] == ["setuptools"]
    assert all(one.specifier.contains(PINNED[one.name]) for one in needed)


@pytest.mark.parametrize(
    "place", ["deploy/container/Dockerfile", "doc/source/deploy.rst", "doc/source/upgrade.rst"]
)
def test_build_needs_no_download(place):
    text = re.sub(r"\\\n\s+", "", (ROOT / place).read_text())
    installed = re.findall(r"^.*\bpip (?:install|wheel) .* \.(?= |$)", text, re.MULTILINE)
    assert installed
    assert all("--no-build-isolation --no-deps ." in line for line in installed)


def test_every_version_has_hashes_and_no_index():
    blocks = re.split(r"^(?=[\w.-]+(?:\[|==))", TEXT, flags=re.MULTILINE)[1:]
    assert len(blocks) >= len(PINNED) > 40  # some have a version for each Python
    assert [block for block in blocks if "--hash=sha256:" not in block] == []
    assert "://" not in TEXT
    assert "--index" not in TEXT


#: What an index may say of a release.
NONE = {"vulnerabilities": []}
SOME = {"vulnerabilities": [{"id": "PYSEC-1", "fixed_in": ["3.2", "4.0"]}, {"id": "PYSEC-2"}]}
WITHDRAWN = {"vulnerabilities": [{"id": "PYSEC-3", "withdrawn": "2024-01-01T00:00:00Z"}]}
NO_DATA = {"info": {"name": "flask"}}


@pytest.fixture
def run_audit(tmp_path, capsys):
    """Return a function that audits flask 3.1 and kombu 5.4, and gives status and lines.

    It is given what the index answers for a path; for others that is 404.
    """
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(
        "Flask==3.1 \\\n    --hash=sha256:00\n    # via x\nkombu[all]==5.4 ; python_version < '4'\n"
    )

    def audit(answers):
        def index(environ, start_response):
            found = answers.get(environ["PATH_INFO"].removeprefix("/index"))
            start_response("404 Not Found" if found is None else "200 OK", [])
            return [found if isinstance(found, bytes) else json.dumps(found).encode()]

        with serve_application(index) as url:
            status = main(f"{url}/index/simple/", requirements)
        return status, capsys.readouterr().out.splitlines()

    return audit


CONTROL, FLASK, KOMBU = (f"/pypi/{one}/json" for one in ("jinja2/2.10", "flask/3.1", "kombu/5.4"))


@pytest.mark.parametrize(
    ("answers", "status", "printed"),
    [
        (
            {CONTROL: SOME, FLASK: NONE, KOMBU: WITHDRAWN},
            0,
            ["checked 2 packages: 0 known vulnerabilities"],
        ),
        (
            {CONTROL: SOME, FLASK: SOME, KOMBU: NONE},
            FOUND,
            [
                "Flask 3.1: PYSEC-1, fixed in 3.2, 4.0",
                "Flask 3.1: PYSEC-2, fixed in no version yet",
                "checked 2 packages: 2 known vulnerabilities",
            ],
        ),
        (
            {CONTROL: SOME, FLASK: NONE},
            UNKNOWN,
            [
                "checked 1 packages: 0 known vulnerabilities",
                (
                    "could not be checked: 1 of 2 packages: "
                    "kombu 5.4 (the index has no data on kombu 5.4: 404)"
                ),
            ],
        ),
        (
            {CONTROL: SOME, FLASK: NO_DATA, KOMBU: b"<html>"},
            UNKNOWN,
            [
                "checked 0 packages: 0 known vulnerabilities",
                (
                    "could not be checked: 2 of 2 packages: "
                    "Flask 3.1 (the index has no data on vulnerabilities of Flask 3.1), "
                    "kombu 5.4 (the index has no data on vulnerabilities of kombu 5.4)"
                ),
            ],
        ),
        (
            {CONTROL: NONE, FLASK: NONE, KOMBU: NONE},
            UNKNOWN,
            ["could not be checked: the index knows no vulnerability, not even of jinja2 2.10"],
        ),
        (
            {FLASK: NONE, KOMBU: NONE},
            UNKNOWN,
            ["could not be checked: the index has no data on jinja2 2.10: 404"],
        ),
    ],
    ids=["none", "some", "one unknown", "no data", "empty lists", "no releases"],
)
def test_audit_reports_vulnerable_and_unchecked_releases(run_audit, answers, status, printed):
    assert run_audit(answers) == (status, printed)


def test_audit_without_an_index_is_reported(capsys):
    with reserve_port() as held:
        assert main(f"http://127.0.0.1:{held.getsockname()[1]}/simple") == UNKNOWN
    said = "could not be checked: the index does not answer: ConnectionError\n"
    assert capsys.readouterr().out == said


def test_audit_reads_all_deployed_releases_from_the_pip_index(capsys, monkeypatch):
    asked = []

    def index(environ, start_response):
        asked.append(environ["PATH_INFO"])
        start_response("200 OK", [])
        return [json.dumps(SOME if environ["PATH_INFO"] == CONTROL else NONE).encode()]

    with serve_application(index) as url:
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")
        assert main() == 0
    assert len(asked) == len(set(asked)) > len(PINNED)
    assert {canonicalize_name(name) for name in PINNED} == {
        path.split("/")[2] for path in asked if path != CONTROL
    } | {"jinja2"}
    said = f"checked {len(asked) - 1} packages: 0 known vulnerabilities\n"
    assert capsys.readouterr().out == said
