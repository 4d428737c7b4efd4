"""The check of the client address that the service gets from its proxies, for `manage.py check-deployment`."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

from config.deployment.findings import Finding, failed, ok, warning
from config.infrastructure.network import is_proxy

# No machine has these addresses (RFC 5737, RFC 3849).
FORGED = "192.0.2.77"
STRANGERS = ("198.51.100.9", "2001:db8::9")


def finding(name: str, url: str, said: dict[str, Any], forged: dict[str, Any], own_address: str) -> Finding:
    """Compare `said`, the answer to a plain request, with `forged`, the answer to a request with a forged address."""
    peer, hops = said["peer"], _hops(said["forwarded"])
    if not hops and not url.startswith("https:") and not is_proxy(peer):
        return ok(name, "The service is reached without a proxy, and believes no X-Forwarded-For.")
    if any(is_proxy(each) for each in STRANGERS):
        message = "TRUSTED_PROXIES contains addresses of strangers, who can then claim any address."
        return failed(name, message, "Name only the addresses of your proxies.")
    if not is_proxy(peer):
        if not hops and _hops(forged["forwarded"]):
            return _unset(name, peer, "passes X-Forwarded-For of strangers on and adds nothing")
        return _unset(name, peer, "says whose request it is" if hops else "does not say whose request it is")
    if not hops or _is_passed_through(forged, said["address"]):
        message = f"The proxy at {peer} passes X-Forwarded-For on as it came: anybody can claim any address."
        if not _hops(forged["forwarded"]):
            message = f"The proxy at {peer} does not say whose request it is: limits count everybody as one."
        return failed(name, message, "In nginx: proxy_set_header X-Forwarded-For $remote_addr;")
    return _of_address(name, said["address"], own_address)


def _unset(name: str, peer: str, does: str) -> Finding:
    message = f"The proxy at {peer} {does}, and is not in TRUSTED_PROXIES: limits count everybody as one."
    fix = f"Set TRUSTED_PROXIES={peer} if it is your proxy, and let it set X-Forwarded-For: $remote_addr in nginx."
    return failed(name, message, fix)


def _is_passed_through(forged: dict[str, Any], seen: str) -> bool:
    """Return whether the service believes a forged address from a client that is no trusted proxy."""
    hops = _hops(forged["forwarded"])
    return bool(hops) and (hops[-1] == FORGED or (forged["address"] == FORGED and not is_proxy(seen)))


def _of_address(name: str, seen: str, own_address: str) -> Finding:
    if _same(seen, own_address):
        return ok(name, f"The service sees this machine as {seen}, and believes no forged address.")
    if is_proxy(seen.partition("/")[0]):
        message = f"The service takes {seen}, which is one of TRUSTED_PROXIES, for the address of this machine."
        fix = "Let each proxy add the address it is called from, and run this from a machine that is no proxy."
        return failed(name, message, fix)
    return warning(
        name,
        f"The service sees this machine as {seen}, and its own address is {own_address}.",
        f"If {seen} is its address outside, say so with --from {seen}. If it is a proxy, add it to TRUSTED_PROXIES.",
    )


def _hops(forwarded: str) -> list[str]:
    return [hop.strip() for hop in forwarded.split(",") if hop.strip()]


def _same(seen: str, own: str) -> bool:
    """Return whether `seen` and `own` are the same address. For IPv6, `seen` may be the /64 network of the address."""
    try:
        address = ip_address(own.partition("%")[0])
        return (getattr(address, "ipv4_mapped", None) or address) in ip_network(seen, strict=False)
    except ValueError:
        return False
