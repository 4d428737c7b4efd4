"""`manage.py quickstart`: run the service and a demo application on this machine."""

from __future__ import annotations

import errno
import os
import secrets
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

from accounts.credentials import end_credentials
from accounts.models import User
from accounts.verification import mark_verified
from oauth_bridge.models import Application
from oauth_bridge.redirect_uris import LOOPBACK_HOSTS
from oauth_bridge.storage import applications, client_secrets

DEMO_NAME = "Demo application"
DEMO_PACKAGES = ("authlib", "flask", "requests")
START_SECONDS = 60.0
STOP_SECONDS = 15.0


WELCOME = """
{name} is running, with an application that uses it.

  Open            {demo_url}
  and sign in as  demo@example.org, password {password}

  Administration  {service_url}/admin/
                  admin@example.org, password {admin_password}
  Application     {application.name}, client_id {application.client_id}
                  client_secret {secret}
  Log             {log}
  E-mails         {emails}

Each run sets new passwords and a new secret. Ctrl-C ends both.
"""


class Command(BaseCommand):
    help = "Migrate, create a demo account, administrator and application, serve both, and print the address to open."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="port of the service (default 8000)")
        parser.add_argument("--demo-port", type=int, default=8001, help="port of the demo application (default 8001)")

    def handle(self, *args: Any, port: int, demo_port: int, **options: Any) -> None:
        check_prerequisites(port, demo_port)
        # A host name for the service and an address for the application: two sites to a browser, as in production.
        service_url, demo_url = f"http://localhost:{port}", f"http://127.0.0.1:{demo_port}"
        try:
            call_command("migrate", interactive=False, verbosity=0)
            password, admin_password = demo_account("demo@example.org", "Dana Demo"), demo_administrator()
            application, secret = demo_application(demo_url)
        except (DatabaseError, OSError) as error:
            raise CommandError(f"The database can't be prepared: {str(error).partition(chr(10))[0]}.") from None
        connections.close_all()

        log = settings.VAR_DIR / "quickstart.log"
        commands = {
            "service": (serve_command(), serve_variables(port)),
            "demo application": (demo_command(), demo_variables(service_url, demo_port, application, secret)),
        }
        addresses = {"service": f"http://127.0.0.1:{port}/health/ready", "demo application": demo_url}
        welcome = WELCOME.format(
            name=settings.SERVICE_NAME,
            demo_url=demo_url,
            service_url=service_url,
            password=password,
            admin_password=admin_password,
            application=application,
            secret=secret,
            log=log,
            emails=getattr(settings, "EMAIL_FILE_PATH", "") or "by EMAIL_URL",
        )
        self.run_both(commands, addresses, log, welcome)

    def run_both(
        self, commands: dict[str, tuple[list[str], dict[str, str]]], addresses: dict[str, str], log: Path, welcome: str
    ) -> None:
        """Serve until Ctrl-C. Raises CommandError: one of the two processes ended, or a file can't be used."""
        # SIGINT too: a process that a shell script starts in the background ignores it.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, interrupt)
        with ExitStack() as running:
            try:
                log.parent.mkdir(parents=True, exist_ok=True)
                output = running.enter_context(log.open("ab"))
                processes = {
                    name: running.enter_context(child_process(command, variables, output))
                    for name, (command, variables) in commands.items()
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
    """Raises CommandError: the settings, the packages or the ports don't allow a start. Nothing is changed before."""
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
    for option, number, hosts in (("--port", port, ("127.0.0.1", "::1")), ("--demo-port", demo_port, ("127.0.0.1",))):
        if not 1 <= number <= 65535:
            raise CommandError(f"{option} must be from 1 to 65535.")
        for host in hosts:
            check_port_is_free(host, number, option)


def check_port_is_free(host: str, port: int, option: str) -> None:
    """Raises CommandError: the port is in use or not allowed. `::1` is checked too: browsers may try it first."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        probe = socket.socket(family)
    except OSError:
        return
    with probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except PermissionError:
            raise CommandError(f"Port {port} needs an administrator's rights; choose another by {option}.") from None
        except OSError as error:
            if error.errno == errno.EADDRINUSE or family == socket.AF_INET:
                raise CommandError(
                    f"Port {port} can't be used ({error.strerror}); end what uses it or choose another by {option}."
                ) from None


def demo_account(email: str, nickname: str, **fields: bool) -> str:
    """Create the account or reset it, and return its new password."""
    password = secrets.token_urlsafe(12)
    person = User.objects.filter(email=email).first() or User.objects.create_user(email, nickname=nickname)
    person.is_active = True
    for name, value in fields.items():
        setattr(person, name, value)
    person.set_password(password)
    person.save()
    end_credentials(person)
    mark_verified(person)
    return password


def demo_administrator() -> str:
    return demo_account("admin@example.org", "Ada Administrator", is_staff=True, is_superuser=True)


def demo_application(demo_url: str) -> tuple[Application, str]:
    """The registered demo application, with its current address, and a new client secret."""
    callback = f"{demo_url}/callback"
    application = Application.objects.filter(name=DEMO_NAME).first()
    if application is None:
        return applications.register(name=DEMO_NAME, redirect_uris=[callback], homepage=demo_url)
    application.redirect_uris, application.homepage = callback, demo_url
    application.save()
    applications.set_enabled(application, True)
    return application, client_secrets.rotate(application, client_secrets.REVOKE_NOW).secret


def serve_command() -> list[str]:
    return [sys.executable, "-m", "gunicorn", "-c", str(settings.BASE_DIR / "config" / "gunicorn.py"), "config.wsgi"]


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
    return [sys.executable, str(settings.BASE_DIR / "docs" / "demo_application.py")]


def demo_variables(service_url: str, demo_port: int, application: Application, secret: str) -> dict[str, str]:
    return {
        "BASE_URL": service_url,
        "AUTH_URL": service_url,
        "PORT": str(demo_port),
        "CLIENT_ID": application.client_id,
        "CLIENT_SECRET": secret,
    }


@contextmanager
def child_process(command: list[str], variables: dict[str, str], output: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A child process, which is ended when the context ends."""
    child = subprocess.Popen(
        command,
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
    while time.monotonic() < deadline:
        check_alive(processes, log)
        try:
            with urllib.request.urlopen(url, timeout=2):  # noqa: S310  (an address made above)
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
