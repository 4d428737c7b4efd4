"""A Redis server for one test."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

from redis import Redis
from redis.exceptions import ConnectionError

from tests.server import free_port


class OwnRedis:
    """Started at once; the test may stop and start it."""

    def __init__(self, program: str, folder: Path) -> None:
        self.port = free_port()
        self.command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)
        with Redis(port=self.port) as client:
            for _ in range(1200):
                try:
                    client.ping()
                except ConnectionError:
                    time.sleep(0.05)
                else:
                    return
        raise AssertionError("Redis did not start")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        """Stop answering, with all connections open."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Answer again, after `pause`."""
        self.process.send_signal(signal.SIGCONT)
