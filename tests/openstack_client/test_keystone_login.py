# SPDX-License-Identifier: Apache-2.0
"""Login by ``clouds.yaml`` to OpenStack's keystone, and the scheduler from its catalogue."""

import json

import pytest
import yaml

from tests.differential.comparison import skip_without_peer
from tests.support.commands import run_captured
from tests.support.keystone import PASSWORD, run_keystone
from tests.support.servers import PROGRAMS_FOLDER, build_environment, start_server

pytestmark = pytest.mark.system

KEYSTONE_LOGIN = {
    "username": "admin",
    "password": PASSWORD,
    "project_name": "service",
    "user_domain_name": "Default",
    "project_domain_name": "Default",
}
SIZE_OPTIONS = ("--vcpus", "1", "--ram", "512", "--disk", "1")


@pytest.fixture(scope="module")
def run_with_clouds_yaml(tmp_path_factory):
    """Give a function that runs a program with a clouds.yaml, and returns its result."""
    skip_without_peer()
    folder = tmp_path_factory.mktemp("cloud")
    with run_keystone(folder / "keystone") as keystone:
        login = {**KEYSTONE_LOGIN, "auth_url": f"{keystone.url}/v3"}
        clouds = {
            "good": {"auth": login, "region_name": "RegionOne"},
            "wrong": {"auth": {**login, "password": "x"}, "region_name": "RegionOne"},
        }
        (folder / "clouds.yaml").write_text(yaml.safe_dump({"clouds": clouds}))
        options = {"auth_type": "password", "www_authenticate_uri": login["auth_url"], **login}
        lines = ["[api]", "auth_strategy = keystone", "[keystone_authtoken]"]
        lines += [f"{option} = {value}" for option, value in options.items()]
        config = folder / "placement_sched.conf"
        config.write_text("\n".join(lines))

        def run_program_with_cloud(program: str, *words: str, cloud: str = "good"):
            return run_captured(
                [PROGRAMS_FOLDER / program, *words],
                env=build_environment(OS_CLOUD=cloud, HOME=str(folder)),
                cwd=folder,
            )

        with start_server("--config-file", config, folder=folder) as server:
            for words in (
                ("service", "create", "--name", "placement-sched", "scheduler"),
                ("endpoint", "create", "--region", "RegionOne", "scheduler", "public", server.url),
            ):
                created = run_program_with_cloud("openstack", *words)
                assert created.returncode == 0, created.stderr
            yield run_program_with_cloud


def test_openstack_scheduler_explain_succeeds_with_a_keystone_login(run_with_clouds_yaml):
    done = run_with_clouds_yaml("openstack", "scheduler", "explain", *SIZE_OPTIONS, "-f", "json")
    assert done.returncode == 0, done.stderr
    assert {row["Out"] for row in json.loads(done.stdout)} == {0}


def test_placement_sched_command_logs_in_with_keystone(run_with_clouds_yaml):
    done = run_with_clouds_yaml("placement-sched", "policy", "list", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


@pytest.mark.parametrize(
    ("program", "words"),
    [("openstack", ["scheduler", "host", "list"]), ("placement-sched", ["host", "list"])],
)
def test_wrong_keystone_password_is_reported_in_one_line(run_with_clouds_yaml, program, words):
    done = run_with_clouds_yaml(program, *words, cloud="wrong")
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "401" in line
