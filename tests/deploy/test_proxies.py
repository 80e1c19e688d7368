# SPDX-License-Identifier: Apache-2.0
"""The configurations of HAProxy and nginx are valid and agree with the server."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from placement_sched.config.conf import create_conf
from placement_sched.scheduler.plugins import read_settings
from tests.deploy import (
    DEPLOY_FOLDER,
    check_query_length_limit,
    create_certificate,
    find_program,
    haproxy,
    nginx,
    run_program,
)
from tests.support.repository import ROOT
from tests.support.servers import start_server

pytestmark = pytest.mark.slow

HAPROXY_FILES = [DEPLOY_FOLDER / "haproxy/haproxy.cfg", DEPLOY_FOLDER / "compose/haproxy.cfg"]
NGINX_FILE = DEPLOY_FOLDER / "nginx/placement-sched.conf"
APACHE_FILE = DEPLOY_FOLDER / "wsgi/apache.conf"


def test_both_haproxy_files_differ_only_in_log_bind_and_server_lines():
    text, compose = (path.read_text() for path in HAPROXY_FILES)
    compose, comment, resolvers = compose.partition("\n# Docker's name server")
    assert comment
    assert "nameserver docker 127.0.0.11:53\n" in resolvers
    pairs = zip(text.splitlines()[1:], compose.splitlines()[1:], strict=True)
    assert {line.split()[0] for line, other in pairs if line != other} == {"log", "bind", "server"}


def test_haproxy_accepts_the_file_with_database_nodes(tmp_path):
    """The page appends the file to the first, since HAProxy cannot read both after each other."""
    haproxy = find_program("haproxy")
    page = (ROOT / "doc/source/galera.rst").read_text()
    (line,) = re.findall(r"^   # (sed .*) >> /etc/haproxy/haproxy.cfg$", page, re.MULTILINE)
    added = re.sub(r" db\d:", " 127.0.0.1:", run_program(*shlex.split(line), cwd=ROOT))
    assert "listen galera\n" in added
    own = re.sub(r"crt \S+", f"crt {create_certificate(tmp_path)}", HAPROXY_FILES[0].read_text())
    config = tmp_path / "haproxy.cfg"
    config.write_text(f"{own}{added}")
    assert run_program(haproxy, "-c", "-f", config) == "Configuration file is valid\n"


def test_nginx_accepts_its_configuration(tmp_path):
    nginx = find_program("nginx", "nginx-light")
    create_certificate(tmp_path)
    text = NGINX_FILE.read_text()
    text = re.sub(r"(ssl_certificate +)\S+;", rf"\1{tmp_path}/cert.pem;", text)
    text = re.sub(r"(ssl_certificate_key +)\S+;", rf"\1{tmp_path}/key.pem;", text)
    (tmp_path / "site.conf").write_text(text)
    (tmp_path / "nginx.conf").write_text(
        f"pid {tmp_path}/pid;\nerror_log stderr;\nevents {{}}\n"
        f"http {{ access_log off; include {tmp_path}/site.conf; }}\n"
    )
    output = run_program(nginx, "-t", "-p", tmp_path, "-c", tmp_path / "nginx.conf")
    assert "test is successful" in output
    assert "warn" not in output


def test_body_size_limits_of_proxies_equal_the_limit_of_the_server():
    limit = read_settings((), create_conf()).api.max_request_body_size
    assert f"client_max_body_size {limit >> 20}m;" in NGINX_FILE.read_text()
    assert f"LimitRequestBody {limit}\n" in APACHE_FILE.read_text()
    ingress = (DEPLOY_FOLDER / "kubernetes/service.yaml").read_text()
    assert f"proxy-body-size: {limit >> 20}m\n" in ingress


@pytest.mark.system
@pytest.mark.parametrize("proxy", [haproxy, nginx], ids=["haproxy", "nginx"])
def test_proxy_accepts_long_queries_and_reports_the_limit(proxy, tmp_path):
    with start_server(folder=tmp_path) as server:
        port = int(server.url.rpartition(":")[2])
        with proxy.start_proxy(tmp_path, [port]) as (url, signed):
            check_query_length_limit(url, verify=str(signed))


@pytest.mark.parametrize(
    "path", [*HAPROXY_FILES, NGINX_FILE, APACHE_FILE], ids=lambda path: path.parent.name
)
def test_proxy_configuration_drops_forwarded_headers_of_clients(path: Path):
    """The servers trust these headers, so only the proxy may set them."""
    text = path.read_text()
    if path in {NGINX_FILE, APACHE_FILE}:
        directives = r"(?:proxy_set_header|RequestHeader (?:unset|set)) (\S+)"
        changed = set(re.findall(directives, text))
        trusted = {"Forwarded", *(f"X-Forwarded-{name}" for name in ("Proto", "Host", "For"))}
        assert trusted | {"X-Forwarded-Prefix"} <= changed
    else:
        assert "http-request del-header Forwarded\n" in text
        assert "http-request del-header ^X-Forwarded- -m reg\n" in text


def test_ingress_nginx_is_configured_to_drop_headers():
    """The ingress replaces a client's headers with empty values."""
    documents = yaml.safe_load_all((DEPLOY_FOLDER / "kubernetes/service.yaml").read_text())
    (headers,) = [document for document in documents if document["kind"] == "ConfigMap"]
    assert headers["data"] == {"Forwarded": "", "X-Forwarded-Prefix": ""}
    space = yaml.safe_load((DEPLOY_FOLDER / "kubernetes/kustomization.yaml").read_text())[
        "namespace"
    ]
    name = f'"proxy-set-headers": "{space}/{headers["metadata"]["name"]}"'
    patch = f'{{"data": {{{name}, "large-client-header-buffers": "4 64k"}}}}'
    assert f"--patch '{patch}'\n" in (DEPLOY_FOLDER / "README.md").read_text()
