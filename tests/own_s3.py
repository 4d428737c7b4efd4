"""A server that speaks the protocol of Amazon S3, for one test."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError

from tests.server import free_port

BUCKET = "pictures"
KEY, SECRET = "a-key-of-tests", "not-a-secret"


class OwnS3:
    """Started at once, with one empty bucket; the test may stop and start it. It forgets everything when it stops."""

    def __init__(self) -> None:
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.url = f"s3://{BUCKET}/of-people?endpoint={self.endpoint}&region=us-east-1"
        credentials = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET}
        self.client = boto3.client("s3", endpoint_url=self.endpoint, region_name="us-east-1", **credentials)
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                self.client.create_bucket(Bucket=BUCKET)
            except BotoCoreError:
                time.sleep(0.1)
            else:
                return
        raise AssertionError("the S3 server did not start")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def names(self) -> list[Any]:
        return [entry["Key"] for entry in self.client.list_objects_v2(Bucket=BUCKET).get("Contents", [])]
