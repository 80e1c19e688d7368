# SPDX-License-Identifier: Apache-2.0
"""The package declares its imports and runs without its extras."""

import ast
import os
import subprocess
import sys
from importlib.metadata import packages_distributions

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.commands import run_captured
from tests.support.repository import PACKAGE, ROOT, read_requirements, read_setup_cfg

#: Modules of each extra, and the extra that an error names.
EXTRAS_BY_MODULE = {
    "granian": "server",
    "uvloop": "server",
    "psycopg": "postgresql",
    "pymysql": "mysql",
    "memcache": "memcached",
    "cliff": "osc",
    "openstack": "osc",
    "osc_lib": "osc",
}
#: Code before a program that hides the packages of the extras.
CODE_THAT_HIDES_EXTRAS = f"""
import importlib.abc, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(EXTRAS_BY_MODULE)}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.partition(".")[0])

sys.meta_path.insert(0, Missing())
from placement_sched.cli.main import main
"""
CODE_THAT_SERVES_A_REQUEST = """
import io
from placement_sched.wsgi import make_app
status = []
body = make_app()({"REQUEST_METHOD": "GET", "PATH_INFO": "/placement/", "SCRIPT_NAME": "",
    "SERVER_NAME": "x", "SERVER_PORT": "80", "wsgi.input": io.BytesIO(), "wsgi.url_scheme": "http",
    "SERVER_PROTOCOL": "HTTP/1.1"}, lambda line, headers: status.append(line))
print(status, b"".join(body)[:20])
"""


def list_imported_packages() -> set[str]:
    modules = set()
    for path in [*PACKAGE.rglob("*.py"), *(ROOT / "alembic").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                modules.add(node.module.partition(".")[0])
    return modules - sys.stdlib_module_names - {"placement_sched"}


@pytest.mark.slow
def test_imported_packages_are_declared():
    distributions = packages_distributions()
    requirements = read_requirements(*set(EXTRAS_BY_MODULE.values()))
    declared = {canonicalize_name(requirement.name) for requirement in requirements}
    owners = {
        module: {canonicalize_name(name) for name in distributions[module]}
        for module in list_imported_packages()
    }
    assert {module for module, owned in owners.items() if not owned & declared} == set()


def test_extra_all_contains_every_extra_for_users():
    (requirement,) = read_setup_cfg()["options.extras_require"]["all"].split()
    assert Requirement(requirement).extras == set(EXTRAS_BY_MODULE.values())


@pytest.fixture
def run_without_extras(tmp_path):
    """Give a function that runs code with hidden extras, in a folder for its SQLite database."""

    def run_code(code: str) -> subprocess.CompletedProcess[str]:
        return run_captured(
            [sys.executable, "-c", CODE_THAT_HIDES_EXTRAS + code],
            cwd=tmp_path,
            env={**os.environ, "OS_API__AUTH_STRATEGY": "noauth2"},
            timeout=120,
        )

    return run_code


@pytest.mark.system
def test_sqlite_needs_no_extra(run_without_extras):
    assert run_without_extras("sys.exit(main(['db', 'sync']))").returncode == 0
    explained = run_without_extras(
        "sys.exit(main(['explain', '--vcpus', '1', '--ram', '512', '--disk', '1']))"
    )
    assert "Traceback" not in explained.stderr
    served = run_without_extras(CODE_THAT_SERVES_A_REQUEST)
    assert served.stdout.startswith("['200 OK'] b'{"), served.stderr


@pytest.mark.system
@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("main(['serve'])", "server"),
        ("main(['serve', '--help'])", "server"),
        ("main(['demo', '--console'])", "server"),
        ("main(['db', 'sync', '--config-file', 'postgresql.conf'])", "postgresql"),
        ("main(['db', 'sync', '--config-file', 'mysql.conf'])", "mysql"),
    ],
)
def test_use_of_a_missing_extra_is_an_error_with_its_name(
    run_without_extras, tmp_path, code, extra
):
    for database in ("postgresql", "mysql"):
        url = f"{database}://user@127.0.0.1/name"
        (tmp_path / f"{database}.conf").write_text(f"[placement_database]\nconnection = {url}\n")
    failed = run_without_extras(f"sys.exit({code})")
    assert failed.returncode == 1
    assert failed.stderr.count("\n") == 1, failed.stderr
    assert f"pip install 'placement-sched[{extra}]'" in failed.stderr
