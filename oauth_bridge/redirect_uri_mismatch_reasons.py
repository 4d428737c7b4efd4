"""The differences between a sent and a registered callback address: their weights and likely reasons. D3."""

from __future__ import annotations

from collections.abc import Iterable

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _  # marks the sentences for translation

FAR = 20

# The weight of each class of differences in the distance between two addresses. A result lists the classes in the order
# of WEIGHTS.
WEIGHTS = {
    "whitespace": 1,
    "quotes": 1,
    "encoded_twice": 1,
    "not_encoded": 1,
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
    "loopback_port": 3,
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
# The likely reason and the advice for each class, in the order in which an administrator reads them.
_REASONS = {
    "whitespace": _("It was pasted with a space or a line end. Remove it in the application's setting."),
    "quotes": _("It was sent with quotation marks or angle brackets. Remove them in the application's setting."),
    "encoded_twice": _("It was percent-encoded twice. Let the application encode it once."),
    "not_encoded": _(
        "It was not percent-encoded in the link, so a part of it was lost: what follows the first &, or a + or %."
        " Let the application percent-encode it."
    ),
    "another_host": _("No registered address is near. Perhaps another installation of the application made the link."),
    "scheme": _(
        "The beginning before :// differs, such as http instead of https. If a proxy stands before the application,"
        " set the application's public address (https) in the application."
    ),
    "scheme_missing": _("The scheme is missing. Set the whole address in the application, as it is registered."),
    "scheme_slashes": _(
        "The slashes after the scheme differ. Register the address exactly as the application sends it."
    ),
    "userinfo": _("It contains a user name. Remove what stands before the @ in the application's setting."),
    "host_case": _("It differs in upper and lower case. Write it exactly as it is registered."),
    "host_dot": _("The host ends with a dot. Remove it in the application's setting."),
    "idn": _("The host is written with other letters. Use the registered spelling in the application."),
    "www": _("One has www. and the other has not. Register both, or use one in the application."),
    "loopback": _("localhost, 127.0.0.1 and [::1] are different addresses. Use the same one at both places."),
    "host_typo": _("The host differs in a few characters. Compare the two."),
    "subdomain": _("The hosts end alike. Register this one only if it is the application's, too."),
    "default_port": _("One of the two has the port of the scheme, :443 or :80. Write it exactly as it is registered."),
    "port_missing": _("The port is missing. Set it in the application."),
    "port": _("The port differs. Register the one that the application listens at."),
    "loopback_port": _(
        "The port differs. Register the one that the application listens at. If it is a program that listens at any"
        " free port of a person's machine, make it an application without a secret, and register its address without"
        " a port."
    ),
    "slash": _("It differs in the slash at the end. Write it exactly as it is registered."),
    "path_missing": _("The path is missing. Set the whole address in the application."),
    "path_longer": _("The path goes on after the registered one. Register the whole path."),
    "path_shorter": _("The path ends before the registered one does. Set the whole path in the application."),
    "path_case": _("The path differs in upper and lower case. Write it exactly as it is registered."),
    "path_typo": _("The path differs in a few characters. Compare the two."),
    "percent": _("The same path is percent-encoded in another way. Write it exactly as it is registered."),
    "dots": _("The path contains dots that a browser would resolve. Write it exactly as it is registered."),
    "double_slash": _("The path has two slashes one after the other. Remove one."),
    "path": _("The path is another one. Register it, or correct the application's setting."),
    "query": _("The query differs. Send exactly the registered one. What varies belongs into state."),
    "fragment": _("It has a fragment, which a callback address must not have. Remove what stands after the #."),
}


def reason(differs: Iterable[str]) -> str:
    """Return the likely reasons and the advice for an administrator, in the active language.

    Differences behind another host are left out. Returns an empty string without a difference.
    """
    found = [name for name in _REASONS if name in set(differs)]
    if "another_host" in found:
        found = found[: found.index("another_host") + 1]
    if "scheme" not in found:
        return " ".join(gettext(_REASONS[name]) for name in found)
    others = [gettext(_REASONS[name]) for name in found if name not in ("scheme", "default_port")]
    return " ".join([gettext("The scheme differs, too."), *others]) if others else gettext(_REASONS["scheme"])
