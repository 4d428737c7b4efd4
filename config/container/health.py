"""The HEALTHCHECK of the image: exit with 0 if the service in this container answers at the port of BIND."""

import os
import sys
from urllib.request import urlopen

SECONDS = 4  # less than the time-out of HEALTHCHECK

port = os.environ["BIND"].rpartition(":")[2]
try:
    urlopen(f"http://127.0.0.1:{port}/health/live", timeout=SECONDS).close()
except OSError as error:
    sys.exit(f"The service does not answer: {error}")
