"""Figures for Prometheus, on a port of their own: METRICS_BIND.

`port` runs in gunicorn's master, which opens the port and makes the folder in which the workers count. `worker` runs in
each worker: it counts, and one of the workers serves.
"""
