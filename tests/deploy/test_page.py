"""The steps of the guide's page "Deploy", with systemd, as far as a folder can stand for a machine.

What only an installed systemd can do (users, units, the journal) is left out, and so are Debian's
packages; ``systemd-sysusers`` makes the user in the folder.
"""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy import DEPLOY, run, tool
from tests.house.test_packaging import LEFT_OUT
from tests.house.tree import ROOT
from tests.servers import environment, started

PAGE = (ROOT / "doc/source/deploy.rst").read_text()
#: Programs that need a running systemd, Debian's registry or another machine.
OF_A_MACHINE = {"apt-get", "systemctl", "systemd-sysusers", "cat", "haproxy", "docker", "curl"}


def commands() -> list[list[str]]:
    """Every command of the page, in words."""
    blocks = re.findall(r"^.. code-block:: console\n\n((?:   .*\n|\n)+)", PAGE, re.MULTILINE)
    text = re.sub(r"\\\n\s+", "", "".join(blocks))
    return [shlex.split(line) for line in re.findall(r"^   [#$] (.+)", text, re.MULTILINE)]


def test_files_that_the_page_names_are_there():
    named = set(re.findall(r"\bdeploy/[\w./-]+\w", PAGE))
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_user_of_the_page_is_made(tmp_path):
    sysusers = tool("systemd-sysusers", "systemd")
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
    for folder in ("opt", "etc/systemd/system", "usr/lib/sysusers.d"):
        (root / folder).mkdir(parents=True)
    for words in commands():
        if words[0] in OF_A_MACHINE:
            continue
        here = [re.sub(r"^/(?=opt|etc|usr)", f"{root}/", word) for word in words]
        if here[0] == "python3":
            here[0] = sys.executable
        if here[0] == "install":  # there is no such group
            here = [word for word in here if word not in {"-g", "placement-sched"}]
        if here[0] == "runuser":
            here = here[here.index("--") + 1 :]
            edit(root / "etc/placement_sched/placement_sched.conf")
        done = subprocess.run(
            here,
            cwd=source,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"{here}\n{done.stdout}{done.stderr}"
    return root


def edit(config: Path) -> None:
    """Do what an operator does to the configuration, who has neither keystone nor PostgreSQL."""
    text = config.read_text()
    text = re.sub(r"connection = .*", f"connection = sqlite:///{config.parent}/p.db", text)
    text = re.sub(r"\[keystone_authtoken\](?s:.*?)\n\n", "", text)
    config.write_text(text.replace("auth_strategy = keystone", "auth_strategy = noauth2"))


def test_server_that_was_installed_by_the_page_serves(machine):
    unit = (machine / "etc/systemd/system/placement-sched.service").read_text()
    program, *words = shlex.split(re.search(r"^ExecStart=(.*)", unit, re.MULTILINE)[1])
    words = [re.sub(r"^/(?=etc)", f"{machine}/", word) for word in words]
    with started(
        *words[1:],
        folder=machine,
        variables={"PATH": "/usr/bin:/bin"},
        program=machine / program.removeprefix("/"),
    ) as server:
        assert server.get("/healthz/ready")[0] == 200
        assert len(server.workers()) >= 4
        assert server.stop() == 0
