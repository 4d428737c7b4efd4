"""The HEALTHCHECK of the image: exit with 0 if the service in this container answers.

The request goes to the port of BIND, with a Host header that the service accepts.
"""

import os
import sys
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

SECONDS = 4  # less than the time-out of HEALTHCHECK

host = urlsplit(os.environ.get("AUTH_URL") or os.environ.get("BASE_URL") or "http://localhost").netloc
port = os.environ["BIND"].rpartition(":")[2]
try:
    urlopen(Request(f"http://127.0.0.1:{port}/health/live", headers={"Host": host}), timeout=SECONDS).close()
except OSError as error:
    sys.exit(f"The service does not answer: {error}")
