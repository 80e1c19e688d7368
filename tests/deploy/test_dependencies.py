# SPDX-License-Identifier: Apache-2.0
"""Hashes of the deployed packages, and the report of ``make audit``."""

import json
import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deploy import DEPLOY_FOLDER
from tests.deploy.audit import EXIT_UNCHECKED, EXIT_VULNERABLE, print_vulnerabilities
from tests.support.loopback import reserve_port, serve_application
from tests.support.repository import ROOT, read_requirements

pytestmark = pytest.mark.slow

REQUIREMENTS_TEXT = (DEPLOY_FOLDER / "requirements.txt").read_text()
#: Extras that are deployed.
DEPLOYED_EXTRAS = ("server", "postgresql", "mysql", "memcached")
PINNED_VERSIONS = dict(
    re.findall(r"^([\w.-]+)(?:\[[\w,]+\])?==([^\s;\\]+)", REQUIREMENTS_TEXT, re.MULTILINE)
)


@pytest.mark.parametrize(
    "requirement", read_requirements(*DEPLOYED_EXTRAS), ids=lambda each: each.name
)
def test_dependency_is_pinned_to_an_allowed_version(requirement):
    pinned = {canonicalize_name(name): version for name, version in PINNED_VERSIONS.items()}
    assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)])


def test_wheel_is_built_by_the_pinned_setuptools():
    """``pip install --no-build-isolation`` then downloads nothing without a hash."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
    (requirement,) = [Requirement(text) for text in build["requires"]]
    assert requirement.name == "setuptools"
    assert requirement.specifier.contains(PINNED_VERSIONS[requirement.name])


@pytest.mark.parametrize(
    "file", ["deploy/container/Dockerfile", "doc/source/deploy.rst", "doc/source/upgrade.rst"]
)
def test_documented_wheel_builds_use_neither_isolation_nor_dependencies(file):
    text = re.sub(r"\\\n\s+", "", (ROOT / file).read_text())
    installed = re.findall(r"^.*\bpip (?:install|wheel) .* \.(?= |$)", text, re.MULTILINE)
    assert installed
    assert all("--no-build-isolation --no-deps ." in line for line in installed)


def test_every_pinned_dependency_has_hashes():
    blocks = re.split(r"^(?=[\w.-]+(?:\[|==))", REQUIREMENTS_TEXT, flags=re.MULTILINE)[1:]
    assert len(blocks) >= len(PINNED_VERSIONS) > 40  # some packages have a version for each Python
    assert [block for block in blocks if "--hash=sha256:" not in block] == []
    assert "://" not in REQUIREMENTS_TEXT
    assert "--index" not in REQUIREMENTS_TEXT


#: Data of an index on a release.
NO_VULNERABILITY = {"vulnerabilities": []}
VULNERABILITIES = {
    "vulnerabilities": [{"id": "PYSEC-1", "fixed_in": ["3.2", "4.0"]}, {"id": "PYSEC-2"}]
}
WITHDRAWN_VULNERABILITY = {
    "vulnerabilities": [{"id": "PYSEC-3", "withdrawn": "2024-01-01T00:00:00Z"}]
}
NO_VULNERABILITY_DATA = {"info": {"name": "flask"}}


@pytest.fixture
def run_audit(tmp_path, capsys):
    """Return a function that audits flask 3.1 and kombu 5.4.

    It takes the documents of the index by path and returns status and output lines. Other paths
    are 404.
    """
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(
        "Flask==3.1 \\\n    --hash=sha256:00\n    # via x\nkombu[all]==5.4 ; python_version < '4'\n"
    )

    def audit_and_list_lines(documents):
        def respond_as_index(environ, start_response):
            document = documents.get(environ["PATH_INFO"].removeprefix("/index"))
            start_response("404 Not Found" if document is None else "200 OK", [])
            return [document if isinstance(document, bytes) else json.dumps(document).encode()]

        with serve_application(respond_as_index) as url:
            status = print_vulnerabilities(f"{url}/index/simple/", requirements)
        return status, capsys.readouterr().out.splitlines()

    return audit_and_list_lines


JINJA2, FLASK, KOMBU = (
    f"/pypi/{release}/json" for release in ("jinja2/2.10", "flask/3.1", "kombu/5.4")
)


@pytest.mark.parametrize(
    ("documents", "status", "lines"),
    [
        (
            {JINJA2: VULNERABILITIES, FLASK: NO_VULNERABILITY, KOMBU: WITHDRAWN_VULNERABILITY},
            0,
            ["checked 2 packages: 0 known vulnerabilities"],
        ),
        (
            {JINJA2: VULNERABILITIES, FLASK: VULNERABILITIES, KOMBU: NO_VULNERABILITY},
            EXIT_VULNERABLE,
            [
                "Flask 3.1: PYSEC-1, fixed in 3.2, 4.0",
                "Flask 3.1: PYSEC-2, fixed in no version yet",
                "checked 2 packages: 2 known vulnerabilities",
            ],
        ),
        (
            {JINJA2: VULNERABILITIES, FLASK: NO_VULNERABILITY_DATA, KOMBU: b"<html>"},
            EXIT_UNCHECKED,
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
            {JINJA2: NO_VULNERABILITY, FLASK: NO_VULNERABILITY, KOMBU: NO_VULNERABILITY},
            EXIT_UNCHECKED,
            ["could not be checked: the index knows no vulnerability, not even of jinja2 2.10"],
        ),
        (
            {FLASK: NO_VULNERABILITY, KOMBU: NO_VULNERABILITY},
            EXIT_UNCHECKED,
            ["could not be checked: the index has no data on jinja2 2.10: 404"],
        ),
    ],
    ids=["none", "some", "no data", "empty lists", "no releases"],
)
def test_dependency_audit_reports_vulnerable_and_unchecked_releases(
    run_audit, documents, status, lines
):
    assert run_audit(documents) == (status, lines)


def test_dependency_audit_without_an_index_is_reported(capsys):
    with reserve_port() as held:
        assert (
            print_vulnerabilities(f"http://127.0.0.1:{held.getsockname()[1]}/simple")
            == EXIT_UNCHECKED
        )
    message = "could not be checked: the index does not answer: ConnectionError\n"
    assert capsys.readouterr().out == message


def test_dependency_audit_reads_all_pinned_releases_from_the_index(capsys, monkeypatch):
    paths = []

    def respond_as_index(environ, start_response):
        paths.append(environ["PATH_INFO"])
        start_response("200 OK", [])
        return [
            json.dumps(
                VULNERABILITIES if environ["PATH_INFO"] == JINJA2 else NO_VULNERABILITY
            ).encode()
        ]

    with serve_application(respond_as_index) as url:
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")
        assert print_vulnerabilities() == 0
    assert len(paths) == len(set(paths)) > len(PINNED_VERSIONS)
    assert {canonicalize_name(name) for name in PINNED_VERSIONS} == {
        path.split("/")[2] for path in paths if path != JINJA2
    } | {"jinja2"}
    message = f"checked {len(paths) - 1} packages: 0 known vulnerabilities\n"
    assert capsys.readouterr().out == message
