"""An installation's own logo and colour. Without them, the pages are as they are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from config import branding
from config.branding import WHITE, contrast

SVG = (
    b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 4 1"><script>alert(1)</script></svg>'
)
PNG = b"\x89PNG\r\n\x1a\n rest"
WEBP = b"RIFF\x10\n\x00\x00WEBPVP8 "


@pytest.mark.parametrize(
    ("content", "content_type"), [(SVG, "image/svg+xml"), (PNG, "image/png"), (WEBP, "image/webp")]
)
def test_the_logo_is_in_place_of_the_mark_and_served_by_the_service(
    client: Client, db: None, settings: Any, monkeypatch: Any, tmp_path: Path, content: bytes, content_type: str
) -> None:
    assert client.get("/accounts/sign-in").text.count("/static/img/mark.svg") == 2
    (tmp_path / "logo").write_bytes(content)
    monkeypatch.setenv("SERVICE_LOGO", str(tmp_path / "logo"))
    settings.SERVICE_LOGO = branding.logo("SERVICE_LOGO")
    page = client.get("/accounts/sign-in").text
    [url] = set(re.findall(r'"(/brand/[^"]+)"', page))
    assert f'<link rel="icon" href="{url}" type="{content_type}">' in page
    assert f'<img class="own" src="{url}" alt="" height="24">' in page
    assert "mark.svg" not in page
    answer = client.get(url, HTTP_COOKIE="a=" + "x" * 9000)
    assert (answer.content, answer["Content-Type"]) == (content, content_type)
    assert "immutable" in answer["Cache-Control"]
    assert "Cookie" not in answer.get("Vary", "")
    # A drawing that is opened by itself runs no script.
    assert re.fullmatch(r"default-src 'none'; (?!.*script).*; sandbox", answer["Content-Security-Policy"])
    assert client.get(f"/brand/{'0' * 32}.svg").status_code == 404


def test_a_logo_of_another_kind_or_that_can_not_be_read_stops_the_start(monkeypatch: Any, tmp_path: Path) -> None:
    path = tmp_path / "logo"
    monkeypatch.setenv("SERVICE_LOGO", str(path))
    for content in (None, b"", b"GIF89a", b"<?xml version='1.0'?><html/>", PNG + b"x" * 204_800):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ImproperlyConfigured, match=r"^SERVICE_LOGO must be the full path of an SVG, PNG or WebP"):
            branding.logo("SERVICE_LOGO")


@pytest.mark.django_db
def test_the_colour_comes_in_a_style_sheet_and_in_the_mark(client: Client, admin_client: Client, settings: Any) -> None:
    settings.STAFF_SECOND_FACTOR = False
    settings.SERVICE_COLOR = "#0b5fff"
    page = client.get("/accounts/sign-in").text
    [sheet] = re.findall(r'<link rel="stylesheet" href="(/brand/[^"]+\.css)">', page)
    assert page.index("tokens.css") < page.index(sheet) < page.index("site.css")
    answer = client.get(sheet)
    assert answer["Content-Type"] == "text/css; charset=utf-8"
    assert answer.content.startswith(b":root { --color-service: #0b5fff }")
    [mark] = re.findall(r'<img width="24" src="(/brand/[^"]+\.svg)"', page)
    assert b'fill="#0b5fff"' in client.get(mark).content
    administration = admin_client.get("/admin/").content.decode()
    assert re.search(r"tokens\.css.*/brand/\w+\.css.*admin\.css", administration, re.DOTALL)


@pytest.mark.parametrize("color", ["#767676", "#000000", "#8f7200", "#e6000a", "#0000ff"])
def test_text_can_be_read_in_light_and_dark(color: str, settings: Any) -> None:
    known = {"white": WHITE, "black": "#000000", "var(--color-surface)": "#181c1b", "var(--color-service)": color}

    def colors(rules: str) -> dict[str, str]:
        found = re.findall(r"--color-([a-z-]+): color-mix\(in srgb, (\S+), (\S+) (\d+)%\);", rules)
        mixed = {}
        for name, one, other, percent in found:
            if one != "transparent":
                pairs = zip(*(bytes.fromhex(known[each][1:]) for each in (one, other)), strict=True)
                mixed[name] = f"#{bytes(round(a + (b - a) * int(percent) / 100) for a, b in pairs).hex()}"
        return mixed

    light, dark, _ = re.split(r"@media [^{]+", branding.files(None, color)["stylesheet"].content.decode())
    tokens = (settings.BASE_DIR / "static/css/tokens.css").read_text()
    for rules, surfaces in ((colors(light), (WHITE, "#f2f1ec")), (colors(dark), ("#181c1b", "#1f2423"))):
        for background in (*surfaces, rules["accent-soft"], rules["pass"]):
            assert contrast(rules["accent"], background) >= 4.5
        assert all(f": {each};" in tokens for each in surfaces if each != WHITE)
