"""What tests of `manage.py check-deployment` share."""

from __future__ import annotations

from config.deployment.findings import Finding


def by_name(found: list[Finding]) -> dict[str, Finding]:
    assert len({each.name for each in found}) == len(found)
    for each in found:
        assert each.message.endswith(".")
        assert bool(each.fix) == (each.status in ("warning", "failed"))
        assert "hidden" not in each.message + each.fix
    return {each.name: each for each in found}
