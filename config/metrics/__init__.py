"""Metrics for Prometheus, on a separate port: METRICS_BIND.

`port` runs in gunicorn's master. It opens the port and makes the folder for the counts of the workers. `worker` runs in
each worker. All workers count, and one worker serves the metrics of all.
"""
