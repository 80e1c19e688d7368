# SPDX-License-Identifier: Apache-2.0
"""The example package, installed and used in a real run."""

import json
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import run_command, serve
from tests.support.commands import run_captured
from tests.support.repository import ROOT

pytestmark = pytest.mark.exhaustive

__all__ = ["run_command", "serve"]

EXAMPLE_FOLDER = ROOT / "examples" / "acme_halls"
(README_CONF,) = re.findall(
    r"```ini\n(.*?)```", (EXAMPLE_FOLDER / "README.md").read_text(), re.DOTALL
)
#: What the README has operators write, and a value of each of the other options.
ACME_CONF = f"""\
{README_CONF}default_hall = h1
assumed_degrees = 20
cool_halls_weight_multiplier = 2.0
"""


@pytest.fixture(scope="module")
def package_copy(tmp_path_factory):
    """Return a copy of the package's folder, for building leaves its traces."""
    target = tmp_path_factory.mktemp("acme") / "acme_halls"
    shutil.copytree(
        EXAMPLE_FOLDER, target, ignore=shutil.ignore_patterns("build", "*.egg-info", ".*")
    )
    return target


@pytest.fixture(scope="module")
def installed_package(package_copy):
    """Return the directory that pip installed the package into, without asking the network."""
    target = package_copy.parent / "installed"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"),
            *(
                "--no-build-isolation",
                "--disable-pip-version-check",
                "--target",
                target,
                package_copy,
            ),
        ],
        check=True,
        timeout=600,
    )
    return str(target)


@pytest.fixture
def cloud(run_command, tmp_path):
    """Four hosts in three halls; the first hall is maintained in six hours, the third is warm."""
    soon = (datetime.now(UTC) + timedelta(hours=6)).strftime("%Y-%m-%dT%H:%M")
    halls = {
        "hall-1": ({"acme:hall": "h1", "acme:maintenance": soon}, ["cn1"]),
        "hall-2": ({"acme:hall": "h1", "acme:degrees": "18"}, ["cn2", "cn3"]),
        "hall-3": ({"acme:hall": "h2", "acme:degrees": "30"}, ["cn3", "cn4"]),
    }
    names = ["cn1", "cn2", "cn3", "cn4"]
    document = {
        "version": 1,
        "hosts": [{"host": name, "vcpus": 8, "memory_mb": 8192, "local_gb": 80} for name in names],
        "aggregates": [
            {"name": name, "metadata": metadata, "hosts": hosts}
            for name, (metadata, hosts) in halls.items()
        ],
    }
    (tmp_path / "cloud.yaml").write_text(yaml.safe_dump(document))
    (tmp_path / "acme.conf").write_text(ACME_CONF)
    loaded = run_command("fleet", "load", "cloud.yaml")
    assert loaded.returncode == 0, loaded.stderr


def test_tests_of_the_acme_halls_package_pass(package_copy, installed_package):
    done = run_captured(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=package_copy,
        env={**os.environ, "PYTHONPATH": installed_package},
        timeout=600,
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"\d+ passed", done.stdout)


def test_options_of_acme_halls_are_in_config_sample(run_command, installed_package):
    assert "acme_halls" not in run_command("config", "sample").stdout
    done = run_command("config", "sample", PYTHONPATH=installed_package)
    assert (done.returncode, done.stderr) == (0, "")
    _, _, section = done.stdout.partition("[acme_halls]\n")
    assert "#quiet_hours = 24\n" in section
    assert "# How many hours before its maintenance QuietTimeFilter closes a hall." in section
    assert "#cool_halls_weight_multiplier = 1.0\n" in section
    assert "#default_hall = <None>\n" in section


def test_options_of_a_disabled_acme_filter_are_checked(run_command, installed_package, tmp_path):
    def validate_conf(text, **variables):
        (tmp_path / "a.conf").write_text(text)
        return run_command("config", "validate", "--config-file", "a.conf", **variables).stdout

    assert validate_conf(ACME_CONF, PYTHONPATH=installed_package) == "the configuration is valid\n"
    for enabled in ("", "[filter_scheduler]\nenabled_filters = QuietTimeFilter\n"):
        text = f"[acme_halls]\nquiet_hours = -1\ncool_weight = 1\n{enabled}"
        wrong, unknown = validate_conf(text, PYTHONPATH=installed_package).splitlines()
        assert wrong.startswith("a.conf:2: error: [acme_halls] quiet_hours has a wrong value")
        assert unknown.startswith("a.conf:3: ")
        assert "there is no option [acme_halls] cool_weight" in unknown
    assert "unknown filter 'QuietTimeFilter'" in validate_conf(ACME_CONF)
    misspelt = ACME_CONF.replace("QuietTimeFilter", "QuiteTimeFilter")
    assert "Did you mean 'QuietTimeFilter'?" in validate_conf(
        misspelt, PYTHONPATH=installed_package
    )


def test_explanation_shows_the_effect_of_each_acme_plugin(
    cloud, run_command, installed_package, tmp_path
):
    def explain(*arguments, **extra_specs):
        specs = {f"acme:{key}": value for key, value in extra_specs.items()}
        request = {"flavor": {"vcpus": 1, "memory_mb": 512, "extra_specs": specs}}
        (tmp_path / "request.json").write_text(json.dumps(request))
        files = ("request.json", "--config-file", "acme.conf", "--format", "json")
        done = run_command("explain", *files, *arguments, PYTHONPATH=installed_package)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    explanation = explain()
    funnel = explanation["funnel"]
    (hall,) = (one for one in funnel["request_filters"] if one["name"] == "acme_hall")
    assert hall["applied"]
    assert len(hall["changes"]["aggregates"]) == 2
    quiet = funnel["filters"][1]
    assert (quiet["name"], quiet["before"], quiet["after"]) == ("QuietTimeFilter", 3, 2)
    (refused,) = quiet["rejected"]
    assert refused["host"] == "cn1"
    assert re.fullmatch(
        r"its hall is maintained in [56]\.\d hours, and 12 are to be quiet", refused["reason"]
    )
    assert {"name": "CoolHallsWeigher", "multiplier": 2.0} in funnel["weighers"]
    weights = {host["host"]: host["weights"]["CoolHallsWeigher"] for host in explanation["hosts"]}
    # cn3 is in two halls, and the warmer of them counts.
    assert weights == {
        "cn2": {"raw": -18.0, "normalized": 1.0, "multiplier": 2.0, "weighted": 2.0},
        "cn3": {"raw": -30.0, "normalized": 0.0, "multiplier": 2.0, "weighted": 0.0},
    }
    assert explanation["selections"][0][0]["service_host"] == "cn2"

    names = [host["host"] for host in explain(bears_maintenance="true")["hosts"]]
    assert sorted(names) == ["cn1", "cn2", "cn3"]
    assert sorted(host["host"] for host in explain(hall="h2")["hosts"]) == ["cn3", "cn4"]
    assert explain(hall="h9")["outcome"] == "no_valid_host"
    other = explain("--override", "acme_halls.quiet_hours=3")
    assert len(other["hosts"]) == 3


def test_server_validates_and_applies_acme_extra_specs(cloud, serve, installed_package):
    server = serve("--config-file", "acme.conf", PYTHONPATH=installed_package)

    def send(path, body):
        version = {"OpenStack-API-Version": "compute 2.90"}
        return server.send("POST", path, body, **version)

    made = {"flavor": {"name": "h2", "id": "f1", "ram": 512, "vcpus": 1, "disk": 0}}
    assert send("/compute/v2.1/flavors", made)[0] == 200
    path = "/compute/v2.1/flavors/f1/os-extra_specs"
    for specs in ({"acme:hall": "second"}, {"acme:bears_maintenance": "often"}, {"acme:x": "1"}):
        status, result = send(path, {"extra_specs": specs})
        assert status == 400
        assert "Validation failed" in result["badRequest"]["message"]
    assert send(path, {"extra_specs": {"acme:hall": "h2"}})[0] == 200
    status, result = send("/scheduler/v1/select_destinations", {"request_spec": {"flavor": "f1"}})
    assert status == 200
    # Both are in the second hall, and in no cooler one.
    assert result["selections"][0][0]["service_host"] == "cn3"


def test_readme_of_acme_halls_names_every_plugin_and_option():
    text = (EXAMPLE_FOLDER / "README.md").read_text()
    setup = (EXAMPLE_FOLDER / "setup.cfg").read_text()
    for kind in re.findall(r":(\w+)\n", setup.partition("[options.entry_points]")[2]):
        assert kind in text or kind.lower() in text
    for module in (EXAMPLE_FOLDER / "acme_halls").glob("*.py"):
        for option in re.findall(r'Opt\(\s*"(\w+)"', module.read_text()):
            assert f"`{option}`" in text or f"[acme_halls] {option}" in text
    assert (Path(EXAMPLE_FOLDER) / "../../doc/source/writing_plugins.rst").exists()
