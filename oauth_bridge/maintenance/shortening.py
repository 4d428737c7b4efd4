"""Replace the network address in each old record by its network, because an address identifies a person. D24."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from ipaddress import ip_address, ip_network

from oauth_bridge.activity_models import ActivityRecord

WHOLE_FOR = timedelta(days=7)
_PREFIXES = {4: 24, 6: 48}


def network_of(address: str) -> str:
    """Return the /24 network of an IPv4 address or the /48 network of an IPv6 address; empty for other texts."""
    try:
        return str(ip_network(f"{address}/{_PREFIXES[ip_address(address).version]}", strict=False))
    except ValueError:
        return ""


def shorten(keys: list[int]) -> int:
    """Replace the address of each record by its network. Returns the number of records."""
    records: defaultdict[str, list[int]] = defaultdict(list)
    for key, address in ActivityRecord.objects.filter(pk__in=keys).values_list("pk", "address"):
        records[network_of(address)].append(key)
    return sum(ActivityRecord.objects.filter(pk__in=own).update(address=network) for network, own in records.items())
