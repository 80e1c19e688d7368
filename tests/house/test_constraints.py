# SPDX-License-Identifier: Apache-2.0
"""The package installs and runs with the libraries of an OpenStack release."""

import re
import subprocess
import sys

import pytest
from packaging.utils import canonicalize_name

from tests.support.commands import run_captured
from tests.support.repository import ROOT, read_requirements
from tests.support.servers import start_server

CONSTRAINTS_FILE = ROOT / "tests/constraints.txt"
PINNED_VERSIONS = {
    canonicalize_name(name): version
    for name, version in re.findall(
        r"^([\w.-]+)===(\S+)$", CONSTRAINTS_FILE.read_text(), re.MULTILINE
    )
}
PACKAGE_REQUIREMENTS = read_requirements("server", "postgresql", "mysql", "memcached", "osc")
#: Libraries that OpenStack does not have.
UNPINNED_LIBRARIES = {"granian", "jsonschema-rs", "orjson", "psycopg", "shtab"}


def test_requirements_allow_the_constrained_versions():
    versions = {
        each.name: PINNED_VERSIONS.get(canonicalize_name(each.name))
        for each in PACKAGE_REQUIREMENTS
    }
    assert {name for name, version in versions.items() if version is None} == UNPINNED_LIBRARIES
    conflicts = [
        f"{each} does not allow {versions[each.name]}"
        for each in PACKAGE_REQUIREMENTS
        if versions[each.name] and not each.specifier.contains(versions[each.name])
    ]
    assert conflicts == []


def test_constraints_have_sqlalchemy_2_0():
    assert PINNED_VERSIONS["sqlalchemy"].startswith("2.0.")


@pytest.mark.exhaustive
def test_package_installed_with_the_constraints_runs_demo_and_server(tmp_path):
    home = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", home], check=True, timeout=600)
    pip = [home / "bin/python", "-m", "pip", "--quiet"]
    install = ["install", "--constraint", CONSTRAINTS_FILE, "--editable", f"{ROOT}[all]"]
    subprocess.run([*pip, *install], check=True, timeout=600)
    subprocess.run([*pip, "check"], check=True, timeout=600)
    frozen = run_captured([*pip, "freeze"], check=True, timeout=600).stdout
    installed = {
        canonicalize_name(name): version
        for name, version in re.findall(r"^([\w.-]+)==(\S+)$", frozen, re.MULTILINE)
    }
    assert {name: installed[name] for name in PINNED_VERSIONS if name in installed} == {
        name: version for name, version in PINNED_VERSIONS.items() if name in installed
    }
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    program = home / "bin/placement-sched"
    subprocess.run([program, "demo"], cwd=tmp_path, env=variables, check=True, timeout=600)
    with start_server(folder=tmp_path, variables=variables, program=program) as server:
        assert server.request_json("GET", "/placement/")["versions"]
        assert server.stop() == 0
