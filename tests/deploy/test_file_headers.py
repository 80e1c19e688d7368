# SPDX-License-Identifier: Apache-2.0
"""The commands in the headers of the files in ``deploy/`` and in its README.md work."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from tests.deploy import DEPLOY_FOLDER, create_certificate, find_program, run_program
from tests.deploy.manifests import find_manifests_of_kind, read_readme_blocks
from tests.support.repository import ROOT

pytestmark = pytest.mark.slow

_FILE_SUFFIXES = {".py", ".yaml", ".yml", ".cfg", ".conf", ".ini", ""}
#: A command is indented or begins with variables. In Python it is alone on its line.
_COMMAND_IN_COMMENT = re.compile(r"^[#;](?: {2,}| (?=\w+=))(\S.*)", re.MULTILINE)
_COMMAND_IN_DOCSTRING = re.compile(
    r"^(?:``)?((?:\w+=\S+ )?(?:gunicorn|python3) .+?)(?:``)?$", re.MULTILINE
)
HAPROXY_FILES = [f"deploy/{name}/haproxy.cfg" for name in ("haproxy", "compose", "galera")]
RULES_FILE, SECRET_FILE = "deploy/prometheus/rules.yml", "deploy/kubernetes/configuration.yaml"


def list_lines_in_file_headers() -> list[tuple[str, str]]:
    """Return the commands of all file headers, with the file."""
    files = [
        path
        for path in sorted(DEPLOY_FOLDER.rglob("*"))
        if path.is_file() and path.suffix in _FILE_SUFFIXES
    ]
    return [
        (str(path.relative_to(ROOT)), line) for path in files for line in _list_comment_lines(path)
    ]


def _list_comment_lines(file: Path) -> list[str]:
    text = re.sub(r"\\\n(?:[#;]\s+)?", "", file.read_text())
    lines = (_COMMAND_IN_DOCSTRING if file.suffix == ".py" else _COMMAND_IN_COMMENT).findall(text)
    return [re.split(r" {2,}", line)[0] for line in lines]  # without its description


def read_documented_line(file: str) -> str:
    (line,) = [line for name, line in list_lines_in_file_headers() if name == file]
    return line


def list_compose_commands() -> list[str]:
    """Return the commands for compose before the first that needs Docker."""
    lines = re.sub(r"\\\n\s+", "", read_readme_blocks("Compose")[0]).splitlines()
    return lines[: next(n for n, line in enumerate(lines) if line.startswith("docker "))]


def list_tested_lines() -> list[tuple[str, str]]:
    """Return every command that a test of this module runs, with the file."""
    heads = [
        (name, read_documented_line(name)) for name in (*HAPROXY_FILES, RULES_FILE, SECRET_FILE)
    ]
    return heads + [("deploy/README", line) for line in list_compose_commands()]


@pytest.mark.parametrize("file", HAPROXY_FILES)
def test_haproxy_accepts_its_file_with_the_documented_line(file, tmp_path):
    find_program("haproxy")
    text = re.sub(r"crt \S+", f"crt {create_certificate(tmp_path)}", (ROOT / file).read_text())
    text = re.sub(r"server (\w+) (?:one|two|db\d):", r"server \1 127.0.0.1:", text)
    (tmp_path / "haproxy.cfg").write_text(text)
    line = f"PATH=$PATH:/usr/sbin; {read_documented_line(file)}"
    assert run_program("bash", "-c", line, cwd=tmp_path) == "Configuration file is valid\n"


def test_documented_line_makes_promtool_accept_the_alerts():
    find_program("promtool", "prometheus")
    assert (
        run_program(
            "bash", "-c", read_documented_line(RULES_FILE), cwd=DEPLOY_FOLDER / "prometheus"
        ).count("SUCCESS")
        == 2
    )


def test_documented_line_creates_the_kubernetes_secret():
    find_program("kubectl", "kubernetes-client")
    created = run_program(
        *shlex.split(read_documented_line(SECRET_FILE)),
        "--dry-run=client",
        "--output=json",
        cwd=DEPLOY_FOLDER,
    )
    (manifest,) = find_manifests_of_kind("Secret")
    secret = yaml.safe_load(created)
    assert secret["metadata"]["name"] == manifest["metadata"]["name"]
    assert set(secret["data"]) == set(manifest["stringData"])


def test_readme_lines_create_the_certificate_of_compose(tmp_path):
    """HAProxy reads the certificate from the path of the compose file."""
    haproxy = find_program("haproxy")
    find_program("openssl")
    shutil.copytree(DEPLOY_FOLDER, tmp_path / "deploy")
    run_program("bash", "-euc", "\n".join(list_compose_commands()), cwd=tmp_path)
    config = tmp_path / "deploy/compose/haproxy.cfg"
    text = re.sub(r"server (\w+) (?:one|two):", r"server \1 127.0.0.1:", config.read_text())
    config.write_text(text.replace("crt /tls/", f"crt {config.parent}/tls/"))
    assert run_program(haproxy, "-c", "-f", config) == "Configuration file is valid\n"
