# SPDX-License-Identifier: Apache-2.0
"""Debian's Prometheus, with samples of an exposition."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tests.deploy import find_program
from tests.support.loopback import reserve_port
from tests.support.servers import wait_until

#: Seconds between two samples, and the range of samples. It ends after the slowest test.
STEP, BEFORE, AFTER = 15, 900, 1_800


def build_openmetrics(exposition: str, now: int) -> str:
    """Build samples from an exposition with rates of counters.

    A rate per second begins with ``+``.

    A line with ``stopped`` has no sample in the last ten minutes. A line with ``reset`` begins
    again at 0, before the sample two minutes ago.
    """
    lines = []
    for line in exposition.strip().splitlines():
        series, _, sample = line.rpartition("} ")
        value, *words = sample.split()
        rate = sum(float(word) for word in words if word.startswith("+"))
        end = -600 if "stopped" in words else AFTER
        for moment in range(-BEFORE, end + 1, STEP):
            amount = float(value) + rate * (moment + BEFORE)
            if "reset" in words and moment >= -120:
                amount = rate * (moment + 120 + STEP)
            lines.append(f"{series}}} {amount!r} {now + moment}")
    return "\n".join([*lines, "# EOF\n"])


@contextmanager
def run_prometheus_with(exposition: str, folder: Path) -> Iterator[str]:
    """Run Prometheus with the samples of an exposition, and yield its URL."""
    program, promtool = find_program("prometheus"), find_program("promtool", "prometheus")
    samples, data = folder / "samples.txt", folder / "data"
    samples.write_text(build_openmetrics(exposition, int(time.time())))
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", str(samples), str(data)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    (folder / "prometheus.yml").write_text("global: {}\n")
    with reserve_port() as port_holder, (folder / "prometheus.log").open("w") as log:
        url = f"http://127.0.0.1:{port_holder.getsockname()[1]}"
        process = subprocess.Popen(
            [
                *(program, f"--config.file={folder}/prometheus.yml"),
                *(f"--storage.tsdb.path={data}", f"--web.listen-address={url[7:]}"),
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            assert wait_until(lambda: is_ready(url))
            yield url
        finally:
            process.terminate()
            process.wait(timeout=60)


def is_ready(url: str) -> bool:
    """Return whether Prometheus has loaded its samples."""
    try:
        with urlopen(f"{url}/-/ready", timeout=10) as response:
            return response.status == 200
    except (URLError, OSError):
        return False
