# SPDX-License-Identifier: Apache-2.0
"""Machines with a new Debian and its systemd, without this project's files.

A machine is a container of systemd-nspawn on an overlay in memory, so that its changes are lost at
the end. It has its own network without a route out, its own ports and its own control groups. The
packages that the pages install are downloaded before and cached for later runs and other copies
of the source.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from tests.deploy import DEPLOY_FOLDER, TOOLS_REQUIRED, find_program, run_program
from tests.support.commands import run_captured
from tests.support.repository import IGNORED_COPY_PATTERNS, ROOT
from tests.support.servers import wait_until

_USER_CACHE_FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
MACHINE_CACHE_FOLDER = _USER_CACHE_FOLDER / "placement_sched" / "debian"
BASE_FOLDER, WHEELS_FOLDER = MACHINE_CACHE_FOLDER / "base", MACHINE_CACHE_FOLDER / "wheels"
#: Paths of repository and wheels on a machine.
_REPOSITORY_NAME = "placement_sched.git"
REPOSITORY_PATH, WHEELS_PATH = f"/srv/{_REPOSITORY_NAME}", "/srv/wheels"
DEBIAN_SUITE = "bookworm"
#: Python version of the suite.
PYTHON_VERSION = "3.11"
#: Packages of a new Debian server, in addition to the minimal set.
BASE_PACKAGES = ("systemd", "systemd-sysv", "dbus", "ca-certificates")
#: Packages that the client of the page "Deploy" installs from the index.
CLIENT_PACKAGES = ("python-openstackclient", "osc-placement")
#: File with the exported variables, which the next line reads.
_EXPORTS_FILE = "/run/exported"
_PATH_VARIABLE = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: apt-get's questions are answered with "yes". Packages come from the downloads.
_APT_VARIABLES = {"APT_CONFIG": "/etc/apt/tests.conf", "DEBIAN_FRONTEND": "noninteractive"}
_PIP_VARIABLES = {
    "PIP_NO_INDEX": "1",
    "PIP_FIND_LINKS": WHEELS_PATH,
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}
#: The file of Debian's installer.
_HOSTS_FILE_TEXT = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
#: Recommended packages are not downloaded, to save time.
_APT_SETTINGS = 'APT::Get::Assume-Yes "true";\nAPT::Install-Recommends "false";\n'
#: Nothing has to survive a power failure, and nobody reads documentation.
_DPKG_SETTINGS = "force-unsafe-io\npath-exclude=/usr/share/doc/*\npath-exclude=/usr/share/man/*\n"

#: A command that starts units, and their names.
_START_COMMAND_PATTERN = re.compile(r"systemctl (?:start|restart|enable --now)((?: [\w@.-]+)+)")
#: Hierarchies of control groups that systemd uses, by name in /proc, and their folders if there are
#: several hierarchies.
_CGROUP_HIERARCHIES = {"name=systemd": "systemd", "": "unified"}
#: Shell script that joins control groups and executes a program.
_JOIN_CGROUPS_SCRIPT = (
    'for group in $1; do echo $$ > "$group/cgroup.procs" || exit; done; shift; exec "$@"'
)


def skip_without_machines() -> None:
    """Skip the test if no machine can be started, or fail if CI requires it."""
    find_program("systemd-nspawn", "systemd-container")
    find_program("ip", "iproute2")
    for program in ("mmdebstrap", "git", "nsenter", "mount"):
        find_program(program)
    if os.geteuid() == 0 and _can_mount_filesystems():
        return
    assert not TOOLS_REQUIRED, "a machine of its own needs root, and the right to mount"
    pytest.skip("a machine of its own needs root, and the right to mount")


def _can_mount_filesystems() -> bool:
    tried = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"],
        capture_output=True,
        check=False,
        timeout=60,
    )
    return tried.returncode == 0


def prepare_debian(packages: Sequence[str]) -> None:
    """Install Debian and download the packages of its machines, unless both are cached."""
    MACHINE_CACHE_FOLDER.mkdir(parents=True, exist_ok=True)
    with (MACHINE_CACHE_FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run may be at work
        _install_debian_and_packages(sorted(packages))


def _install_debian_and_packages(packages: Sequence[str]) -> None:
    requirements = DEPLOY_FOLDER / "requirements.txt"
    settings = (
        DEBIAN_SUITE,
        _HOSTS_FILE_TEXT,
        _APT_SETTINGS,
        _DPKG_SETTINGS,
        *BASE_PACKAGES,
        *packages,
        *CLIENT_PACKAGES,
    )
    state = hashlib.sha256(" ".join(settings).encode() + requirements.read_bytes()).hexdigest()
    ready = MACHINE_CACHE_FOLDER / "ready"
    if ready.exists() and ready.read_text() == state:
        return
    ready.unlink(missing_ok=True)
    download = (sys.executable, "-m", "pip", "download", "--quiet", f"--dest={WHEELS_FOLDER}")
    of_debian = ("--only-binary=:all:", f"--python-version={PYTHON_VERSION}")
    hashed = ("--require-hashes", "--requirement", requirements)
    with ThreadPoolExecutor() as pool:
        jobs = [
            pool.submit(_install_debian, packages),
            pool.submit(_run_long_program, *download, *of_debian, *hashed),
            pool.submit(_run_long_program, *download, *of_debian, *CLIENT_PACKAGES),
        ]
        for job in jobs:
            job.result()
    ready.write_text(state)


def _install_debian(packages: Sequence[str]) -> None:
    if not (MACHINE_CACHE_FOLDER / "installed").exists():
        shutil.rmtree(BASE_FOLDER, ignore_errors=True)
        options = [f"--dpkgopt={line}" for line in _DPKG_SETTINGS.splitlines()]
        more = ",".join(BASE_PACKAGES)
        variant = ("--quiet", "--variant=minbase", f"--include={more}")
        _run_long_program("mmdebstrap", *variant, *options, DEBIAN_SUITE, BASE_FOLDER)
        (MACHINE_CACHE_FOLDER / "installed").touch()
    (BASE_FOLDER / "etc/hosts").write_text(_HOSTS_FILE_TEXT)
    (BASE_FOLDER / "etc/hostname").unlink(missing_ok=True)  # mmdebstrap copies the host's
    (BASE_FOLDER / "etc/apt/tests.conf").write_text(_APT_SETTINGS)
    (BASE_FOLDER / "etc/dpkg/dpkg.cfg.d/tests").write_text(_DPKG_SETTINGS)
    fetch = f"apt-get -q update && apt-get -q --download-only install {' '.join(packages)}"
    _run_long_program(
        *("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--pipe"),
        *(f"--directory={BASE_FOLDER}", "--resolv-conf=copy-host"),
        *("--setenv=APT_CONFIG=/etc/apt/tests.conf", "bash", "-ec", fetch),
    )


def _run_long_program(*command: str | Path) -> None:
    """Run a program that may take minutes."""
    result = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-4000:]


class Machine:
    """A running Debian with a root shell that keeps folder and variables between lines."""

    def __init__(self, leader: int, replacements: Mapping[str, str]) -> None:
        self.leader = leader
        #: Replacements for words of the pages on this machine.
        self.replacements = replacements
        #: The other machines, for lines that a page types on each machine.
        self.others: list[Machine] = []
        self._folder = "/root"
        self._variables = {
            "PATH": _PATH_VARIABLE,
            "HOME": "/root",
            **_APT_VARIABLES,
            **_PIP_VARIABLES,
        }

    def run_line(self, line: str, *, typed: str = "", seconds: float = 600) -> tuple[int, str]:
        """Run a line with ``typed`` as its input, and return the status and the output."""
        shell = (
            f"cd {self._folder}; [ ! -e {_EXPORTS_FILE} ] || . {_EXPORTS_FILE}\n{line}\n"
            f"status=$?; pwd > /run/folder; export -p > {_EXPORTS_FILE}; exit $status"
        )
        result = subprocess.run(
            self._command_prefix("bash", "-c", shell),
            env=self._variables,
            input=typed,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
            start_new_session=True,  # without a terminal, programs read answers from stdin
        )
        self._folder = self.read("/run/folder").strip()
        return result.returncode, result.stdout

    def open_new_shell(self) -> None:
        """Continue in a new shell without the exported variables."""
        self.run(f"rm -f {_EXPORTS_FILE}; exec true")

    def run(self, line: str, **more: str) -> str:
        """Run a line that must succeed, and return its output."""
        status, printed = self.run_line(line, **more)
        assert status == 0, f"# {line}\n{printed}{self._describe_units(line)}"
        return printed

    def _describe_units(self, line: str) -> str:
        """Return the state and the last messages of the units that a line starts."""
        commands = (
            f"systemctl status --no-pager --full {unit}; journalctl --no-pager -n 50 -u {unit}"
            for units in _START_COMMAND_PATTERN.findall(line)
            for unit in units.split()
        )
        return "".join(f"# {command}\n{self.run_line(command)[1]}" for command in commands)

    def read(self, path: str) -> str:
        """Return the content of a file of the machine."""
        done = run_captured(self._command_prefix("cat", path), timeout=60, check=True)
        return done.stdout

    def write(self, path: str, text: str) -> None:
        """Replace the content of a file of the machine, but not its owner and permissions."""
        subprocess.run(
            self._command_prefix("tee", path),
            input=text,
            stdout=subprocess.DEVNULL,
            text=True,
            timeout=60,
            check=True,
        )

    def edit(self, path: str, *changes: tuple[str, str]) -> None:
        """Replace parts of a file, and fail if a part is not there."""
        text = self.read(path)
        for before, after in changes:
            assert before in text, f"{path} has no {before}"
            text = text.replace(before, after)
        self.write(path, text)

    def _command_prefix(self, *command: str) -> list[str]:
        spaces = ("--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wdns=/")
        return ["nsenter", f"--target={self.leader}", *spaces, "--", *command]

    def is_up(self) -> bool:
        """Return whether systemd has started all units."""
        done = run_captured(self._command_prefix("systemctl", "is-system-running"), timeout=60)
        return done.stdout.strip() in {"running", "degraded"}


@contextmanager
def start_machine(
    folder: Path, name: str, replacements: Mapping[str, str], lower: Path | str = BASE_FOLDER
) -> Iterator[Machine]:
    """Start a machine with the repository of ``folder``, on a disk with the content ``lower``."""
    console = folder / f"{name}.log"
    with ExitStack() as stack:
        root = _mount_overlay(folder / name, lower, stack)
        log = stack.enter_context(console.open("w"))
        process = subprocess.Popen(
            [
                *(
                    "sh",
                    "-c",
                    _JOIN_CGROUPS_SCRIPT,
                    "sh",
                    " ".join(map(str, _create_control_groups(name, stack))),
                ),
                *("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot"),
                *(f"--directory={root}", "--private-network", f"--machine={name}"),
                *(
                    f"--bind-ro={folder / _REPOSITORY_NAME}:{REPOSITORY_PATH}",
                    f"--bind-ro={WHEELS_FOLDER}:{WHEELS_PATH}",
                ),
                *("--console=pipe", "--link-journal=no"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        stack.callback(_shut_down, process)
        assert wait_until(lambda: bool(_find_first_process(process.pid)), 60), console.read_text()
        machine = Machine(_find_first_process(process.pid)[0], replacements)
        assert wait_until(machine.is_up, 120), console.read_text()
        yield machine


@contextmanager
def start_copy_of_machine(
    folder: Path, name: str, replacements: Mapping[str, str], copied: str
) -> Iterator[Machine]:
    """Start a machine with a copy of another machine's disk, as from its image."""
    disk = folder / copied / "disk"
    copy = folder / f"{name}-from-{copied}"
    with ExitStack() as stack:
        _mount_tmpfs(copy, stack)
        run_program("cp", "--archive", disk / "changed", copy)
        (copy / "changed/etc/machine-id").unlink(missing_ok=True)  # systemd makes a new id
        yield stack.enter_context(
            start_machine(folder, name, replacements, f"{copy}/changed:{BASE_FOLDER}")
        )


def _mount_overlay(folder: Path, lower: Path | str, stack: ExitStack) -> Path:
    """Mount a writable copy of a disk, with its changes in memory."""
    disk, root = folder / "disk", folder / "root"
    root.mkdir(parents=True)
    _mount_tmpfs(disk, stack)
    for name in ("changed", "work"):
        (disk / name).mkdir()
    options = f"lowerdir={lower},upperdir={disk / 'changed'},workdir={disk / 'work'}"
    run_program("mount", "-t", "overlay", "overlay", "-o", options, root)
    stack.callback(run_program, "umount", "--recursive", root)
    return root


def _create_control_groups(name: str, stack: ExitStack) -> list[Path]:
    """Create control groups for a machine, and remove them at the end.

    Without a registration, machines use the control groups of the process that starts them. The
    systemd of a machine would then remove the group of another machine's service of the same name.
    """
    groups, name_of_group = [], f"{name}-{uuid4().hex[:8]}"
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, kind, path = line.split(":", 2)
        if kind in _CGROUP_HIERARCHIES:
            group = _find_hierarchy(kind) / path.strip("/") / name_of_group
            group.mkdir()
            groups.append(group)
            stack.callback(_remove_control_groups, group)
    return groups


def _find_hierarchy(kind: str) -> Path:
    """Return the folder of a hierarchy, which has no name if only version 2 is mounted."""
    mounted = Path("/sys/fs/cgroup")
    named = mounted / _CGROUP_HIERARCHIES[kind]
    return named if named.exists() else mounted


def _remove_control_groups(group: Path) -> None:
    """Remove control groups, which may be busy shortly after the end of their processes."""

    def are_groups_removed() -> bool:
        try:
            for folder, _, _ in os.walk(group, topdown=False):
                Path(folder).rmdir()
        except OSError:
            return False
        return True

    assert wait_until(are_groups_removed, 60), f"{group} is busy"


def _mount_tmpfs(folder: Path, stack: ExitStack) -> None:
    folder.mkdir(parents=True)
    run_program("mount", "-t", "tmpfs", "-o", "size=6g", "none", folder)
    stack.callback(run_program, "umount", folder)


def create_source_repository(folder: Path) -> None:
    """Create a bare repository of this source in its current state, for clones on machines."""
    source, bare = folder / "source", folder / _REPOSITORY_NAME
    shutil.copytree(ROOT, source, ignore=IGNORED_COPY_PATTERNS)
    git = ("git", "-C", source, "-c", "user.name=tests", "-c", "user.email=tests@example.com")
    run_program("git", "init", "--quiet", source)
    run_program(*git, "add", "--all")
    run_program(*git, "commit", "--quiet", "--message", "Try it")
    for release in ("RELEASE", "NEW"):  # names of the pages
        run_program(*git, "tag", release)
    run_program("git", "clone", "--quiet", "--bare", source, bare)


def _find_first_process(process: int) -> list[int]:
    """Return the first process of a machine, or an empty list before it starts.

    At first systemd-nspawn has another child, which starts that process and ends.
    """
    file = Path(f"/proc/{process}/task/{process}/children")
    children = [int(word) for word in file.read_text().split()] if file.exists() else []
    return [child for child in children if _read_inner_process_id(child) == "1"]


def _read_inner_process_id(process: int) -> str:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[-1]


def _shut_down(process: subprocess.Popen[bytes]) -> None:
    """Shut the machine down, as its power button does."""
    process.terminate()
    try:
        process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=60)
