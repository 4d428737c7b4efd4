"""How pages show times: one format, UTC with that word in the page, the time since only under a day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import time_machine
from django.conf import settings
from django.contrib import messages
from django.contrib.messages.storage.base import Message
from django.template import engines
from django.utils import timezone, translation
from django.utils.safestring import mark_safe

from accounts.templatetags.times import ago, moment, moments

AT = datetime(2026, 11, 22, 17, 5, 9, tzinfo=UTC)
ELEMENT = '<time datetime="2026-11-22T17:05:09Z" title="22 November 2026, 17:05:09 UTC">{}</time>'


def test_a_time_is_in_utc_with_that_word_and_its_seconds_in_the_title() -> None:
    page = engines["django"].from_string("{{ at|moment }} {{ text|moments }}")
    text = "<b> ended 2026-11-22 17:05 UTC, not 2026-99-99 99:99 UTC"
    said = page.render({"at": AT, "text": text})
    shown = ELEMENT.format("22 November 2026, 17:05 UTC")
    assert said == f"{shown} &lt;b&gt; ended {shown.replace(':09', ':00')}, not 2026-99-99 99:99 UTC"
    assert moments(Message(messages.INFO, mark_safe("<b>"))) == "<b>", "the framework's messages have links"
    assert 'datetime="0001-01-01T00:00:00Z"' in moments("a name with 0001-01-01 00:00 UTC"), "scripts read it"


@time_machine.travel(AT + timedelta(hours=23, minutes=59, seconds=59), tick=False)
def test_the_time_since_is_shown_under_a_day() -> None:
    assert ago(AT) == ELEMENT.format("23 hours ago")
    assert ago(AT - timedelta(seconds=1)) == moment(AT - timedelta(seconds=1))


def test_the_time_since_is_in_the_right_case() -> None:
    for language, *texts in (("de", "vor 1 Minute", "vor 5 Stunden"), ("ar", "قبل دقيقة واحدة", "قبل 5 ساعات")):
        with translation.override(language):
            for since, text in zip((timedelta(seconds=61), timedelta(hours=5, minutes=59)), texts, strict=True):
                assert f">{text}</time>" in ago(timezone.now() - since)


def test_date_and_time_stand_apart_in_each_language_as_the_script_expects() -> None:
    ends = tuple(f"{before}17:05 UTC</time>" for before in ("2026, ", "2026، ", "日，"))
    for code, _name in settings.LANGUAGES:
        with translation.override(code):
            assert moment(AT).endswith(ends), code
