"""The middleware of all requests and responses, and the handlers of requests that no view can answer."""
