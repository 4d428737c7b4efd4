"""In what a callback address can differ from a registered one: how much that counts, and the likely reason. D3."""

from __future__ import annotations

from collections.abc import Iterable

FAR = 20

# What each class adds to the difference of two addresses, in the order in which classes are told.
WEIGHTS = {
    "whitespace": 1,
    "quotes": 1,
    "encoded_twice": 1,
    "scheme": 2,
    "scheme_missing": 2,
    "scheme_slashes": 1,
    "userinfo": 2,
    "host_case": 1,
    "host_dot": 1,
    "idn": 1,
    "www": 2,
    "loopback": 2,
    "host_typo": 4,
    "subdomain": 5,
    "another_host": FAR,
    "default_port": 1,
    "port_missing": 3,
    "port": 3,
    "slash": 1,
    "path_missing": 3,
    "path_longer": 4,
    "path_shorter": 4,
    "path_case": 1,
    "path_typo": 3,
    "percent": 1,
    "dots": 1,
    "double_slash": 1,
    "path": 10,
    "query": 2,
    "fragment": 1,
}
# The likely reason and what to do. The first class, or pair of classes, that fits decides.
_REASONS = {
    "whitespace": "It was pasted with a space or a line end. Remove it in the application's setting.",
    "quotes": "It was sent with quotation marks or angle brackets. Remove them in the application's setting.",
    "encoded_twice": "It was percent-encoded twice. Let the application encode it once.",
    "another_host": "No registered address is near. Perhaps another installation of the application made the link.",
    "scheme": "The scheme differs. If the application is behind a TLS proxy, set its public address there.",
    "scheme_missing": "The scheme is missing. Set the whole address in the application, as it is registered.",
    "scheme_slashes": "The slashes after the scheme differ. Register the address exactly as the application sends it.",
    "userinfo": "It contains a user name. Remove what stands before the @ in the application's setting.",
    "host_case": "It differs in upper and lower case. Write it exactly as it is registered.",
    "host_dot": "The host ends with a dot. Remove it in the application's setting.",
    "idn": "The host is written with other letters. Use the registered spelling in the application.",
    "www": "One has www. and the other has not. Register both, or use one in the application.",
    "loopback": "localhost, 127.0.0.1 and [::1] are different addresses. Use the same one at both places.",
    "host_typo": "The host differs in a few characters. Compare the two.",
    "subdomain": "The hosts end alike. Register this one only if it is the application's, too.",
    "default_port": "One of the two has the port of the scheme, :443 or :80. Write it exactly as it is registered.",
    "port_missing": "The port is missing. Set it in the application.",
    "port": "The port differs. Register the one that the application listens at.",
    "slash": "It differs in the slash at the end. Write it exactly as it is registered.",
    "path_missing": "The path is missing. Set the whole address in the application.",
    "path_longer": "The path goes on after the registered one. Register the whole path.",
    "path_shorter": "The path ends before the registered one does. Set the whole path in the application.",
    "path_case": "The path differs in upper and lower case. Write it exactly as it is registered.",
    "path_typo": "The path differs in a few characters. Compare the two.",
    "percent": "The same path is percent-encoded in another way. Write it exactly as it is registered.",
    "dots": "The path contains dots that a browser would resolve. Write it exactly as it is registered.",
    "double_slash": "The path has two slashes one after the other. Remove one.",
    "path": "The path is another one. Register it, or correct the application's setting.",
    "query": "The query differs. Send exactly the registered one. What varies belongs into state.",
    "fragment": "It has a fragment, which a callback address must not have. Remove what stands after the #.",
}


def reason(differs: Iterable[str]) -> str:
    """The likely reason, and what to do, for an administrator. Empty when nothing differs."""
    found = set(differs)
    if "scheme" in found and found - {"scheme", "default_port"}:
        others = next((text for name, text in _REASONS.items() if name in found - {"scheme", "default_port"}), "")
        return f"The scheme differs, too. {others}"
    return next((text for name, text in _REASONS.items() if name in found), "")
