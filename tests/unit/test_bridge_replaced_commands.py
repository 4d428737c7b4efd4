"""The toolkit's commands work on tables that are not in use here, so each says which command to use instead."""

from pathlib import Path

import oauth2_provider
import pytest
from django.core.management import CommandError, call_command, find_commands, get_commands

from tests.conftest import run_here

COMMANDS = {
    "cleartokens": "manage.py purge",
    "createapplication": "manage.py application create NAME --redirect-uri URI",
    "clearcimdapplications": "manage.py application delete CLIENT_ID",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_of_the_toolkit_names_the_command_to_use_instead(name):
    for arguments in ((), ("confidential", "authorization-code", "--name", "A"), ("--help",)):
        done = run_here(name, *arguments)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert COMMANDS[name] in done.stderr
    with pytest.raises(CommandError, match=COMMANDS[name].partition(" NAME")[0]):
        call_command(name)


def test_no_command_of_the_toolkit_is_left():
    toolkit = find_commands(str(Path(oauth2_provider.__file__).parent / "management"))
    assert {name: get_commands()[name] for name in toolkit} == dict.fromkeys(COMMANDS, "oauth_bridge")
