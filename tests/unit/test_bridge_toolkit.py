"""The commands of the toolkit, which would store rows that nobody reads, are refused."""

from __future__ import annotations

import sys
from pathlib import Path

import oauth2_provider
import pytest
from django.core.management import find_commands

import manage


def test_the_command_line_refuses_every_command_of_the_toolkit_and_names_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = find_commands(str(Path(oauth2_provider.__file__).parent / "management"))
    for command in ("changepassword", *theirs):
        monkeypatch.setattr(sys, "argv", ["manage.py", command])
        with pytest.raises(SystemExit, match=r"Use manage\.py"):
            manage.main()
