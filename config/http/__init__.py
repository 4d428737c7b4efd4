"""The middleware of all requests, and the answers to errors that no view handles."""
