"""Start the metrics of a worker: take a slot, count, and serve if no other worker serves."""

from __future__ import annotations

import logging
import threading
import time

from django.conf import settings

from config.http.thread_pools import threads_of
from config.infrastructure import measures
from config.metrics import port, slots

PUBLISH_SECONDS = 1.0

logger = logging.getLogger(__name__)


def start() -> None:
    """Start to count if METRICS_BIND is set. If there is no space for the files, log an error and do not count."""
    if port.opened is None:
        return
    try:
        slot = slots.claim(port.opened.folder)
    except OSError as error:
        logger.error("this worker does not count metrics: no space for its files", extra={"code": error.errno})
        return
    # The import is here, because prometheus_client decides during its import how to store values.
    from prometheus_client import values

    values.ValueClass = values.MultiProcessValue(lambda: slot)  # type: ignore[no-untyped-call]

    from config.metrics import meter, serving

    measures.meter = counted = meter.PrometheusMeter(threads_of(settings.WEB_THREADS))

    def publish() -> None:
        while True:
            counted.publish()
            time.sleep(PUBLISH_SECONDS)

    threading.Thread(target=publish, name="metrics-publish", daemon=True).start()
    serving.start(port.opened.listener, port.opened.folder)
