"""The version stands in one place, and the release that others upgrade from is the last of the change log."""

from __future__ import annotations

import re
import tomllib

from django.conf import settings

from oauth_bridge.openapi.document import document
from tests import releases
from tests.server import ROOT


def test_the_service_its_document_and_the_last_release_have_the_version_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    released = next(heading for heading in headings if heading != "Unreleased")
    assert {settings.VERSION, document()["info"]["version"], released, releases.last().version} == {version}
