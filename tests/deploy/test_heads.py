# SPDX-License-Identifier: Apache-2.0
"""What the heads of the files in ``deploy/``, and its README.md, have their reader type works."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from tests.deploy import DEPLOY, create_certificate, find_program, run
from tests.deploy.test_manifests import manifests_of_kind, readme_blocks
from tests.support.repository import ROOT

pytestmark = pytest.mark.slow

_BY_HAND = {".py", ".yaml", ".yml", ".cfg", ".conf", ".ini", ""}
#: A line that is typed is set off from the prose, or sets variables first; in Python it is alone.
_IN_COMMENT = re.compile(r"^[#;](?: {2,}| (?=\w+=))(\S.*)", re.MULTILINE)
_IN_DOCSTRING = re.compile(r"^(?:``)?((?:\w+=\S+ )?(?:gunicorn|python3) .+?)(?:``)?$", re.MULTILINE)
HAPROXIES = [f"deploy/{name}/haproxy.cfg" for name in ("haproxy", "compose", "galera")]
RULES, SECRET = "deploy/prometheus/rules.yml", "deploy/kubernetes/configuration.yaml"


def lines_in_file_headers() -> list[tuple[str, str]]:
    """Return every line that a head has its reader type, with the file."""
    files = [one for one in sorted(DEPLOY.rglob("*")) if one.is_file() and one.suffix in _BY_HAND]
    return [(str(one.relative_to(ROOT)), line) for one in files for line in _comment_lines(one)]


def _comment_lines(file: Path) -> list[str]:
    text = re.sub(r"\\\n(?:[#;]\s+)?", "", file.read_text())
    found = (_IN_DOCSTRING if file.suffix == ".py" else _IN_COMMENT).findall(text)
    return [re.split(r" {2,}", line)[0] for line in found]  # what it does stands apart


def read_line(file: str) -> str:
    (line,) = [line for name, line in lines_in_file_headers() if name == file]
    return line


def compose_lines() -> list[str]:
    """Return what is typed before Docker is needed."""
    lines = re.sub(r"\\\n\s+", "", readme_blocks("Compose")[0]).splitlines()
    return lines[: next(n for n, line in enumerate(lines) if line.startswith("docker "))]


def typed_lines() -> list[tuple[str, str]]:
    """Return every line that a test of this module types, with the file."""
    heads = [(name, read_line(name)) for name in (*HAPROXIES, RULES, SECRET)]
    return heads + [("deploy/README", line) for line in compose_lines()]


@pytest.mark.parametrize("file", HAPROXIES)
def test_haproxy_accepts_its_file_with_the_documented_line(file, tmp_path):
    find_program("haproxy")
    text = re.sub(r"crt \S+", f"crt {create_certificate(tmp_path)}", (ROOT / file).read_text())
    text = re.sub(r"server (\w+) (?:one|two|db\d):", r"server \1 127.0.0.1:", text)
    (tmp_path / "haproxy.cfg").write_text(text)
    line = f"PATH=$PATH:/usr/sbin; {read_line(file)}"
    assert run("bash", "-c", line, cwd=tmp_path) == "Configuration file is valid\n"


def test_promtool_accepts_the_alerts_with_the_documented_line():
    find_program("promtool", "prometheus")
    assert run("bash", "-c", read_line(RULES), cwd=DEPLOY / "prometheus").count("SUCCESS") == 2


def test_documented_line_creates_the_secret_of_the_manifest():
    find_program("kubectl", "kubernetes-client")
    made = run(*shlex.split(read_line(SECRET)), "--dry-run=client", "--output=json", cwd=DEPLOY)
    (secret,) = manifests_of_kind("Secret")
    found = yaml.safe_load(made)
    assert found["metadata"]["name"] == secret["metadata"]["name"]
    assert set(found["data"]) == set(secret["stringData"])


def test_readme_lines_create_the_certificate_of_compose(tmp_path):
    """HAProxy reads it, as the compose file mounts it."""
    haproxy = find_program("haproxy")
    find_program("openssl")
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    run("bash", "-euc", "\n".join(compose_lines()), cwd=tmp_path)
    config = tmp_path / "deploy/compose/haproxy.cfg"
    text = re.sub(r"server (\w+) (?:one|two):", r"server \1 127.0.0.1:", config.read_text())
    config.write_text(text.replace("crt /tls/", f"crt {config.parent}/tls/"))
    assert run(haproxy, "-c", "-f", config) == "Configuration file is valid\n"
