# SPDX-License-Identifier: Apache-2.0
"""The example extension, installed and used in a real run."""

import json
import shutil
import subprocess
import sys

import pytest
import yaml

from tests.cli.conftest import run_command
from tests.support.repository import ROOT

pytestmark = pytest.mark.exhaustive

__all__ = ["run_command"]


@pytest.fixture(scope="module")
def installed_extension(tmp_path_factory):
    """Return the directory that pip installed the extension into."""
    folder = tmp_path_factory.mktemp("acme")
    copy, target = folder / "acme_free", folder / "installed"
    shutil.copytree(ROOT / "examples" / "acme_free", copy)
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"),
            *("--no-build-isolation", "--disable-pip-version-check", "--target", target, copy),
        ],
        check=True,
        timeout=600,
    )
    return str(target)


@pytest.fixture
def cloud(run_command, tmp_path):
    """Two hosts, the first with an instance."""
    document = {
        "version": 1,
        "hosts": [
            {"host": name, "vcpus": 8, "memory_mb": 8192, "local_gb": 80} for name in ("cn1", "cn2")
        ],
        "flavors": [{"name": "small", "vcpus": 1, "memory_mb": 512, "root_gb": 1}],
        "instances": [{"name": "vm", "host": "cn1", "flavor": "small", "project": "p"}],
    }
    (tmp_path / "cloud.yaml").write_text(yaml.safe_dump(document))
    loaded = run_command("fleet", "load", "cloud.yaml")
    assert loaded.returncode == 0, loaded.stderr


@pytest.mark.usefixtures("cloud")
def test_command_of_the_example_extension_lists_free_hosts(run_command, installed_extension):
    arguments = ("free-hosts", "--format", "json")
    done = run_command(*arguments, PYTHONPATH=installed_extension)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"free_hosts": ["cn2"]}
    assert run_command(*arguments).returncode == 2  # it is not installed


@pytest.mark.usefixtures("cloud")
def test_command_of_the_disabled_example_extension_is_an_error(run_command, installed_extension):
    variables = {"OS_DEFAULT__DISABLED_EXTENSIONS": "acme_free"}
    done = run_command("free-hosts", PYTHONPATH=installed_extension, **variables)
    assert done.returncode == 1
    assert "the extension acme_free is disabled by [DEFAULT] disabled_extensions" in done.stderr
