"""Files that are made expensive to read: scans, segments and CPU time are bounded, and each second counts. D21."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError
from PIL import Image

from accounts.pictures import reencoder, reencoder_runner
from tests.conftest import Launch
from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD, PersonFactory
from tests.faults.test_pictures import encoded, uploaded

SCAN = re.compile(rb"\xff\xda")


def progressive(size: tuple[int, int], scans: int) -> bytes:
    """A JPEG of so many scans: its last one, which goes through all pixels of a plane in 78 bytes, is repeated."""
    plain = encoded(Image.new("RGB", size, "green"), "JPEG", progressive=True, subsampling=0)
    places = [found.start() for found in SCAN.finditer(plain)]
    last = plain[places[-1] : -2]
    return plain[:-2] + last * (scans - len(places)) + plain[-2:]


def told(content: bytes) -> list[int | str]:
    """The seconds that were counted, then the code of a refusal."""
    counted: list[int | str] = []
    try:
        with uploaded(content) as file:
            reencoder_runner.reencode(file, count=counted.append)
    except ValidationError as error:
        counted.append(str(error.code))
    return counted


def test_a_small_file_that_repeats_a_scan_700_times_is_refused_unread() -> None:
    content = progressive((7200, 7200), 710)
    assert len(content) < 700_000
    assert told(content) == [1, "too_costly"]


def test_a_picture_may_have_many_scans_and_no_more() -> None:
    assert told(progressive((64, 64), reencoder.MAX_SCANS)) == [1]
    assert told(progressive((64, 64), reencoder.MAX_SCANS + 1)) == [1, "too_costly"]


def test_what_is_no_scan_does_not_count_as_one() -> None:
    """Bytes that look like scans stand in metadata (thumbnails) and after the end (films, further pictures)."""
    markers = b"\xff\xda\x00\x02" * 5000
    plain = encoded(Image.new("RGB", (64, 64)), "JPEG")
    in_metadata = plain[:2] + b"\xff\xe5" + (2 + len(markers)).to_bytes(2, "big") + markers + plain[2:]
    assert told(in_metadata + markers) == [1]


@pytest.mark.parametrize("segment", [b"\xff\xe5\x00\x02", b"\xff\xe5\x00\x00", b"\xff\x01"], ids=repr)
def test_a_jpeg_of_countless_segments_is_refused_unread(segment: bytes) -> None:
    plain = encoded(Image.new("RGB", (64, 64)), "JPEG")
    assert told(plain[:2] + segment * 5_000_000 + plain[2:]) == [1, "too_costly"]


@pytest.mark.parametrize("kind", ["GIF", "WEBP"])
def test_of_a_long_film_one_image_is_read(kind: str) -> None:
    frames = [Image.new("RGB", (64, 64), (number % 256, 0, number // 256)) for number in range(2000)]
    options = {"method": 0} if kind == "WEBP" else {}
    assert told(encoded(frames[0], kind, save_all=True, append_images=frames[1:], **options)) == [1]


def test_a_file_that_takes_too_long_is_stopped_and_counted_in_full(patched: Callable[[str], None]) -> None:
    patched("while True: pass")
    seconds, code = told(encoded(Image.new("RGB", (30, 30)), "PNG"))
    assert code == "too_costly"
    assert seconds in (reencoder.MAX_CPU_SECONDS, reencoder.MAX_CPU_SECONDS + 1)


def test_seconds_of_cpu_time_are_counted(patched: Callable[[str], None]) -> None:
    patched("import time\n    while time.process_time() < 1.5: pass")
    assert told(encoded(Image.new("RGB", (30, 30)), "PNG")) == [2]


def test_the_program_comes_after_the_requests_of_the_workers(patched: Callable[[str], None], tmp_path: Path) -> None:
    patched(f"open({str(tmp_path / 'niceness')!r}, 'w').write(str(os.nice(0)))")
    told(encoded(Image.new("RGB", (30, 30)), "PNG"))
    assert (tmp_path / "niceness").read_text() == str(os.nice(0) + reencoder.NICENESS)


class Uploader:
    """A person who uploads one file again and again, from one browser."""

    def __init__(self, base_url: str, content: bytes) -> None:
        person = PersonFactory()
        self.driver = OAuthDriver(base_url).signed_in(person.email, PASSWORD)
        page = Page(self.driver.get("/accounts/profile"))
        self.fields = next(form.fields for form in page.forms if "picture" in form.types)
        self.fields.pop("picture")
        self.content = content
        self.statuses: list[int] = []
        self.is_limited = threading.Event()

    def send(self) -> int:
        url, files = f"{self.driver.auth_url}/accounts/profile", {"picture": ("me.jpg", self.content, "image/jpeg")}
        answer = self.driver.browser.post(url, data=self.fields, files=files, allow_redirects=False, timeout=90)
        self.statuses.append(answer.status_code)
        if answer.status_code == 429:
            self.is_limited.set()
        return answer.status_code

    def send_until(self, is_over: threading.Event) -> None:
        while not is_over.is_set():
            if self.send() in (429, 503):
                is_over.wait(0.3)


def test_two_hostile_accounts_deny_no_pictures_to_a_third(launch: Launch) -> None:
    """They send the most expensive JPEG that is read. After a few the limit stops them, and the third one's is read."""
    server = launch(RATE_LIMITS="on", **({"WEB_CONCURRENCY": "2"} if os.environ.get("REDIS_URL") else {}))
    dear = progressive((7200, 7200), reencoder.MAX_SCANS)
    hostile = [Uploader(server.base_url, dear) for _ in range(2)]
    honest = Uploader(server.base_url, encoded(Image.new("RGB", (640, 480)), "JPEG"))
    is_over = threading.Event()
    threads = [threading.Thread(target=each.send_until, args=(is_over,)) for each in hostile]
    for thread in threads:
        thread.start()
    try:
        assert all(each.is_limited.wait(120) for each in hostile)
        for _ in range(100):
            if honest.send() == 302:
                break
            is_over.wait(0.3)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert honest.statuses[-1] == 302
    # A minute may end meanwhile.
    assert all(1 <= each.statuses.count(302) <= 2 * 4 for each in hostile)
