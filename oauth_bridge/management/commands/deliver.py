"""`manage.py deliver`: send waiting e-mails, as the threads of the web workers do."""

from __future__ import annotations

import signal
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils.timesince import timesince

from accounts.mail import outbox
from config.infrastructure.worker import Worker


class Command(BaseCommand):
    help = (
        "Send the e-mails that wait, until it is stopped. The web workers do the same, and any number of both may run. "
        "Needed only where no web worker runs, or to send at once."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        choice = parser.add_mutually_exclusive_group()
        choice.add_argument("--once", action="store_true", help="send what is due now, then end")
        choice.add_argument("--list", action="store_true", dest="as_list", help="count what waits, and send nothing")

    def handle(self, *args: Any, once: bool, as_list: bool, **options: Any) -> None:
        if as_list:
            # Only kinds and numbers, because addresses and subjects are encrypted.
            lines = [
                f"{each['kind']}: {each['number']:,} waiting, the oldest for {timesince(each['oldest'])}, "
                f"at most {each['attempts']} attempts"
                for each in outbox.waiting()
            ]
            self.stdout.write("\n".join(lines) or "No e-mail waits.")
        elif once:
            while outbox.deliver_next():
                pass
        else:
            # The thread inherits the blocked signals, so no signal interrupts an attempt.
            ends = {signal.SIGINT, signal.SIGTERM}
            signal.pthread_sigmask(signal.SIG_BLOCK, ends)
            worker = Worker("deliver", outbox.deliver_next)
            worker.start()
            signal.sigwait(ends)
            worker.stop()
