"""The local arena: real open-source applications with generated content, tasks in WebArena's format, and their solutions."""

from __future__ import annotations

from importlib import import_module

from coevo.errors import ConfigError
from webarena.sites.base import Account, Instance, Site, Template

SITES = {
    "shopping": "webarena.sites.shopping",
    "shopping_admin": "webarena.sites.shopping_admin",
    "reddit": "webarena.sites.reddit",
    "gitlab": "webarena.sites.gitlab",
    "wikipedia": "webarena.sites.wikipedia",
}
"""Module of each site; it has a `site` that follows `Site`. The name is also WebArena's placeholder (`__SHOPPING__`)."""


def load_site(name: str) -> Site:
    """A site by name. Raises `ConfigError` for an unknown one."""
    if name not in SITES:
        raise ConfigError(f"the local arena has no site {name!r}", hint=f"sites: {', '.join(SITES)}")
    site: Site = import_module(SITES[name]).site
    return site


__all__ = ["SITES", "Account", "Instance", "Site", "Template", "load_site"]
