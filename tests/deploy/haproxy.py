# SPDX-License-Identifier: Apache-2.0
"""HAProxy with TLS and ``deploy/haproxy/haproxy.cfg``, in front of local servers."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.deploy import DEPLOY_FOLDER, create_certificate, find_program, run_proxy
from tests.support.loopback import reserve_port


@contextmanager
def start_proxy(
    folder: Path, ports: Sequence[int], *, always_tried: bool = False
) -> Iterator[tuple[str, Path]]:
    """Run HAProxy in front of servers and yield its URL and the path of its certificate.

    If servers are ``always_tried``, failures do not take them out of rotation.
    """
    haproxy, certificate = find_program("haproxy"), create_certificate(folder)
    with ExitStack() as stack:
        port = stack.enter_context(reserve_port()).getsockname()[1]
        text = (DEPLOY_FOLDER / "haproxy/haproxy.cfg").read_text()
        text = re.sub(
            r"bind :443 ssl crt \S+", f"bind 127.0.0.1:{port} ssl crt {certificate}", text
        )
        lines = [f"    server s{number} 127.0.0.1:{each}" for number, each in enumerate(ports)]
        text, count = re.subn(r"(    server \w+ \S+\n)+", "\n".join(lines) + "\n", text)
        assert count == 1
        if always_tried:
            text = re.sub(r"( +default-server) .*", r"\1 no-check", text)
        text = text.replace("log /dev/log local0", "log stdout format raw local0")
        if os.geteuid() != 0:  # only root may change the user
            text = re.sub(r"    (user|group) haproxy\n", "", text)
        (folder / "haproxy.cfg").write_text(text)
        yield stack.enter_context(run_proxy(folder, port, haproxy, "-f", folder / "haproxy.cfg"))
