# SPDX-License-Identifier: Apache-2.0
"""Apache httpd with mod_wsgi and ``deploy/wsgi/apache.conf``, on the loopback address."""

import os
import pwd
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.deploy import (
    DEPLOY_FOLDER,
    TOOLS_REQUIRED,
    create_certificate,
    find_program,
    run_program,
    run_proxy,
)
from tests.support.loopback import reserve_port
from tests.support.repository import ROOT

MODULES_FOLDER = Path("/usr/lib/apache2/modules")
#: Account of Apache's processes if root starts Apache.
APACHE_ACCOUNT = "www-data"
#: Account and group of the application, in place of the guide's.
APPLICATION_ACCOUNT = ("nobody", "nogroup")
_LOADED_MODULES = ("mpm_event", "authz_core", "authz_host", "headers", "ssl", "reqtimeout", "wsgi")
#: Debian's interpreter, which its mod_wsgi is made for.
_MOD_WSGI_PYTHON = "/usr/bin/python3"


def find_apache() -> str:
    """Return Apache's path, or skip the test if there is no mod_wsgi for this Python."""
    program = find_program("apache2")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if not (MODULES_FOLDER / f"mod_wsgi.so-{version}").exists():
        reason = f"mod_wsgi for Python {version}: apt-get install libapache2-mod-wsgi-py3"
        # Debian has no mod_wsgi for a Python that is not Debian's.
        modules = list(MODULES_FOLDER.glob("mod_wsgi.so-*"))
        assert modules or not TOOLS_REQUIRED, reason
        pytest.skip(reason)
    return program


@contextmanager
def run_apache() -> Iterator[tuple[str, Path]]:
    """Run Apache and yield its URL and the path of its certificate."""
    program = find_apache()
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="placement_sched_apache_"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        port = stack.enter_context(reserve_port()).getsockname()[1]
        create_certificate(folder)
        _create_virtual_environment(folder / "venv")
        _write_service_files(folder)
        _write_apache_configuration(folder, port)
        command = [program, "-d", str(folder), "-f", str(folder / "apache2.conf")]
        assert "Syntax OK" in run_program(*command, "-t")
        yield stack.enter_context(
            run_proxy(
                *(folder, port, "env", "-i", f"PATH={os.environ['PATH']}", f"TMPDIR={folder}/temp"),
                *(*command, "-D", "FOREGROUND"),
            )
        )


def _create_virtual_environment(folder: Path) -> None:
    """Create a virtual environment of mod_wsgi's interpreter with the packages of the tests."""
    run_program(_MOD_WSGI_PYTHON, "-m", "venv", "--without-pip", str(folder))
    (packages,) = folder.glob("lib/python*/site-packages")
    folders = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "more.pth").write_text("\n".join([str(ROOT), *folders]))


def _write_service_files(folder: Path) -> None:
    """Write configuration and program with the guide's owners and permissions."""
    folder.chmod(0o755)
    for name, mode in (("etc", 0o750), ("share", 0o755), ("state", 0o755), ("temp", 0o1777)):
        (folder / name).mkdir()
        (folder / name).chmod(mode)
    conf = folder / "etc/placement_sched.conf"
    conf.write_text(
        "[api]\nauth_strategy = noauth2\n"
        f"[placement_database]\nconnection = sqlite:///{folder}/state/placement.db\n"
        "[oslo_middleware]\nenable_proxy_headers_parsing = true\n"
    )
    conf.chmod(0o640)
    text = (DEPLOY_FOLDER / "wsgi/wsgi.py").read_text()
    program = folder / "share/wsgi.py"
    program.write_text(text.replace("/etc/placement_sched", f"{folder}/etc"))
    program.chmod(0o644)
    if os.geteuid() == 0:
        user, group = APPLICATION_ACCOUNT
        for path in (conf.parent, conf):
            shutil.chown(path, "root", group)
        shutil.chown(folder / "state", user, group)


def _write_apache_configuration(folder: Path, port: int) -> None:
    """Write Apache's configuration: the example with the paths and the account of this test."""
    text = (DEPLOY_FOLDER / "wsgi/apache.conf").read_text()
    text = text.replace("<VirtualHost *:443>", f"<VirtualHost 127.0.0.1:{port}>")
    text = re.sub(r"(SSLCertificateFile +)\S+", rf"\1{folder}/cert.pem", text)
    text = re.sub(r"(SSLCertificateKeyFile +)\S+", rf"\1{folder}/key.pem", text)
    text = text.replace("/opt/placement_sched", f"{folder}/venv")
    text = text.replace("/etc/placement_sched", f"{folder}/etc")
    text = text.replace("/usr/local/share/placement_sched", f"{folder}/share")
    if os.geteuid() == 0:
        user = f"User {APACHE_ACCOUNT}\nGroup {APACHE_ACCOUNT}\n"
        account, group = APPLICATION_ACCOUNT
    else:
        user, account = "", pwd.getpwuid(os.geteuid()).pw_name
        group = f"#{os.getegid()}"
    text = text.replace(
        "user=placement-sched group=placement-sched", f"user={account} group={group}"
    )
    (folder / "site.conf").write_text(text)
    modules = "".join(
        f"LoadModule {name}_module {MODULES_FOLDER}/mod_{name}.so\n" for name in _LOADED_MODULES
    )
    (folder / "apache2.conf").write_text(
        f"{modules}{user}Listen 127.0.0.1:{port}\nServerName localhost\nPidFile {folder}/pid\n"
        f"ErrorLog /dev/stderr\nDefaultRuntimeDir {folder}\nWSGISocketPrefix {folder}/wsgi\n"
        f"Include {folder}/site.conf\n"
    )
