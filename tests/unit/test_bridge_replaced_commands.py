"""A command of the toolkit either names the command to use instead, or fails before it changes anything."""

from pathlib import Path

import oauth2_provider
import pytest
from django.core.exceptions import FieldError
from django.core.management import CommandError, call_command, find_commands

from tests.conftest import run_here

INSTEAD = "manage.py application create NAME --redirect-uri URI"


def test_createapplication_names_the_command_to_use_instead():
    for arguments in ((), ("confidential", "authorization-code", "--name", "A"), ("--help",)):
        done = run_here("createapplication", *arguments)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert INSTEAD in done.stderr
    with pytest.raises(CommandError, match=INSTEAD.partition(" NAME")[0]):
        call_command("createapplication")


def test_each_other_command_of_the_toolkit_fails_at_its_first_query(db, django_assert_num_queries):
    toolkit = find_commands(str(Path(oauth2_provider.__file__).parent / "management"))
    assert {"createapplication"} < {*toolkit}
    for name in {*toolkit} - {"createapplication"}:
        with django_assert_num_queries(0), pytest.raises(FieldError):
            call_command(name)
