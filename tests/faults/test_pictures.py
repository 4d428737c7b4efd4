"""Large and hostile pictures: bounded memory and time, for the program that reads them and for the workers."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import TemporaryUploadedFile
from PIL import Image

from accounts.models import User
from accounts.pictures import reencoder, reencoder_runner
from tests.server import ROOT, children_of

# What docs/operations.md counts with.
MOST_MEMORY_MB = 1000


@pytest.fixture(scope="module")
def photo() -> Image.Image:
    """50 megapixels."""
    ramp = Image.linear_gradient("L").resize((8192, 6144))
    return Image.merge("RGB", (ramp, ramp.transpose(0), ramp.transpose(1)))


def uploaded(content: bytes) -> TemporaryUploadedFile:
    file = TemporaryUploadedFile("photo", "application/octet-stream", len(content), None)
    file.write(content)
    return file


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    output = io.BytesIO()
    image.save(output, kind, **options)
    return output.getvalue()


def refusal(content: bytes) -> str:
    with pytest.raises(ValidationError) as refused, uploaded(content) as file:
        reencoder_runner.reencode(file, User())
    return str(refused.value.code)


# A small process between: the system counts the memory of the process that started another as that one's, too.
BETWEEN = """
import resource, subprocess, sys
command = [sys.executable, "-m", "accounts.pictures.reencoder", "256", "1", "0.5", "0.5"]
program = subprocess.run(command, stdout=subprocess.DEVNULL)
print(program.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def read_alone(content: bytes, folder: Path) -> tuple[int, float]:
    """The exit status of the program, and the most memory that it had at once, in MB."""
    (folder / "photo").write_bytes(content)
    with open(folder / "photo", "rb") as source:
        run = subprocess.run([sys.executable, "-c", BETWEEN], stdin=source, capture_output=True, cwd=ROOT, check=True)
    status, kilobytes = map(int, run.stdout.split())
    return status, kilobytes / 1024


@pytest.mark.parametrize(
    ("kind", "options", "most_mb"),
    [
        ("JPEG", {"quality": 85, "progressive": True, "subsampling": 0}, 400),
        ("WEBP", {"quality": 50, "method": 0}, 900),
    ],
    ids=["progressive", "webp"],
)
def test_a_photo_of_50_megapixels_is_read_with_bounded_memory(
    photo: Image.Image, tmp_path: Path, kind: str, options: dict[str, Any], most_mb: int
) -> None:
    """Those that need most."""
    content = encoded(photo, kind, **options)
    status, memory = read_alone(content, tmp_path)
    assert status == reencoder.DONE
    assert memory < most_mb < MOST_MEMORY_MB


def test_a_picture_of_one_colour_with_2500_megapixels_is_refused_unread(tmp_path: Path) -> None:
    """A file of 300 kB, whole and right, that would occupy 7.5 GB."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")

    side = 50_000
    packer = zlib.compressobj(9)
    row = bytes(1 + side // 8)
    data = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    head = b"".join(length.to_bytes(4, "big") for length in (side, side)) + bytes((1, 0, 0, 0, 0))
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    status, memory = read_alone(bomb, tmp_path)
    assert status == reencoder.TOO_MANY_PIXELS
    assert memory < 60
    assert refusal(bomb) == "too_many_pixels"


SMALL = encoded(Image.new("RGB", (30, 30)), "PNG")


@pytest.mark.parametrize(
    ("statements", "code"),
    [
        ("bytearray(2_000_000_000)", "failed"),
        ("while True: pass", "too_costly"),
        ("import time; time.sleep(3600)", "too_costly"),
        ("import os; os.kill(os.getpid(), 11)", "failed"),
        ("sys.stdout.buffer.write(bytes(5_000_000))", "failed"),
    ],
    ids=["memory", "loops", "sleeps", "crashes", "long result"],
)
def test_a_program_that_fails_is_a_sentence(
    patched: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, statements: str, code: str
) -> None:
    if "sleep" in statements:
        monkeypatch.setattr(reencoder_runner, "RUN_SECONDS", 1.0)
    patched(statements)
    before = children_of(os.getpid())
    assert refusal(SMALL) == code
    assert children_of(os.getpid()) == before


def test_of_ten_at_once_three_are_read_and_the_others_are_told_to_try_again(
    patched: Callable[[str], None], tmp_path: Path
) -> None:
    """One reads and two wait until the seven others have been told."""
    may_end = tmp_path / "may-end"
    patched(f"import pathlib, time\n    while not pathlib.Path({str(may_end)!r}).exists(): time.sleep(0.02)")
    outcomes: list[str] = []
    barrier = threading.Barrier(10)

    def send() -> None:
        with uploaded(SMALL) as file:
            barrier.wait()
            try:
                reencoder_runner.reencode(file, User())
                outcomes.append("read")
            except ValidationError as error:
                outcomes.append(str(error.code))
                if outcomes.count("busy") == 7:
                    may_end.touch()

    threads = [threading.Thread(target=send) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == ["busy"] * 7 + ["read"] * 3


def test_the_program_comes_after_the_requests_of_the_workers(patched: Callable[[str], None], tmp_path: Path) -> None:
    patched(f"open({str(tmp_path / 'niceness')!r}, 'w').write(str(os.nice(0)))")
    with uploaded(SMALL) as file:
        reencoder_runner.reencode(file, User())
    assert (tmp_path / "niceness").read_text() == str(os.nice(0) + reencoder.NICENESS)
