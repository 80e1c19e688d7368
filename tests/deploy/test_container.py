# SPDX-License-Identifier: Apache-2.0
"""The container file: a small image that runs without root, from few source files."""

import json
import os
import re

import pytest

from placement_sched.cli.main import make_parser
from tests.deploy import DEPLOY_FOLDER, find_program, run_program
from tests.support.repository import ROOT

pytestmark = pytest.mark.slow

DOCKERFILE = DEPLOY_FOLDER / "container/Dockerfile"


def read_dockerfile_instructions() -> list[tuple[str, str]]:
    """Return every instruction with its arguments, in order."""
    text = re.sub(
        r"\\\n\s*", " ", re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE)
    )
    lines = [line for line in text.splitlines() if line.strip()]
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines]


def read_last_stage() -> dict[str, str]:
    parts = read_dockerfile_instructions()
    last = max(number for number, (word, _) in enumerate(parts) if word == "FROM")
    return dict(parts[last:])


def test_container_image_runs_as_a_numeric_user_other_than_root():
    user, group = read_last_stage()["USER"].split(":")
    assert int(user) > 0
    assert int(group) > 0
    deployment = (DEPLOY_FOLDER / "kubernetes/deployment.yaml").read_text()
    assert f"runAsUser: {user}\n" in deployment
    assert f'user: "{user}:{group}"' in (DEPLOY_FOLDER / "compose/compose.yaml").read_text()


def test_last_stage_of_the_dockerfile_only_copies_the_built_environment():
    copied = [rest for word, rest in read_dockerfile_instructions() if word == "COPY"]
    assert copied[-1] == "--from=build /opt/placement_sched /opt/placement_sched"
    last = read_last_stage()
    assert "RUN" not in last  # a package manager would leave a cache
    assert "-slim" in last["FROM"]


def test_dockerfile_installs_packages_with_hashes_from_wheels_only():
    (install,) = [rest for word, rest in read_dockerfile_instructions() if "--requirement" in rest]
    assert "--require-hashes" in install
    assert "--only-binary :all:" in install


def test_health_check_of_the_image_uses_the_port_of_the_server():
    last = read_last_stage()
    assert f"127.0.0.1:{last['EXPOSE']}/healthz'" in last["HEALTHCHECK"]
    program, option, code = json.loads(re.search(r"CMD (\[.*\])", last["HEALTHCHECK"])[1])
    assert (program, option) == ("python", "-c")
    compile(code, "health", "exec")
    assert last["ENTRYPOINT"] == '["placement-sched"]'
    words = json.loads(last["CMD"])
    arguments = make_parser(words).parse_args(words)
    assert str(arguments.port) == last["EXPOSE"]
    assert last["STOPSIGNAL"] == "SIGTERM"


def test_dockerignore_allows_exactly_the_copied_files():
    sources = {
        source
        for word, rest in read_dockerfile_instructions()
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    }
    ignored = (DOCKERFILE.parent / "Dockerfile.dockerignore").read_text().splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == sources
    assert "*" in ignored
    assert [path for path in sources if not (ROOT / path).exists()] == []


def test_compose_file_is_valid():
    """Compose 1 rejects the name of a project, and accepts the rest of the file."""
    compose = find_program("docker-compose")
    text = (DEPLOY_FOLDER / "compose/compose.yaml").read_text()
    if run_program(compose, "version", "--short").startswith("1."):
        text = text.replace("name: placement-sched\n", "", 1)
    folder = DEPLOY_FOLDER / "compose"
    checked = (compose, "--file", "-", "config", "--quiet")
    variables = {**os.environ, "POSTGRES_PASSWORD": "x", "GRAFANA_PASSWORD": "x"}
    assert run_program(*checked, input=text, cwd=folder, env=variables) == ""
    misspelt = text.replace("read_only:", "readonly:")
    assert "readonly" in run_program(*checked, input=misspelt, cwd=folder, env=variables, status=1)
    del variables["GRAFANA_PASSWORD"]
    assert "set it" in run_program(*checked, input=text, cwd=folder, env=variables, status=1)
