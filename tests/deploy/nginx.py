# SPDX-License-Identifier: Apache-2.0
"""nginx with TLS and ``deploy/nginx/placement-sched.conf``, in front of local servers."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.deploy import DEPLOY_FOLDER, create_certificate, find_program, run_proxy
from tests.support.loopback import reserve_port

#: Temporary folders of nginx, which belong to root in an installation.
_TEMPORARY_FOLDERS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@contextmanager
def start_proxy(
    folder: Path, ports: Sequence[int], *, always_tried: bool = False
) -> Iterator[tuple[str, Path]]:
    """Run nginx in front of servers and yield its URL and the path of its certificate.

    If servers are ``always_tried``, failures do not take them out of rotation.
    """
    nginx = find_program("nginx", "nginx-light")
    create_certificate(folder)
    with ExitStack() as stack:
        port = stack.enter_context(reserve_port()).getsockname()[1]
        _write_nginx_configuration(folder, port, ports)
        if always_tried:
            site = folder / "site.conf"
            site.write_text(site.read_text().replace("max_fails=1", "max_fails=0"))
        yield stack.enter_context(
            run_proxy(folder, port, nginx, "-p", folder, "-c", folder / "nginx.conf")
        )


def _write_nginx_configuration(folder: Path, port: int, ports: Sequence[int]) -> None:
    text = (DEPLOY_FOLDER / "nginx/placement-sched.conf").read_text()
    text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl")
    text = re.sub(r"(ssl_certificate +)\S+;", rf"\1{folder}/cert.pem;", text)
    text = re.sub(r"(ssl_certificate_key +)\S+;", rf"\1{folder}/key.pem;", text)
    server_options = "max_fails=1 fail_timeout=5s;"
    servers = "".join(f"    server 127.0.0.1:{each} {server_options}\n" for each in ports)
    text, count = re.subn(rf"(    server \S+ {re.escape(server_options)}\n)+", servers, text)
    assert count == 1
    (folder / "site.conf").write_text(text)
    paths = "".join(f"{name}_temp_path {folder}/{name};" for name in _TEMPORARY_FOLDERS)
    # The workers need access to the folder of the test.
    user = "user root;\n" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(
        f"{user}daemon off; pid {folder}/pid; error_log stderr;\nevents {{}}\n"
        f"http {{ access_log off; {paths} include {folder}/site.conf; }}\n"
    )
