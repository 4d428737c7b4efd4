"""What every request and response passes: middleware, handlers, and the answers to what no view can answer."""
