# SPDX-License-Identifier: Apache-2.0
"""The commands of the page "Deploy", with systemd, in a folder in place of a machine.

Commands for a running systemd (users, units, journal) and for Debian's packages are left out:
``test_pages_on_a_machine.py`` runs them.
"""

import os
import re
import shlex
import shutil
import signal
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url

from tests.conftest import DATABASE_SERVER_URLS
from tests.deploy import run_program
from tests.support.commands import run_captured
from tests.support.empty_databases import empty_database
from tests.support.repository import IGNORED_COPY_PATTERNS, ROOT
from tests.support.servers import PROGRAM, build_environment, start_server, wait_until

pytestmark = pytest.mark.exhaustive

DEPLOY_PAGE = (ROOT / "doc/source/deploy.rst").read_text()
UPGRADE_PAGE = (ROOT / "doc/source/upgrade.rst").read_text()
#: Programs that need a running systemd, Debian's packages or another machine.
MACHINE_PROGRAMS = {"apt-get", "systemctl", "systemd-sysusers", "git", "cd", "curl", "mariadb"}
#: Programs that change the machine's own files or send requests to keystone.
NETWORK_PROGRAMS = {"echo", "printf", "sed", "."}
#: Begin of commands that use the machine's PostgreSQL.
RUNUSER_POSTGRES_COMMAND = ["runuser", "-l", "postgres", "-c"]
#: pip then has no source of packages.
OFFLINE_PIP_VARIABLES = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
_, _, SYSTEMD_AND_TLS_SECTIONS = DEPLOY_PAGE.partition("\nWith systemd\n")
SYSTEMD_SECTION, _, _ = SYSTEMD_AND_TLS_SECTIONS.partition("\nTLS in front\n")


def read_page_commands(page: str) -> list[list[str]]:
    """Return every command of a part of the page, as words."""
    blocks = re.findall(r"^ *.. code-block:: console\n\n((?:   .*\n|\n)+)", page, re.MULTILINE)
    text = re.sub(r"\\\n\s+", "", "".join(blocks))
    return [shlex.split(line) for line in re.findall(r"^ {3,6}[#$] (.+)", text, re.MULTILINE)]


def list_machine_commands() -> list[list[str]]:
    """Return the commands that the fixture ``machine`` runs."""
    elsewhere = MACHINE_PROGRAMS | NETWORK_PROGRAMS
    commands = [words for words in read_page_commands(SYSTEMD_SECTION) if words[0] not in elsewhere]
    return [
        words
        for words in commands
        if words[:4] != RUNUSER_POSTGRES_COMMAND and not is_client_command(words)
    ]


def is_client_command(words: list[str]) -> bool:
    """Return whether a command installs or runs OpenStack's client."""
    return words[0].startswith("client/") or words == ["python3", "-m", "venv", "client"]


@pytest.fixture(scope="module")
def machine_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder after the commands of the page, with all their paths below it."""
    root = tmp_path_factory.mktemp("machine")
    source = root / "source"
    shutil.copytree(ROOT, source, ignore=IGNORED_COPY_PATTERNS)
    for folder in ("opt", "etc/systemd/system", "usr/lib/sysusers.d", "usr/local/bin"):
        (root / folder).mkdir(parents=True)
    for words in list_machine_commands():
        command = [re.sub(r"^/(?=opt|etc|usr)", f"{root}/", word) for word in words]
        if command[0] == "python3":
            command[0] = sys.executable
        if command[0] == "install":  # the group does not exist here
            command = [word for word in command if word not in {"-g", "placement-sched"}]
        if command[0] == "runuser":
            command = command[command.index("--") + 1 :]
            configure_noauth2_and_sqlite(root / "etc/placement_sched/placement_sched.conf")
        # The build of the wheel downloads nothing. Packages that pip downloads have hashes.
        offline = OFFLINE_PIP_VARIABLES if "--no-deps" in command else {}
        done = run_captured(command, cwd=source, env=build_environment(**offline), timeout=600)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return root


def configure_noauth2_and_sqlite(config: Path) -> None:
    """Edit the configuration for an operator without keystone and PostgreSQL."""
    text = config.read_text()
    text = re.sub(r"connection = .*", f"connection = sqlite:///{config.parent}/p.db", text)
    text = re.sub(r"\[keystone_authtoken\](?s:.*?)\n\n", "", text)
    config.write_text(text.replace("auth_strategy = keystone", "auth_strategy = noauth2"))


def test_server_installed_by_the_page_serves_requests(machine_folder):
    unit = (machine_folder / "etc/systemd/system/placement-sched.service").read_text()
    program, *words = shlex.split(re.search(r"^ExecStart=(.*)", unit, re.MULTILINE)[1])
    words = [re.sub(r"^/(?=etc)", f"{machine_folder}/", word) for word in words]
    with start_server(
        *words[1:],
        folder=machine_folder,
        variables={"PATH": "/usr/bin:/bin"},
        program=machine_folder / program.removeprefix("/"),
    ) as server:
        assert server.get("/healthz/ready")[0] == 200
        assert len(server.workers()) >= 4
        assert server.stop() == 0


def test_running_server_keeps_its_release_during_an_upgrade(machine_folder):
    name = "opt/placement_sched"
    (put_in_use,) = [words for words in read_page_commands(UPGRADE_PAGE) if words[0] == "ln"]
    assert put_in_use == ["ln", "-sfn", "placement_sched-NEW", f"/{name}"]
    config = machine_folder / "etc/placement_sched/placement_sched.conf"
    program = machine_folder / "usr/local/bin/placement-sched"
    words = ("--workers", "2", "--config-file", str(config))
    with start_server(*words, folder=machine_folder, program=program) as server:
        try:
            run_program(*put_in_use[:-1], machine_folder / name)
            workers = server.workers()
            os.kill(min(workers), signal.SIGKILL)
            assert wait_until(lambda: len(server.workers() - workers) == 1)
            assert server.wait_for_first_status("/healthz/ready") == 200
        finally:
            run_program("ln", "-sfn", "placement_sched-RELEASE", machine_folder / name)
        (new_worker,) = server.workers() - workers
        assert (
            f"{machine_folder / name}-RELEASE/lib/" in Path(f"/proc/{new_worker}/maps").read_text()
        )


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_database_is_prepared_by_its_documented_user(kind, tmp_path):
    """An administrator runs the commands, with a random name of user and database."""
    name = f"ps_page_{uuid4().hex[:12]}"
    server = make_url(DATABASE_SERVER_URLS[kind])
    with empty_database(kind, tmp_path):  # skips the test if there is no server
        pass
    commands = [
        words
        for words in read_page_commands(SYSTEMD_SECTION)
        if words[0] == "mariadb" or words[:4] == RUNUSER_POSTGRES_COMMAND
    ]
    if kind == "mysql":
        statements = [words[2] for words in commands if words[0] == "mariadb"]
    else:
        created, owned = (words[4] for words in commands if words[0] == "runuser")
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
        variables = build_environment(
            OS_PLACEMENT_DATABASE__CONNECTION=url.render_as_string(hide_password=False)
        )
        printed = run_program(PROGRAM, "db", "sync", cwd=tmp_path, env=variables)
        assert "schema brought to revision" in printed
        assert "may not create" not in printed  # the user may create the triggers
    finally:
        anywhere = "" if kind == "postgresql" else "@'%%'"
        with engine.connect() as connection:
            connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {name}")
            connection.exec_driver_sql(f"DROP USER IF EXISTS {name}{anywhere}")
        engine.dispose()
