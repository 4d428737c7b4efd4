"""The OpenAPI document, and the pages below /docs for developers of applications."""
