"""Files that are made expensive to read: scans, segments and CPU time are bounded, and each second counts. D21.

`make attack` measures other requests while two accounts upload such files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError
from PIL import Image

from accounts.pictures import reencoder, reencoder_runner
from tests.faults.test_pictures import encoded, uploaded

SCAN = re.compile(rb"\xff\xda")


def progressive(size: tuple[int, int], scans: int) -> bytes:
    """A JPEG of so many scans: its last one, which goes through all pixels of a plane in 78 bytes, is repeated."""
    plain = encoded(Image.new("RGB", size, "green"), "JPEG", progressive=True, subsampling=0)
    places = [found.start() for found in SCAN.finditer(plain)]
    last = plain[places[-1] : -2]
    return plain[:-2] + last * (scans - len(places)) + plain[-2:]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, a program of low priority needs longer for its seconds of CPU time."""
    monkeypatch.setattr(reencoder_runner, "RUN_SECONDS", 300)


def read(content: bytes) -> tuple[list[int], str]:
    """The seconds that were counted, and the code of a refusal."""
    counted: list[int] = []
    try:
        with uploaded(content) as file:
            reencoder_runner.reencode(file, count=counted.append)
    except ValidationError as error:
        return counted, str(error.code)
    return counted, ""


def refusal(content: bytes) -> str:
    counted, code = read(content)
    assert len(counted) == 1
    return code


def test_a_picture_may_have_many_scans_and_no_more() -> None:
    assert refusal(progressive((64, 64), reencoder.MAX_SCANS)) == ""
    assert refusal(progressive((64, 64), reencoder.MAX_SCANS + 1)) == "too_costly"


def test_what_is_no_scan_does_not_count_as_one() -> None:
    """Bytes that look like scans stand in metadata (thumbnails) and after the end (films, further pictures)."""
    markers = b"\xff\xda\x00\x02" * 5000
    plain = encoded(Image.new("RGB", (64, 64)), "JPEG")
    in_metadata = plain[:2] + b"\xff\xe5" + (2 + len(markers)).to_bytes(2, "big") + markers + plain[2:]
    assert refusal(in_metadata + markers) == ""


@pytest.mark.parametrize("segment", [b"\xff\xe5\x00\x02", b"\xff\xe5\x00\x00", b"\xff\x01"], ids=repr)
def test_a_jpeg_of_countless_segments_is_refused(segment: bytes) -> None:
    plain = encoded(Image.new("RGB", (64, 64)), "JPEG")
    assert refusal(plain[:2] + segment * reencoder.MAX_SEGMENTS + plain[2:]) == "too_costly"


@pytest.mark.parametrize("kind", ["GIF", "WEBP"])
def test_a_film_is_read_as_a_picture(kind: str) -> None:
    frames = [Image.new("RGB", (64, 64), (number, 0, 0)) for number in range(200)]
    assert refusal(encoded(frames[0], kind, save_all=True, append_images=frames[1:])) == ""


def test_a_file_that_takes_too_long_is_stopped_and_counted_in_full(patched: Callable[[str], None]) -> None:
    patched("while True: pass")
    [seconds], code = read(encoded(Image.new("RGB", (30, 30)), "PNG"))
    assert code == "too_costly"
    assert seconds >= reencoder.MAX_CPU_SECONDS


def test_seconds_of_cpu_time_are_counted(patched: Callable[[str], None]) -> None:
    patched("import time\n    while time.process_time() < 1.5: pass")
    [seconds], code = read(encoded(Image.new("RGB", (30, 30)), "PNG"))
    assert (seconds >= 2, code) == (True, "")


def test_the_program_comes_after_the_requests_of_the_workers(patched: Callable[[str], None], tmp_path: Path) -> None:
    patched(f"open({str(tmp_path / 'niceness')!r}, 'w').write(str(os.nice(0)))")
    read(encoded(Image.new("RGB", (30, 30)), "PNG"))
    assert (tmp_path / "niceness").read_text() == str(os.nice(0) + reencoder.NICENESS)
