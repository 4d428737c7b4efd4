"""`manage.py quickstart`: run the service and a demo application on this machine."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connections

from config.infrastructure.network import LOOPBACK_HOSTS
from oauth_bridge.management.demonstration import (
    credentials_path,
    demo_account,
    demo_application,
    read_credentials,
    write_credentials,
)
from oauth_bridge.models import Application

DEMO_PACKAGES = ("authlib", "flask", "requests")
START_SECONDS = 60.0


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


class Program(NamedTuple):
    """A program that gunicorn serves at `addresses`, and the `url` that answers once it runs."""

    name: str
    arguments: list[str]
    variables: dict[str, str]
    addresses: list[str]
    url: str

    def start(self, output: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "gunicorn", *self.arguments, *(f"--bind={each}" for each in self.addresses)],
            env={**os.environ, "GUNICORN_CMD_ARGS": "", **self.variables},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


class Command(BaseCommand):
    help = "Migrate, create a demo account, administrator and application, serve both, and print the address to open."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="port of the service (default 8000)")
        parser.add_argument("--demo-port", type=int, default=8001, help="port of the demo application (default 8001)")
        parser.add_argument("--new-passwords", action="store_true", help="set new passwords for the two demo accounts")

    def handle(self, *args: Any, port: int, demo_port: int, new_passwords: bool, **options: Any) -> None:
        check_prerequisites(port, demo_port)
        addresses = free_addresses(port, "--port", "127.0.0.1", "[::1]")
        demo_addresses = free_addresses(demo_port, "--demo-port", "127.0.0.1")
        os.umask(0o077)  # of both processes, too: passwords, e-mails and the database are for this user only
        # The service uses a host name and the application an IP address, so that a browser sees two sites, as in
        # production.
        service_url, demo_url = f"http://localhost:{port}", f"http://127.0.0.1:{demo_port}"
        log = settings.VAR_DIR / "quickstart.log"
        application, secret, welcome = prepare(service_url, demo_url, log, new_passwords)
        origins = {"BASE_URL": service_url, "AUTH_URL": service_url}
        serve = Program(
            "service",
            ["--config", str(settings.BASE_DIR / "config" / "gunicorn.py"), "config.wsgi"],
            {**origins, "BIND": addresses[0], "WEB_CONCURRENCY": "1", "SIGN_UP": "open", "ALLOWED_HOSTS": ""},
            addresses,
            f"http://127.0.0.1:{port}/health/ready",
        )
        folder = str(settings.BASE_DIR / "docs")
        demo = Program(
            "demo application",
            ["--no-control-socket", "--threads", "4", "--chdir", folder, "demo_application:app"],
            {
                **origins,
                "PORT": str(demo_port),
                "CLIENT_ID": application.client_id,
                "CLIENT_SECRET": secret,
                "no_proxy": "localhost",
            },
            demo_addresses,
            demo_url,
        )
        self.run_both([serve, demo], log, welcome)

    def run_both(self, programs: list[Program], log: Path, welcome: str) -> None:
        """Serve until Ctrl-C. Raises CommandError: one of the two processes ended, or a file can't be used."""
        # SIGINT gets a handler too, because a background process of a shell script ignores this signal by default.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
        processes: dict[str, subprocess.Popen[bytes]] = {}
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as output:
                for each in programs:
                    processes[each.name] = each.start(output)
            for each in programs:
                wait_for(each, processes, log)
            self.stdout.write(welcome)
            self.stdout.flush()
            while True:
                check_alive(processes, log)
                time.sleep(0.5)
        except KeyboardInterrupt:
            self.stdout.write("\nEnding both.")
        except OSError as error:
            raise CommandError(f"{error.filename or 'A file'} can't be used: {error.strerror}.") from None
        finally:
            for child in processes.values():
                child.terminate()
            for child in processes.values():
                child.wait()


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


def free_addresses(port: int, option: str, *hosts: str) -> list[str]:
    """Return the addresses at which a program can listen. Browsers may try `[::1]` first, which not every machine has.

    Raises CommandError: the port is in use or not allowed.
    """
    found = []
    for host in hosts:
        family = socket.AF_INET6 if host == "[::1]" else socket.AF_INET
        try:
            socket.create_server((host.strip("[]"), port), family=family).close()
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES) or family == socket.AF_INET:
                raise CommandError(
                    f"Port {port} can't be used ({os.strerror(error.errno or 0)}); "
                    f"end what uses it or choose another by {option}."
                ) from None
        else:
            found.append(f"{host}:{port}")
    return found


def prepare(service_url: str, demo_url: str, log: Path, new_passwords: bool) -> tuple[Application, str, str]:
    """Migrate, and make or update the accounts and the application. Return the application, its secret and the welcome.

    Raises CommandError: the database or a file can't be used.
    """
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
    return application, secret, welcome


def wait_for(program: Program, processes: dict[str, subprocess.Popen[bytes]], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy may not reach the child process
    while time.monotonic() < deadline:
        check_alive(processes, log)
        try:
            with opener.open(program.url, timeout=2):
                return
        except OSError:
            time.sleep(0.1)
    name = program.name
    raise CommandError(f"The {name} did not answer within {START_SECONDS:.0f} seconds; the reason is in {log}.")


def check_alive(processes: dict[str, subprocess.Popen[bytes]], log: Path) -> None:
    for name, child in processes.items():
        if child.poll() is not None:
            raise CommandError(f"The {name} ended by itself (exit code {child.returncode}); the reason is in {log}.")
