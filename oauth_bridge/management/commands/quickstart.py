"""`manage.py quickstart`: run the service and a demo application on this machine."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connections

from config.infrastructure.hosts import LOOPBACK_HOSTS
from oauth_bridge.management.demonstration import (
    credentials_path,
    demo_account,
    demo_application,
    read_credentials,
    write_credentials,
)
from oauth_bridge.models import Application

DEMO_PACKAGES = ("authlib", "flask", "requests")
GUNICORN = (sys.executable, "-m", "gunicorn")
START_SECONDS = 60.0
STOP_SECONDS = 15.0


WELCOME = """
{name} is running, with an application that uses it.

  Open            {demo_url}
  and sign in as  {demo}

  Administration  {service_url}/admin/
                  {administrator}
  Application     {application.name}, client_id {application.client_id}
                  client_secret {secret}
  Documentation   {service_url}/docs
  Log             {log}
  E-mails         {emails}

The next run keeps the passwords and the secret, which are stored in
{credentials}; --new-passwords sets others. Ctrl-C ends both.
"""


class Command(BaseCommand):
    help = "Migrate, create a demo account, administrator and application, serve both, and print the address to open."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="port of the service (default 8000)")
        parser.add_argument("--demo-port", type=int, default=8001, help="port of the demo application (default 8001)")
        parser.add_argument("--new-passwords", action="store_true", help="set new passwords for the two demo accounts")

    def handle(self, *args: Any, port: int, demo_port: int, new_passwords: bool, **options: Any) -> None:
        check_prerequisites(port, demo_port)
        os.umask(0o077)  # of both processes, too: passwords, e-mails and the database are for this user only
        with ExitStack() as held:
            # Open the sockets before any change and pass them to the processes, so that no other program can use the
            # ports.
            service = [held.enter_context(listener) for listener in listeners(port, "--port", ("127.0.0.1", "::1"))]
            demo = [held.enter_context(listener) for listener in listeners(demo_port, "--demo-port", ("127.0.0.1",))]
            self.prepare_and_run(port, demo_port, service, demo, new_passwords)

    def prepare_and_run(
        self, port: int, demo_port: int, service: list[socket.socket], demo: list[socket.socket], new_passwords: bool
    ) -> None:
        # The service uses a host name and the application an IP address, so that a browser sees two sites, as in
        # production.
        service_url, demo_url = f"http://localhost:{port}", f"http://127.0.0.1:{demo_port}"
        path = credentials_path()
        try:
            call_command("migrate", interactive=False, verbosity=0)
            kept = read_credentials(path)
            person = demo_account("demo@example.org", "Dana Demo", kept, new_passwords)
            administrator = demo_account(
                "admin@example.org", "Ada Administrator", kept, new_passwords, is_staff=True, is_superuser=True
            )
            application, secret = demo_application(demo_url, kept)
            write_credentials(path, kept)
            if settings.EMAIL_FILE_PATH:
                Path(settings.EMAIL_FILE_PATH).mkdir(parents=True, exist_ok=True)
        except (DatabaseError, OSError) as error:
            raise CommandError(f"The database can't be prepared: {str(error).partition(chr(10))[0]}.") from None
        connections.close_all()

        log = settings.VAR_DIR / "quickstart.log"
        commands = {
            "service": (serve_command(), serve_variables(port), service),
            "demo application": (demo_command(), demo_variables(service_url, demo_port, application, secret), demo),
        }
        addresses = {"service": f"http://127.0.0.1:{port}/health/ready", "demo application": demo_url}
        welcome = WELCOME.format(
            name=settings.SERVICE_NAME,
            demo_url=demo_url,
            service_url=service_url,
            demo=person,
            administrator=administrator,
            credentials=path,
            application=application,
            secret=secret,
            log=log,
            emails=settings.EMAIL_FILE_PATH or "by EMAIL_URL",
        )
        self.run_both(commands, addresses, log, welcome)

    def run_both(
        self,
        commands: dict[str, tuple[list[str], dict[str, str], list[socket.socket]]],
        addresses: dict[str, str],
        log: Path,
        welcome: str,
    ) -> None:
        """Serve until Ctrl-C. Raises CommandError: one of the two processes ended, or a file can't be used."""
        # SIGINT gets a handler too, because a background process of a shell script ignores this signal by default.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, interrupt)
        with ExitStack() as running:
            try:
                log.parent.mkdir(parents=True, exist_ok=True)
                output = running.enter_context(log.open("ab"))
                processes = {
                    name: running.enter_context(child_process(command, variables, sockets, output))
                    for name, (command, variables, sockets) in commands.items()
                }
                for name, address in addresses.items():
                    wait_for(address, name, processes, log)
                self.stdout.write(welcome)
                self.stdout.flush()
                while True:
                    check_alive(processes, log)
                    time.sleep(0.5)
            except KeyboardInterrupt:
                self.stdout.write("\nEnding both.")
            except OSError as error:
                raise CommandError(f"{error.filename or 'A file'} can't be used: {error.strerror}.") from None


def check_prerequisites(port: int, demo_port: int) -> None:
    """Check that a start is possible. Call this before any change.

    Raises CommandError: the settings, the packages or the ports do not allow a start.
    """
    for origin in (settings.AUTH_URL, settings.BASE_URL):
        if urlsplit(origin).hostname not in LOOPBACK_HOSTS:
            raise CommandError(f"quickstart is for this machine only, but the service is set up as {origin}.")
    missing = [name for name in DEMO_PACKAGES if find_spec(name) is None]
    if missing:
        raise CommandError(
            f"The demo application needs {', '.join(missing)}: pip install -r config/requirements/quickstart.txt."
        )
    if port == demo_port:
        raise CommandError("--port and --demo-port must differ.")
    for option, number in (("--port", port), ("--demo-port", demo_port)):
        if not 1 <= number <= 65535:
            raise CommandError(f"{option} must be from 1 to 65535.")


def listeners(port: int, option: str, hosts: tuple[str, ...]) -> Iterator[socket.socket]:
    """Yield a listening socket for each address in `hosts`. Browsers may try `::1` first.

    Raises CommandError: the port is in use or not allowed.
    """
    for host in hosts:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            yield socket.create_server((host, port), family=family)
        except PermissionError:
            raise CommandError(f"Port {port} needs an administrator's rights; choose another by {option}.") from None
        except OSError as error:
            if error.errno == errno.EADDRINUSE or family == socket.AF_INET:
                raise CommandError(
                    f"Port {port} can't be used ({os.strerror(error.errno or 0)}); "
                    f"end what uses it or choose another by {option}."
                ) from None


def serve_command() -> list[str]:
    return [*GUNICORN, "--config", str(settings.BASE_DIR / "config" / "gunicorn.py"), "config.wsgi"]


def serve_variables(port: int) -> dict[str, str]:
    origin = f"http://localhost:{port}"
    return {
        "BASE_URL": origin,
        "AUTH_URL": origin,
        "BIND": f"127.0.0.1:{port}",
        "WEB_CONCURRENCY": "1",
        "SIGN_UP": "open",
        "ALLOWED_HOSTS": "",
        "GUNICORN_CMD_ARGS": "",
    }


def demo_command() -> list[str]:
    folder = settings.BASE_DIR / "docs"
    return [*GUNICORN, "--no-control-socket", "--threads", "4", "--chdir", str(folder), "demo_application:app"]


def demo_variables(service_url: str, demo_port: int, application: Application, secret: str) -> dict[str, str]:
    return {
        "BASE_URL": service_url,
        "AUTH_URL": service_url,
        "PORT": str(demo_port),
        "CLIENT_ID": application.client_id,
        "CLIENT_SECRET": secret,
        "GUNICORN_CMD_ARGS": "",
        "no_proxy": "localhost",
    }


@contextmanager
def child_process(
    command: list[str], variables: dict[str, str], sockets: list[socket.socket], output: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a gunicorn process that serves on the sockets until the context ends."""
    descriptors = [listener.fileno() for listener in sockets]
    child = subprocess.Popen(
        [*command, *(f"--bind=fd://{descriptor}" for descriptor in descriptors)],
        pass_fds=descriptors,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
    )
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def wait_for(url: str, name: str, processes: dict[str, subprocess.Popen[bytes]], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy may not reach the child process
    while time.monotonic() < deadline:
        check_alive(processes, log)
        try:
            with opener.open(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise CommandError(f"The {name} did not answer within {START_SECONDS:.0f} seconds; the reason is in {log}.")


def check_alive(processes: dict[str, subprocess.Popen[bytes]], log: Path) -> None:
    for name, child in processes.items():
        if child.poll() is not None:
            raise CommandError(f"The {name} ended by itself (exit code {child.returncode}); the reason is in {log}.")


def interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt
