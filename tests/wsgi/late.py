"""The service whose workers start no further while the file LATE exists. Served by a test only."""

from __future__ import annotations

import os
import time
from pathlib import Path

while Path(os.environ["LATE"]).exists():
    time.sleep(0.02)

from config.wsgi import application  # noqa: E402, F401
