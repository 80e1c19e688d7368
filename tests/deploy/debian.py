# SPDX-License-Identifier: Apache-2.0
"""A Debian of its own, as its installer leaves it: with its systemd, and nothing of ours.

It is a container of systemd-nspawn on an overlay in memory: what is done in it goes with it. Its
network has what a test puts there, and no way out, so that its ports are its own. So are its
control groups. What pages install was downloaded before, and is kept for later runs and for other
copies of the source.
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

from tests.deploy import DEPLOY, REQUIRED, find_program, run
from tests.house.test_packaging import LEFT_OUT
from tests.support.repository import ROOT
from tests.support.servers import wait_until

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
KEPT = _CACHE / "placement_sched" / "debian"
BASE, WHEELS = KEPT / "base", KEPT / "wheels"
#: Where the machine finds them.
_BARE = "placement_sched.git"
REPOSITORY, OF_PIP = f"/srv/{_BARE}", "/srv/wheels"
SUITE = "bookworm"
#: The version of Python that it has.
PYTHON = "3.11"
#: What a Debian has that was installed for a server, beside its smallest set.
INSTALLED = ("systemd", "systemd-sysv", "dbus", "ca-certificates")
#: What the client of the page "Deploy" takes from pip's index.
FROM_INDEX = ("python-openstackclient", "osc-placement")
#: What is exported by one line, and holds for the next.
_EXPORTED = "/run/exported"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: The reader answers apt-get's question with "yes", and installs from what was downloaded.
_SETTINGS = {"APT_CONFIG": "/etc/apt/tests.conf", "DEBIAN_FRONTEND": "noninteractive"}
_OF_PIP = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": OF_PIP, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
#: As the installer leaves it.
_HOSTS = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
#: Only what the pages name, and what that cannot do without, is downloaded and unpacked.
_OF_APT = 'APT::Get::Assume-Yes "true";\nAPT::Install-Recommends "false";\n'
#: Nothing of it has to outlive a power failure, or is read but by programs.
_OF_DPKG = "force-unsafe-io\npath-exclude=/usr/share/doc/*\npath-exclude=/usr/share/man/*\n"

#: What starts units, and their names.
_STARTS = re.compile(r"systemctl (?:start|restart|enable --now)((?: [\w@.-]+)+)")
#: The hierarchies of control groups that systemd uses, by their names in /proc: their folders,
#: where there are several.
_HIERARCHIES = {"name=systemd": "systemd", "": "unified"}
#: A process that joins control groups, and then is the program that it is to be.
_JOIN = 'for group in $1; do echo $$ > "$group/cgroup.procs" || exit; done; shift; exec "$@"'


def require_machines() -> None:
    """Skip the test where no machine can be started; fail where that is required."""
    find_program("systemd-nspawn", "systemd-container")
    find_program("ip", "iproute2")
    for program in ("mmdebstrap", "git", "nsenter", "mount"):
        find_program(program)
    if os.geteuid() == 0 and _may_mount():
        return
    assert not REQUIRED, "a machine of its own needs root, and the right to mount"
    pytest.skip("a machine of its own needs root, and the right to mount")


def _may_mount() -> bool:
    tried = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"],
        capture_output=True,
        check=False,
        timeout=60,
    )
    return tried.returncode == 0


def prepare(packages: Sequence[str]) -> None:
    """Install Debian, and download what its machines install, unless that was done before."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run may be preparing it
        _prepare(sorted(packages))


def _prepare(packages: Sequence[str]) -> None:
    requirements = DEPLOY / "requirements.txt"
    settings = (SUITE, _HOSTS, _OF_APT, _OF_DPKG, *INSTALLED, *packages, *FROM_INDEX)
    state = hashlib.sha256(" ".join(settings).encode() + requirements.read_bytes()).hexdigest()
    ready = KEPT / "ready"
    if ready.exists() and ready.read_text() == state:
        return
    ready.unlink(missing_ok=True)
    download = (sys.executable, "-m", "pip", "download", "--quiet", f"--dest={WHEELS}")
    of_debian = ("--only-binary=:all:", f"--python-version={PYTHON}")
    hashed = ("--require-hashes", "--requirement", requirements)
    with ThreadPoolExecutor() as beside:
        begun = [
            beside.submit(_install_debian, packages),
            beside.submit(_run_program, *download, *of_debian, *hashed),
            beside.submit(_run_program, *download, *of_debian, *FROM_INDEX),
        ]
        for one in begun:
            one.result()
    ready.write_text(state)


def _install_debian(packages: Sequence[str]) -> None:
    if not (KEPT / "installed").exists():
        shutil.rmtree(BASE, ignore_errors=True)
        options = [f"--dpkgopt={one}" for one in _OF_DPKG.splitlines()]
        more = ",".join(INSTALLED)
        variant = ("--quiet", "--variant=minbase", f"--include={more}")
        _run_program("mmdebstrap", *variant, *options, SUITE, BASE)
        (KEPT / "installed").touch()
    (BASE / "etc/hosts").write_text(_HOSTS)
    (BASE / "etc/hostname").unlink(missing_ok=True)  # mmdebstrap takes this machine's
    (BASE / "etc/apt/tests.conf").write_text(_OF_APT)
    (BASE / "etc/dpkg/dpkg.cfg.d/tests").write_text(_OF_DPKG)
    fetch = f"apt-get -q update && apt-get -q --download-only install {' '.join(packages)}"
    _run_program(
        *("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--pipe"),
        *(f"--directory={BASE}", "--resolv-conf=copy-host"),
        *("--setenv=APT_CONFIG=/etc/apt/tests.conf", "bash", "-ec", fetch),
    )


def _run_program(*command: str | Path) -> None:
    """Run a program that takes minutes."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]


class Machine:
    """A running Debian, and the shell of its root, who goes from one line to the next."""

    def __init__(self, leader: int, written: Mapping[str, str]) -> None:
        self.leader = leader
        #: What the reader writes on this machine for words of the pages.
        self.written = written
        #: The machines that do the same as this one, where a page says "each machine".
        self.others: list[Machine] = []
        self._folder = "/root"
        self._variables = {"PATH": _PATH, "HOME": "/root", **_SETTINGS, **_OF_PIP}

    def type(self, line: str, *, typed: str = "", seconds: float = 600) -> tuple[int, str]:
        """Run a line; return its status, and what it printed. ``typed`` answers its questions."""
        shell = (
            f"cd {self._folder}; [ ! -e {_EXPORTED} ] || . {_EXPORTED}\n{line}\n"
            f"status=$?; pwd > /run/folder; export -p > {_EXPORTED}; exit $status"
        )
        done = subprocess.run(
            self._inside("bash", "-c", shell),
            env=self._variables,
            input=typed,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
            start_new_session=True,  # without a terminal, questions are read from what is typed
        )
        self._folder = self.read("/run/folder").strip()
        return done.returncode, done.stdout

    def open_shell(self) -> None:
        """Go on in another shell, which has nothing of what was exported."""
        self.run(f"rm -f {_EXPORTED}; exec true")

    def run(self, line: str, **more: str) -> str:
        """Run a line that succeeds; return what it printed."""
        status, printed = self.type(line, **more)
        assert status == 0, f"# {line}\n{printed}{self._describe_units(line)}"
        return printed

    def _describe_units(self, line: str) -> str:
        """Return the state and the last messages of the units that a line starts."""
        asked = (
            f"systemctl status --no-pager --full {unit}; journalctl --no-pager -n 50 -u {unit}"
            for units in _STARTS.findall(line)
            for unit in units.split()
        )
        return "".join(f"# {one}\n{self.type(one)[1]}" for one in asked)

    def read(self, path: str) -> str:
        """Return what a file of the machine has."""
        asked = subprocess.run(
            self._inside("cat", path), capture_output=True, text=True, timeout=60, check=True
        )
        return asked.stdout

    def write(self, path: str, text: str) -> None:
        """Give a file of the machine other contents; its owner and its rights stay."""
        subprocess.run(
            self._inside("tee", path),
            input=text,
            stdout=subprocess.DEVNULL,
            text=True,
            timeout=60,
            check=True,
        )

    def edit(self, path: str, *changes: tuple[str, str]) -> None:
        """Replace parts of a file, each of which is there."""
        text = self.read(path)
        for before, after in changes:
            assert before in text, f"{path} has no {before}"
            text = text.replace(before, after)
        self.write(path, text)

    def _inside(self, *command: str) -> list[str]:
        spaces = ("--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wdns=/")
        return ["nsenter", f"--target={self.leader}", *spaces, "--", *command]

    def is_up(self) -> bool:
        """Return whether systemd has started what it starts."""
        asked = subprocess.run(
            self._inside("systemctl", "is-system-running"),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return asked.stdout.strip() in {"running", "degraded"}


@contextmanager
def start_machine(
    folder: Path, name: str, written: Mapping[str, str], lower: Path | str = BASE
) -> Iterator[Machine]:
    """Start a machine that was prepared, in a folder that has the repository of this source.

    ``lower`` is what its disk has at first.
    """
    console = folder / f"{name}.log"
    with ExitStack() as stack:
        root = _mount_overlay(folder / name, lower, stack)
        log = stack.enter_context(console.open("w"))
        process = subprocess.Popen(
            [
                *("sh", "-c", _JOIN, "sh", " ".join(map(str, _create_control_groups(name, stack)))),
                *("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot"),
                *(f"--directory={root}", "--private-network", f"--machine={name}"),
                *(f"--bind-ro={folder / _BARE}:{REPOSITORY}", f"--bind-ro={WHEELS}:{OF_PIP}"),
                *("--console=pipe", "--link-journal=no"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        stack.callback(_end, process)
        assert wait_until(lambda: bool(_find_first_process(process.pid)), 60), console.read_text()
        started = Machine(_find_first_process(process.pid)[0], written)
        assert wait_until(started.is_up, 120), console.read_text()
        yield started


@contextmanager
def start_copy(
    folder: Path, name: str, written: Mapping[str, str], copied: str
) -> Iterator[Machine]:
    """Start a machine with a copy of the disk of another one, as an image of it would give."""
    disk = folder / copied / "disk"
    copy = folder / f"{name}-from-{copied}"
    with ExitStack() as stack:
        _mount_memory(copy, stack)
        run("cp", "--archive", disk / "changed", copy)
        (copy / "changed/etc/machine-id").unlink(missing_ok=True)  # it gets its own
        yield stack.enter_context(start_machine(folder, name, written, f"{copy}/changed:{BASE}"))


def _mount_overlay(folder: Path, lower: Path | str, stack: ExitStack) -> Path:
    """Mount a copy of a disk that keeps what changes in memory."""
    disk, root = folder / "disk", folder / "root"
    root.mkdir(parents=True)
    _mount_memory(disk, stack)
    for name in ("changed", "work"):
        (disk / name).mkdir()
    options = f"lowerdir={lower},upperdir={disk / 'changed'},workdir={disk / 'work'}"
    run("mount", "-t", "overlay", "overlay", "-o", options, root)
    stack.callback(run, "umount", "--recursive", root)
    return root


def _create_control_groups(name: str, stack: ExitStack) -> list[Path]:
    """Make control groups for one machine, which go when it has ended.

    Machines that are not registered have those of the process that starts them: the systemd of each
    would remove the group of a service while another one starts its service of that name.
    """
    made, own = [], f"{name}-{uuid4().hex[:8]}"
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, kind, path = line.split(":", 2)
        if kind in _HIERARCHIES:
            group = _hierarchy(kind) / path.strip("/") / own
            group.mkdir()
            made.append(group)
            stack.callback(_remove_control_groups, group)
    return made


def _hierarchy(kind: str) -> Path:
    """Return the folder of a hierarchy; one of version 2 alone has no name."""
    mounted = Path("/sys/fs/cgroup")
    named = mounted / _HIERARCHIES[kind]
    return named if named.exists() else mounted


def _remove_control_groups(group: Path) -> None:
    """Remove control groups, which may be busy for a moment after their last process."""

    def is_removed() -> bool:
        try:
            for folder, _, _ in os.walk(group, topdown=False):
                Path(folder).rmdir()
        except OSError:
            return False
        return True

    assert wait_until(is_removed, 60), f"{group} is busy"


def _mount_memory(folder: Path, stack: ExitStack) -> None:
    folder.mkdir(parents=True)
    run("mount", "-t", "tmpfs", "-o", "size=6g", "none", folder)
    stack.callback(run, "umount", folder)


def create_repository(folder: Path) -> None:
    """Make the repository with this source as it is now, which machines clone."""
    source, bare = folder / "source", folder / _BARE
    shutil.copytree(ROOT, source, ignore=LEFT_OUT)
    git = ("git", "-C", source, "-c", "user.name=tests", "-c", "user.email=tests@example.com")
    run("git", "init", "--quiet", source)
    run(*git, "add", "--all")
    run(*git, "commit", "--quiet", "--message", "Try it")
    for release in ("RELEASE", "NEW"):  # as the pages have them
        run(*git, "tag", release)
    run("git", "clone", "--quiet", "--bare", source, bare)


def _find_first_process(process: int) -> list[int]:
    """Return the child that is the first process of its machine, once there is one.

    At first systemd-nspawn has another child, which starts that one and ends.
    """
    found = Path(f"/proc/{process}/task/{process}/children")
    children = [int(one) for one in found.read_text().split()] if found.exists() else []
    return [one for one in children if _inner_process_id(one) == "1"]


def _inner_process_id(process: int) -> str:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[-1]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Shut the machine down, as its power button would."""
    process.terminate()
    try:
        process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=60)
