"""The examples for other WSGI servers serve."""

import configparser
import re
import runpy
import signal
from pathlib import Path

import pytest

from tests.deploy import DEPLOY
from tests.servers import BIN, environment, started

WSGI = DEPLOY / "wsgi"
INSTALLED = "/etc/placement_sched/placement_sched.conf"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "placement_sched.conf"
    file.write_text("[api]\nauth_strategy = noauth2\n")
    return file


def test_gunicorn_serves_with_the_example(tmp_path, config):
    variables = environment(
        PLACEMENT_SCHED_CONFIG=str(config),
        PLACEMENT_SCHED_BIND="127.0.0.1:{port}",
        TMPDIR=str(tmp_path),
    )
    # The address is the example's, unless a variable names another.
    command = ("env", "PLACEMENT_SCHED_BIND=127.0.0.1:{port}", BIN / "gunicorn")
    arguments = ("--config", WSGI / "gunicorn.conf.py", "placement_sched.wsgi:application")
    with started(command=[*command, *arguments], folder=tmp_path, variables=variables) as server:
        assert server.get("/placement/resource_providers")[0] == 200
        # All four workers count in one folder.
        answers = {server.get("/metrics")[2].count(b"placement_sched_requests_total") > 0}
        assert answers == {True}
        (folder,) = tmp_path.glob("placement_sched_*/")
        assert server.stop() == 0
    assert not folder.exists()


def test_uwsgi_serves_with_the_example(tmp_path, config):
    ini = WSGI / "uwsgi.ini"
    with started(
        command=["sh", "-c", f"sed s/8778/{{port}}/ {ini} > run.ini; exec {BIN}/uwsgi run.ini"],
        folder=tmp_path,
        variables=environment(PLACEMENT_SCHED_CONFIG=str(config)),
        how=signal.SIGTERM,
    ) as server:
        assert server.get("/placement/resource_providers")[0] == 200
        server.stop()  # "die-on-term"


def test_mod_wsgi_loads_a_file_that_names_the_configuration(monkeypatch, config):
    """mod_wsgi itself is not installed: what it would load is loaded, as it loads it."""
    monkeypatch.setenv("PLACEMENT_SCHED_CONFIG", str(config))
    loaded = runpy.run_path(str(WSGI / "wsgi.py"), run_name="_mod_wsgi_0")
    assert callable(loaded["application"])
    assert INSTALLED in (WSGI / "wsgi.py").read_text()
    apache = (WSGI / "apache.conf").read_text()
    assert "WSGIScriptAlias / /etc/placement_sched/wsgi.py\n" in apache
    opened = re.findall(r"^\s*<(\w+)", apache, re.MULTILINE)
    assert sorted(opened) == sorted(re.findall(r"^\s*</(\w+)>", apache, re.MULTILINE))


def test_workers_have_as_many_threads_as_ours():
    from placement_sched.cli.serve import GRACE, THREADS

    gunicorn = (WSGI / "gunicorn.conf.py").read_text()
    assert f"\nthreads = {THREADS}\n" in gunicorn
    assert f"\ngraceful_timeout = {GRACE}\n" in gunicorn
    uwsgi = configparser.ConfigParser()
    uwsgi.read(WSGI / "uwsgi.ini")
    assert uwsgi["uwsgi"].getint("threads") == THREADS
    assert uwsgi["uwsgi"].getint("worker-reload-mercy") == GRACE
    assert f" threads={THREADS} " in (WSGI / "apache.conf").read_text()
