"""HAProxy with TLS, as ``deploy/haproxy/haproxy.cfg`` has it, in front of servers on loopback."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import requests

from tests.deploy import DEPLOY, certificate, tool
from tests.loopback import reserved_port
from tests.servers import wait_until


@contextmanager
def in_front(folder: Path, ports: Sequence[int]) -> Iterator[tuple[str, Path]]:
    """Give the address of HAProxy and its certificate, once a server of these ports answers."""
    haproxy, both = tool("haproxy"), certificate(folder)
    with ExitStack() as stack:
        port = stack.enter_context(reserved_port()).getsockname()[1]
        text = (DEPLOY / "haproxy/haproxy.cfg").read_text()
        text = re.sub(r"bind :443 ssl crt \S+", f"bind 127.0.0.1:{port} ssl crt {both}", text)
        lines = [f"    server s{number} 127.0.0.1:{one}" for number, one in enumerate(ports)]
        text, found = re.subn(r"(    server \w+ \S+\n)+", "\n".join(lines) + "\n", text)
        assert found == 1
        text = text.replace("log /dev/log local0", "log stdout format raw local0")
        (folder / "haproxy.cfg").write_text(text)
        log = stack.enter_context((folder / "haproxy.log").open("w"))
        process = subprocess.Popen(
            [haproxy, "-f", folder / "haproxy.cfg"], stdout=log, stderr=subprocess.STDOUT
        )
        stack.callback(process.wait, timeout=60)
        stack.callback(process.terminate)
        url, signed = f"https://localhost:{port}", folder / "cert.pem"

        def answers() -> bool:
            try:
                asked = requests.get(f"{url}/healthz", verify=str(signed), timeout=60)
            except requests.ConnectionError:
                return False
            return asked.status_code == 200

        assert wait_until(answers), (folder / "haproxy.log").read_text()
        yield url, signed
