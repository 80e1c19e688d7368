# SPDX-License-Identifier: Apache-2.0
"""The steps of the guide's page "Deploy", with systemd, as far as a folder can stand for a machine.

What only an installed systemd can do (users, units, the journal) is left out, and so are Debian's
packages; ``systemd-sysusers`` makes the user in the folder.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url

from tests.conftest import SERVERS
from tests.deploy import DEPLOY, find_program, run
from tests.house.test_packaging import LEFT_OUT
from tests.support.empty_databases import empty_database
from tests.support.repository import ROOT
from tests.support.servers import PROGRAM, environment, start_server, wait_until

pytestmark = pytest.mark.exhaustive

PAGE = (ROOT / "doc/source/deploy.rst").read_text()
UPGRADE = (ROOT / "doc/source/upgrade.rst").read_text()
#: Programs that need a running systemd, Debian's registry or another machine.
OF_A_MACHINE = {"apt-get", "systemctl", "systemd-sysusers", "git", "cd", "curl", "mariadb"}
#: What changes the machine's own files, and what asks a keystone.
OF_ITS_NETWORK = {"echo", "printf", "sed", "."}
#: Commands on this machine's own PostgreSQL.
AS_POSTGRES = ["runuser", "-l", "postgres", "-c"]
#: pip has no index, nor anything else that packages come from.
NOWHERE = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
_, _, BY_HAND = PAGE.partition("\nWith systemd\n")
SYSTEMD, IN_FRONT = BY_HAND.split("\nTLS in front\n")


def read_commands(page: str) -> list[list[str]]:
    """Every command of a part of the page, in words."""
    blocks = re.findall(r"^ *.. code-block:: console\n\n((?:   .*\n|\n)+)", page, re.MULTILINE)
    text = re.sub(r"\\\n\s+", "", "".join(blocks))
    return [shlex.split(line) for line in re.findall(r"^ {3,6}[#$] (.+)", text, re.MULTILINE)]


def machine_commands() -> list[list[str]]:
    """The commands that the fixture ``machine`` runs."""
    elsewhere = OF_A_MACHINE | OF_ITS_NETWORK
    every = [one for one in read_commands(SYSTEMD) if one[0] not in elsewhere]
    return [one for one in every if one[:4] != AS_POSTGRES and not is_client_command(one)]


def is_client_command(words: list[str]) -> bool:
    """Whether a command installs OpenStack's client, or is one of it."""
    return words[0].startswith("client/") or words == ["python3", "-m", "venv", "client"]


def proxy_commands() -> list[list[str]]:
    """The commands that the fixture ``proxy_folder`` runs."""
    return [one for one in read_commands(IN_FRONT) if one[0] in {"openssl", "install", "cat"}]


def test_files_named_by_the_page_exist():
    named = set(re.findall(r"\bdeploy/[\w./-]+\w", PAGE))
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_page_creates_its_user(tmp_path):
    sysusers = find_program("systemd-sysusers", "systemd")
    (tmp_path / "etc").mkdir()
    run(sysusers, f"--root={tmp_path}", DEPLOY / "systemd/placement-sched.sysusers")
    (line,) = (tmp_path / "etc/passwd").read_text().splitlines()
    assert line.startswith("placement-sched:")
    assert line.endswith(":/var/lib/placement-sched:/usr/sbin/nologin")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the page's commands were run, each path of theirs below it."""
    root = tmp_path_factory.mktemp("machine")
    source = root / "source"
    shutil.copytree(ROOT, source, ignore=LEFT_OUT)
    for folder in ("opt", "etc/systemd/system", "usr/lib/sysusers.d", "usr/local/bin"):
        (root / folder).mkdir(parents=True)
    for words in machine_commands():
        here = [re.sub(r"^/(?=opt|etc|usr)", f"{root}/", word) for word in words]
        if here[0] == "python3":
            here[0] = sys.executable
        if here[0] == "install":  # there is no such group
            here = [word for word in here if word not in {"-g", "placement-sched"}]
        if here[0] == "runuser":
            here = here[here.index("--") + 1 :]
            edit_configuration(root / "etc/placement_sched/placement_sched.conf")
        # The build of the wheel downloads nothing: what pip installs beside has hashes.
        offline = NOWHERE if "--no-deps" in here else {}
        done = subprocess.run(
            here,
            cwd=source,
            env=environment(**offline),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"{here}\n{done.stdout}{done.stderr}"
    return root


def edit_configuration(config: Path) -> None:
    """Do what an operator does to the configuration, who has neither keystone nor PostgreSQL."""
    text = config.read_text()
    text = re.sub(r"connection = .*", f"connection = sqlite:///{config.parent}/p.db", text)
    text = re.sub(r"\[keystone_authtoken\](?s:.*?)\n\n", "", text)
    config.write_text(text.replace("auth_strategy = keystone", "auth_strategy = noauth2"))


def test_server_installed_by_the_page_serves_requests(machine):
    unit = (machine / "etc/systemd/system/placement-sched.service").read_text()
    program, *words = shlex.split(re.search(r"^ExecStart=(.*)", unit, re.MULTILINE)[1])
    words = [re.sub(r"^/(?=etc)", f"{machine}/", word) for word in words]
    with start_server(
        *words[1:],
        folder=machine,
        variables={"PATH": "/usr/bin:/bin"},
        program=machine / program.removeprefix("/"),
    ) as server:
        assert server.get("/healthz/ready")[0] == 200
        assert len(server.workers()) >= 4
        assert server.stop() == 0


def test_running_server_keeps_its_release_during_an_upgrade(machine):
    name = "opt/placement_sched"
    (put_in_use,) = [one for one in read_commands(UPGRADE) if one[0] == "ln"]
    assert put_in_use == ["ln", "-sfn", "placement_sched-NEW", f"/{name}"]
    config = machine / "etc/placement_sched/placement_sched.conf"
    program = machine / "usr/local/bin/placement-sched"
    words = ("--workers", "2", "--config-file", str(config))
    with start_server(*words, folder=machine, program=program) as server:
        try:
            run(*put_in_use[:-1], machine / name)
            before = server.workers()
            os.kill(min(before), signal.SIGKILL)
            assert wait_until(lambda: len(server.workers() - before) == 1)
            assert server.first_status("/healthz/ready") == 200
        finally:
            run("ln", "-sfn", "placement_sched-RELEASE", machine / name)
        (new,) = server.workers() - before
        assert f"{machine / name}-RELEASE/lib/" in Path(f"/proc/{new}/maps").read_text()


def test_upgrade_uses_the_commands_of_the_installation():
    """So what runs the page "Deploy" runs these as well."""
    new = [[word.replace("NEW", "RELEASE") for word in one] for one in read_commands(UPGRADE)[1:5]]
    assert [one[0].split("/")[-1] for one in new] == ["git", "python3", "pip", "pip"]
    assert all(one in read_commands(SYSTEMD) for one in new)


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_database_is_prepared_by_its_documented_user(kind, tmp_path):
    """The commands are run as an administrator, with names that no other test has."""
    name = f"ps_page_{uuid4().hex[:12]}"
    server = make_url(SERVERS[kind])
    with empty_database(kind, tmp_path):  # or there is no server, and the test is skipped
        pass
    words = [one for one in read_commands(SYSTEMD) if one[0] == "mariadb" or one[:4] == AS_POSTGRES]
    if kind == "mysql":
        statements = [one[2] for one in words if one[0] == "mariadb"]
    else:
        created, owned = (one[4] for one in words if one[0] == "runuser")
        assert created == "createuser --pwprompt placement_sched"
        assert owned == "createdb --owner placement_sched placement_sched"
        statements = [
            "CREATE USER placement_sched PASSWORD 'CHANGE-ME'",
            "CREATE DATABASE placement_sched OWNER placement_sched",
        ]
    assert len(statements) > 1
    url = server.set(username=name, password="CHANGE-ME", database=name)
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(
                    statement.replace("placement_sched", name).replace("%", "%%")
                )
        variables = environment(
            OS_PLACEMENT_DATABASE__CONNECTION=url.render_as_string(hide_password=False)
        )
        printed = run(PROGRAM, "db", "sync", cwd=tmp_path, env=variables)
        assert "schema brought to revision" in printed
        assert "may not create" not in printed  # it may create the triggers
    finally:
        anywhere = "" if kind == "postgresql" else "@'%%'"
        with engine.connect() as connection:
            connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {name}")
            connection.exec_driver_sql(f"DROP USER IF EXISTS {name}{anywhere}")
        engine.dispose()


@pytest.fixture(scope="module")
def proxy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the commands for TLS were run, as far as they need no packages."""
    root = tmp_path_factory.mktemp("in_front")
    find_program("openssl")
    for folder in ("etc/haproxy", "etc/nginx/conf.d", "etc/ssl"):
        (root / folder).mkdir(parents=True)
    shutil.copytree(DEPLOY, root / "deploy")
    for words in proxy_commands():
        quoted = [word if word == ">" else shlex.quote(word) for word in words]
        line = re.sub(r"(?<= )/(?=etc)", f"{root}/", " ".join(quoted))
        run("bash", "-euc", line, cwd=root)
    return root


def test_haproxy_accepts_the_installed_configuration(proxy_folder):
    haproxy = find_program("haproxy")
    assert ["haproxy", "-c", "-f", "/etc/haproxy/haproxy.cfg"] in read_commands(IN_FRONT)
    config = proxy_folder / "etc/haproxy/haproxy.cfg"
    key = proxy_folder / "etc/haproxy/placement.pem"
    assert key.stat().st_mode & 0o077 == 0
    config.write_text(config.read_text().replace(" /etc/", f" {proxy_folder}/etc/"))
    assert run(haproxy, "-c", "-f", config) == "Configuration file is valid\n"


def test_nginx_accepts_the_installed_configuration(proxy_folder):
    nginx = find_program("nginx", "nginx-light")
    site = proxy_folder / "etc/nginx/conf.d/placement-sched.conf"
    assert (proxy_folder / "etc/ssl/placement.example.com.key").stat().st_mode & 0o077 == 0
    site.write_text(site.read_text().replace(" /etc/", f" {proxy_folder}/etc/"))
    (proxy_folder / "nginx.conf").write_text(
        f"pid {proxy_folder}/pid;\nerror_log stderr;\nevents {{}}\n"
        f"http {{ access_log off; include {proxy_folder}/etc/nginx/conf.d/*.conf; }}\n"
    )
    printed = run(nginx, "-t", "-p", proxy_folder, "-c", proxy_folder / "nginx.conf")
    assert "test is successful" in printed
