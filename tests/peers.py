"""Servers beside the service: the documented nginx, and a mail server."""

from __future__ import annotations

import email
import email.policy
import os
import re
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.message import EmailMessage
from pathlib import Path
from typing import Any, cast

from tests import documented
from tests.server import free_port, is_open, program, started

PAGES, OPERATIONS = "127.0.0.1:8000", "127.0.0.1:8001"  # the documented addresses of the two units of a server
UPSTREAMS = re.compile(r"(?:^upstream \w+ .*\n)+", re.MULTILINE)
# The directives that Debian's nginx.conf has around the documented block, with folders of the test.
AROUND = """
{user}
daemon off;
worker_processes 1;
worker_rlimit_nofile 16384;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {documented}
}}
"""


def certificate_for(folder: Path, days: int) -> Path:
    """A self-signed certificate for localhost and 127.0.0.1, with its key in the same file."""
    path = folder / f"{days}.pem"
    request = f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days {days} -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", path, "-out", f"{path}.crt"]
    subprocess.run(["openssl", *request.split(), *names], check=True, capture_output=True)
    path.write_text(path.read_text() + Path(f"{path}.crt").read_text())
    return path


Upstream = int | dict[str, int] | str


def configuration(folder: Path, port: int, upstream: Upstream, certificate: Path | None) -> str:
    """The documented configuration at loopback ports, without TLS unless there is a certificate with its key.

    `upstream` is the port of a server that is both units; the port of each documented address; or a block in place of
    the documented upstreams. Nothing else is changed.
    """
    changes = {
        r"listen 80;": f"listen 127.0.0.1:{free_port()};",
        r"listen 443 ssl;": f"listen 127.0.0.1:{port};",
        r"listen \[::\]:(80|443 ssl);": "",
        r"ssl_certificate(_key)? .*": "",
        r"server_name .*;": "server_name localhost;",
        r"/var/log/nginx/": f"{folder}/",
    }
    text = documented.file("/etc/nginx/conf.d/sign-in.conf")
    ports = dict.fromkeys((PAGES, OPERATIONS), upstream) if isinstance(upstream, int) else upstream
    if isinstance(ports, str):
        text, count = UPSTREAMS.subn(ports, text)
        assert count
    else:
        changes |= {rf"{re.escape(address)}\b": f"127.0.0.1:{at}" for address, at in ports.items()}
    if certificate:
        changes[r"listen 443 ssl;"] = f"listen 127.0.0.1:{port} ssl;"
        changes[r"ssl_certificate(_key)? .*"] = rf"ssl_certificate\1 {certificate};"
    for pattern, replacement in changes.items():
        text, count = re.subn(pattern, replacement, text)
        assert count, f"docs/operations.md has no {pattern} any more"
    # Temporary files are in a folder of pytest's, which is root's alone.
    user = "user root;" if os.geteuid() == 0 else ""
    return AROUND.format(folder=folder, documented=text, user=user)


@contextmanager
def nginx(folder: Path, port: int, upstream: Upstream, certificate: Path | None = None) -> Iterator[None]:
    """nginx on the loopback `port`, which forwards to `upstream`, as in `configuration`; it ends with the block."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    path = folder / "nginx.conf"
    path.write_text(configuration(folder, port, upstream, certificate), encoding="utf-8")
    command, log = [program("nginx"), "-p", folder, "-c", path, "-e", "stderr"], folder / "start.log"
    with started(command, lambda: is_open(port), log):
        yield


TAKES, BUSY, REFUSES, REFUSES_GREETING = "takes", "busy", "refuses", "refuses the greeting"
HANGS, BREAKS = "hangs", "breaks"
ANSWERS = {BUSY: "451 try later", REFUSES: "550 nobody here", REFUSES_GREETING: "504 need a fully-qualified hostname"}


class MailServer:
    """Listens from `open` to `close`, on the same port each time. `mode` may change at any time."""

    def __init__(self) -> None:
        self.port = free_port()
        self.mode = TAKES
        self.data_seconds = self.step_seconds = 0.0  # until DATA, any command is answered
        self.connections = 0
        self.greetings: list[str] = []
        self.certificate: Path | None = None  # with its key, for STARTTLS
        self.mails: list[EmailMessage] = []
        self._released = threading.Event()
        self._server: socketserver.ThreadingTCPServer | None = None

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}"

    def open(self) -> None:
        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = daemon_threads = True
            block_on_close = False
            request_queue_size = 100

        self._released.clear()
        self._server = Server(("127.0.0.1", self.port), lambda *given: _Session(self, *given))
        threading.Thread(target=self._server.serve_forever, args=[0.02], daemon=True).start()

    def close(self) -> None:
        """Go away: a connection is refused from now on, and one that hangs ends."""
        self._released.set()
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def wait(self, seconds: float) -> bool:
        return not self._released.wait(seconds)


class _Session(socketserver.StreamRequestHandler):
    def __init__(self, server: MailServer, *given: Any) -> None:
        self.mail_server = server
        super().__init__(*given)

    def handle(self) -> None:
        server = self.mail_server
        server.connections += 1
        if server.mode == HANGS:
            server.wait(60)
            return
        self._say("220 ready")
        while line := self.rfile.readline():
            command = line[:4].upper()
            server.wait(server.step_seconds)
            if command == b"RCPT" and server.mode in ANSWERS:
                self._say(ANSWERS[server.mode])
            elif command == b"EHLO":
                server.greetings.append(line[5:].decode().strip())
                self._say("250-here\r\n250 STARTTLS" if server.certificate else "250 ok")
            elif command == b"STAR" and server.certificate:
                self._say("220 go on")
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(server.certificate)
                with suppress(ssl.SSLError):  # the client does not trust the certificate
                    context.wrap_socket(self.request, server_side=True)
                return
            elif command == b"DATA":
                self._say("354 go on")
                data = b"".join(iter(self.rfile.readline, b".\r\n"))
                if server.mode == BREAKS:
                    return
                message = email.message_from_bytes(data, policy=email.policy.default)
                server.mails.append(cast(EmailMessage, message))
                server.wait(server.data_seconds)
                self._say("250 taken")
            else:
                self._say("221 bye" if command == b"QUIT" else "250 ok")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())
