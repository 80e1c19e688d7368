# SPDX-License-Identifier: Apache-2.0
"""The image for kolla-ansible and its containers: the files, without the base image."""

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from placement_sched.cli.main import main, make_parser
from placement_sched.config.conf import create_conf
from placement_sched.scheduler.plugins import read_settings
from tests.deploy import DEPLOY_FOLDER, run_program
from tests.support.servers import PROGRAMS_FOLDER, build_environment

pytestmark = pytest.mark.slow

DOCKERFILE_TEXT = (DEPLOY_FOLDER / "kolla/Dockerfile").read_text()
#: Options that kolla-ansible's role writes.
PLACEMENT_CONF = """
[DEFAULT]
debug = False
log_file = {folder}/placement-api.log
state_path = /var/lib/placement
[oslo_middleware]
enable_proxy_headers_parsing = true
[oslo_concurrency]
lock_path = /var/lib/placement/tmp
[placement_database]
connection = sqlite:///{folder}/placement.db
connection_recycle_time = 10
max_overflow = 1000
max_pool_size = 1
max_retries = -1
sync_on_startup = true
[cache]
backend = oslo_cache.memcache_pool
enabled = true
memcache_servers = 192.0.2.1:11211
[keystone_authtoken]
service_type = placement
www_authenticate_uri = http://192.0.2.1:5000
auth_url = http://192.0.2.1:5000
auth_type = password
project_domain_id = default
user_domain_id = default
project_name = service
username = placement
password = secret
region_name = RegionOne
memcache_security_strategy = ENCRYPT
memcache_secret_key = secret
memcached_servers = 192.0.2.1:11211
"""
#: uwsgi loads the module, and HAProxy of kolla-ansible requests "GET /".
REQUEST_PROGRAM = """
from webtest import TestApp
from placement.wsgi.api import application
print(TestApp(application).get("/").json["versions"][0]["max_version"])
print(TestApp(application).get("/resource_providers", status="*").status_int)
"""


@pytest.fixture
def configuration_folder(tmp_path: Path) -> Path:
    (tmp_path / "placement.conf").write_text(PLACEMENT_CONF.format(folder=tmp_path))
    return tmp_path


def test_kolla_wsgi_module_serves_the_placement_api_at_the_root(configuration_folder):
    (line,) = re.findall(r"^RUN echo '(.+)' \\$", DOCKERFILE_TEXT, re.MULTILINE)
    package = configuration_folder / "placement/wsgi"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "api.py").write_text(f"{line}\n")
    variables = {
        **build_environment(),
        "PYTHONPATH": str(configuration_folder),
        "OS_PLACEMENT_CONFIG_DIR": str(configuration_folder),
    }
    variables.pop("PLACEMENT_SCHED_CONFIG", None)
    printed = run_program(
        PROGRAMS_FOLDER / "python", "-c", REQUEST_PROGRAM, env=variables, cwd=configuration_folder
    )
    assert printed.splitlines()[-2:] == ["1.39", "401"]


def test_configuration_of_the_kolla_role_is_valid(configuration_folder, capsys):
    """Options without effect are warnings."""
    assert (
        main(["config", "validate", "--config-file", str(configuration_folder / "placement.conf")])
        == 0
    )
    assert "error" not in capsys.readouterr().out


def run_start_script_and_list_calls(
    configuration_folder: Path, failing: str = "", **variables: str
) -> list[list[str]]:
    """Source the start script as the image does, and return the calls of the programs."""
    for name in ("placement-manage", "placement-sched"):
        file = configuration_folder / name
        status = f'[[ "{failing}" != "{name}" ]]'
        file.write_text(f'#!/bin/bash\nprintf "%q " {name} "$@"; echo\n{status}\n')
        file.chmod(0o755)
    script = f"set -o errexit\n. {DEPLOY_FOLDER}/kolla/extend_start.sh\necho serve"
    path = {"PATH": f"{configuration_folder}:{os.environ['PATH']}"}
    printed = run_program("bash", "-c", script, status=bool(failing), env={**path, **variables})
    return [shlex.split(line) for line in printed.splitlines()]


UPGRADE_CALLS = [
    ["placement-manage", "db", "sync"],
    ["placement-manage", "db", "online_data_migrations"],
    ["placement-sched", "db", "adopt", "--config-file", "/etc/placement/placement.conf"],
]


@pytest.mark.parametrize("step", ["KOLLA_BOOTSTRAP", "KOLLA_UPGRADE", "KOLLA_OSM"])
def test_kolla_start_script_upgrades_the_database_in_its_steps(tmp_path, step):
    assert run_start_script_and_list_calls(tmp_path, **{step: ""}) == UPGRADE_CALLS


def test_kolla_start_script_without_a_step_starts_the_server(tmp_path):
    assert run_start_script_and_list_calls(tmp_path) == [["serve"]]


@pytest.mark.parametrize(("program", "calls"), [("placement-manage", 1), ("placement-sched", 3)])
def test_failed_upgrade_ends_the_kolla_start_script(tmp_path, program, calls):
    assert (
        run_start_script_and_list_calls(tmp_path, failing=program, KOLLA_BOOTSTRAP="")
        == UPGRADE_CALLS[:calls]
    )


@pytest.mark.parametrize("name", ["README.md", "LICENSE", "setup.py", "setup.cfg"])
def test_kolla_dockerfile_copies_the_files_that_the_installation_reads(name):
    assert name in DOCKERFILE_TEXT


#: Options that kolla-ansible's role writes for nova-scheduler.
NOVA_CONF = """
[DEFAULT]
log_dir = /var/log/kolla/nova
state_path = /var/lib/nova
transport_url = rabbit://openstack:secret@192.0.2.1:5672//
[oslo_concurrency]
lock_path = /var/lib/nova/tmp
[database]
connection = sqlite:///{folder}/nova_cell0.db
max_retries = -1
[api_database]
connection = sqlite:///{folder}/nova_api.db
max_retries = -1
[oslo_messaging_rabbit]
use_queue_manager = true
heartbeat_in_pthread = false
rabbit_quorum_queue = true
rabbit_stream_fanout = true
rabbit_qos_prefetch_count = 1
rabbit_transient_quorum_queue = true
[scheduler]
max_attempts = 10
discover_hosts_in_cells_interval = -1
workers = 5
"""
SERVICE_NAMES = ["nova-shadow", "nova-scheduler"]


def read_kolla_config(service: str) -> dict:
    """Return the command and the copied files of a service, as kolla_start reads them."""
    return json.loads((DEPLOY_FOLDER / f"kolla/{service}.json").read_text())


@pytest.mark.parametrize("service", SERVICE_NAMES)
def test_kolla_command_reads_the_copied_files_and_logs_to_stderr(
    service, configuration_folder, capsys
):
    config = read_kolla_config(service)
    words = shlex.split(config["command"])
    begin = words.index("placement-sched")
    assert words[:begin] == ["env", "OS_DEFAULT__LOG_DIR=", "OS_DEFAULT__LOG_FILE="]
    arguments = words[begin + 1 :]
    assert arguments[0] == service
    assert make_parser(arguments).parse_args(arguments).run
    files = arguments[2::2]
    copied = {entry["dest"]: entry for entry in config["config_files"]}
    assert [copied[file]["owner"] for file in files] == ["placement", "placement"]
    (configuration_folder / "nova.conf").write_text(NOVA_CONF.format(folder=configuration_folder))
    chosen = [f"--config-file={configuration_folder / Path(file).name}" for file in files]
    assert main(["config", "validate", *chosen]) == 0
    assert "error" not in capsys.readouterr().out


@pytest.mark.parametrize("service", SERVICE_NAMES)
def test_kolla_run_script_mounts_every_file_of_config_json(service, tmp_path):
    (tmp_path / "docker").write_text('#!/bin/bash\nprintf "%q " "$@"\n')
    (tmp_path / "docker").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    printed = run_program(
        DEPLOY_FOLDER / "kolla/run.sh",
        *(service, "REGISTRY/IMAGE:TAG", "--detach"),
        env={"PATH": path, "NODE_CONFIG": str(tmp_path)},
    )
    command, *words = shlex.split(printed)
    assert (command, words[-2:]) == ("run", ["--detach", "REGISTRY/IMAGE:TAG"])
    options = list(zip(words[:-2:2], words[1:-2:2], strict=True))
    assert ("--name", f"placement_sched_{service.replace('-', '_')}") in options
    volumes = [value.split(":") for option, value in options if option == "--volume"]
    places = {target: Path(source) for source, target, _ in volumes}
    assert json.loads(places["/var/lib/kolla/config_files/config.json"].read_text())
    folders = {
        target: f"{source.relative_to(tmp_path)}"
        for target, source in places.items()
        if source.suffix != ".json"
    }
    for entry in read_kolla_config(service)["config_files"]:
        configuration_folder, _, name = entry["source"].rpartition("/")
        kind = "placement-api" if name == "placement.conf" else "nova-scheduler"
        assert folders[configuration_folder] == kind


def test_stop_timeout_of_kolla_exceeds_the_graceful_shutdown_timeout():
    (seconds,) = re.findall(r"--stop-timeout (\d+)", (DEPLOY_FOLDER / "kolla/run.sh").read_text())
    assert int(seconds) > read_settings((), create_conf()).DEFAULT.graceful_shutdown_timeout
