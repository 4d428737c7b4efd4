"""Settings of Hypothesis: it writes no files into the checkout."""

from __future__ import annotations

import pytest
from hypothesis.configuration import set_hypothesis_home_dir


@pytest.fixture(scope="session", autouse=True)
def hypothesis_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    set_hypothesis_home_dir(tmp_path_factory.mktemp("hypothesis"))
