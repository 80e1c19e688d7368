# SPDX-License-Identifier: Apache-2.0
"""The image is built from its file, and runs without root on a read-only file system."""

import json
import re
import shlex
from collections.abc import Iterator

import pytest

from tests.deploy import DEPLOY_FOLDER
from tests.deploy.images import BASE_IMAGE, Docker, skip_without_podman
from tests.support.repository import ROOT
from tests.support.servers import wait_until

pytestmark = pytest.mark.exhaustive

DOCKERFILE = DEPLOY_FOLDER / "container/Dockerfile"
#: Maximum size of the added files, in bytes. Measured: 290 000 000.
MAX_IMAGE_ADDED_BYTES = 300_000_000
SERVER_URL = "http://127.0.0.1:8778"
_HTTP_REQUEST_PROGRAM = (
    "import urllib.request as u; print(u.urlopen(u.Request({url!r}, headers={headers})).read())"
)


def read_documented_command(command: str) -> str:
    """Return a command of the header of the file."""
    head = re.sub(r"\\\n#\s+", "", DOCKERFILE.read_text().partition("\n\n")[0])
    (line,) = re.findall(rf"^#   (docker {command} .*)", head, re.MULTILINE)
    return line


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:
    """Podman with the image, built with the command of the file."""
    skip_without_podman()
    docker = Docker(tmp_path_factory.mktemp("docker"))
    options = docker.build_base_image()
    docker.run_line(
        read_documented_command("build").replace("build", f"build --layers=false {options}", 1)
    )
    yield docker
    docker.run_line("docker rm --all --force --time 5; docker rmi --all --force")


def test_container_runs_read_only_as_a_numeric_user_and_stops_with_0(podman):
    line = read_documented_command("run --read-only").replace(
        "postgresql://...", "sqlite:////tmp/placement_sched.db"
    )
    podman.run_line(line.replace("docker run", "docker run --detach --name server", 1))
    healthy = "docker healthcheck run server >/dev/null 2>&1 && echo healthy || echo not yet"
    assert wait_until(lambda: podman.run_line(healthy) == "healthy\n", 60), podman.run_line(
        "docker logs server"
    )
    request = _HTTP_REQUEST_PROGRAM.format(
        url=f"{SERVER_URL}/placement/resource_providers", headers={"X-Auth-Token": "admin"}
    )
    output = podman.run_line(f"docker exec server python -c {shlex.quote(request)}")
    assert '{"resource_providers":[]}' in output
    status = podman.run_line("docker exec server cat /proc/1/status")
    assert re.search(r"^Uid:(\t65532){4}$", status, re.MULTILINE)
    assert re.search(r"^CapBnd:\t0+$", status, re.MULTILINE)
    assert "NoNewPrivs:\t1\n" in status
    failure = podman.run_line("docker exec server touch /opt/placement_sched/x", status=1)
    assert "Read-only file system" in failure
    podman.run_line("docker stop --time 45 server")
    assert podman.run_line("docker inspect server --format '{{.State.ExitCode}}'") == "0\n"


def test_container_image_serves_the_demo_to_other_machines(podman):
    line = read_documented_command("run --publish")
    podman.run_line(line.replace("docker run", "docker run --detach --name demo", 1))
    request = shlex.quote(
        _HTTP_REQUEST_PROGRAM.format(url=f"{SERVER_URL}/", headers={"Accept": "text/html"})
    )
    line = f"docker exec demo python -c {request} 2>/dev/null || echo not yet"
    assert wait_until(lambda: "<h1>Overview</h1>" in podman.run_line(line), 120), podman.run_line(
        "docker logs demo"
    )
    assert "the console is at http://0.0.0.0:8778/" in podman.run_line("docker logs demo")
    podman.run_line("docker stop --time 45 demo")


def test_container_image_adds_fewer_bytes_than_the_maximum_to_its_base(podman):
    """The base image is not counted, since registries have it."""

    def read_image_size(image: str) -> int:
        return int(podman.run_line(f"docker image inspect --format '{{{{.Size}}}}' {image}"))

    added = read_image_size("placement-sched") - read_image_size(BASE_IMAGE)
    assert 0 < added < MAX_IMAGE_ADDED_BYTES, added


def test_container_image_contains_the_program_and_no_installer(podman):
    config = json.loads(podman.run_line("docker image inspect placement-sched"))[0]["Config"]
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == ["placement-sched"]
    labels = config["Labels"]
    (number,) = re.findall(r"^version = (.+)", (ROOT / "setup.cfg").read_text(), re.MULTILINE)
    assert labels["org.opencontainers.image.version"] == number
    assert "org.opencontainers.image.source" in labels
    version = podman.run_line("docker run --rm --read-only --tmpfs /tmp placement-sched --version")
    assert re.search(r"^placement-sched [0-9.]+", version, re.MULTILINE)
    programs = "docker run --rm --entrypoint ls placement-sched /opt/placement_sched/bin"
    assert "pip" not in podman.run_line(programs)
