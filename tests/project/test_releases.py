"""The version stands in one place, and the release that others upgrade from is in the history."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from django.conf import settings

from oauth_bridge.openapi.document import document
from tests import releases
from tests.server import ROOT

pytestmark = pytest.mark.once


def test_the_service_and_its_document_have_the_version_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == settings.VERSION
    assert document()["info"]["version"] == project["version"]


def test_the_last_release_in_the_changelog_has_the_version_and_is_upgraded() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert next(heading for heading in headings if heading != "Unreleased") == settings.VERSION
    assert releases.last().version == settings.VERSION


def test_a_release_has_its_own_files(tmp_path: Path) -> None:
    release = releases.last()
    releases.unpack(release, tmp_path)
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == release.version
    assert (tmp_path / "manage.py").exists()


def test_a_release_that_does_not_exist_is_not_found() -> None:
    with pytest.raises(AssertionError, match=r"This clone has no release 0\.0\.9"):
        releases.commit_of(releases.Release("0.0.9", {}))
