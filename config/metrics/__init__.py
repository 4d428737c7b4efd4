"""Metrics for Prometheus, on a separate port: METRICS_BIND.

`port` runs in gunicorn's master, which opens the port and makes the folder in which the workers count. `worker` runs in
each worker. All workers count, and one worker serves the metrics of all.
"""
