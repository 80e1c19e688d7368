"""What is deployed is written with hashes, and ``make audit`` says what is known of it."""

import json
import re
import sys
from configparser import ConfigParser

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deploy import DEPLOY
from tests.deploy.audit import UNKNOWN, main
from tests.house.tree import ROOT

TEXT = (DEPLOY / "requirements.txt").read_text()
PINNED = dict(re.findall(r"^([\w.-]+)(?:\[[\w,]+\])?==([^\s;\\]+)", TEXT, re.MULTILINE))


def required() -> list[Requirement]:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lines = setup["options"]["install_requires"].split("\n")
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("one", required(), ids=lambda one: one.name)
def test_requirement_is_pinned_to_a_version_that_it_allows(one):
    pinned = {canonicalize_name(name): version for name, version in PINNED.items()}
    assert one.specifier.contains(pinned[canonicalize_name(one.name)])


def test_every_version_has_hashes_and_no_index_is_named():
    blocks = re.split(r"^(?=[\w.-]+(?:\[|==))", TEXT, flags=re.MULTILINE)[1:]
    assert len(blocks) >= len(PINNED) > 40  # some have a version for each Python
    assert [block for block in blocks if "--hash=sha256:" not in block] == []
    assert "://" not in TEXT
    assert "--index" not in TEXT


KNOWN = {"name": "flask", "version": "3.1.3", "vulns": []}
BROKEN = {"name": "jinja2", "version": "3.1.6", "vulns": [{"id": "X-1", "fix_versions": ["3.2"]}]}
SKIPPED = {"name": "kombu", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("packages", "status", "printed"),
    [
        ([KNOWN], 0, "0 known vulnerabilities in 1 packages\n"),
        (
            [KNOWN, BROKEN, SKIPPED],
            1,
            (
                "jinja2 3.1.6: X-1, mended in 3.2\nnot known by the index: kombu\n"
                "1 known vulnerabilities in 2 packages\n"
            ),
        ),
        (
            [SKIPPED],
            UNKNOWN,
            "nothing is known: the package index has no data on vulnerabilities\n",
        ),
        (
            None,
            UNKNOWN,
            "nothing is known: the package index did not answer, or not as it should: no route\n",
        ),
    ],
    ids=["none", "one", "no data", "no index"],
)
def test_audit_says_what_is_known(capsys, packages, status, printed):
    said = json.dumps({"dependencies": packages}) if packages else ""
    code = f"import sys; print({said!r}); print('no route', file=sys.stderr)"
    assert main([sys.executable, "-c", code]) == status
    assert capsys.readouterr().out == printed
