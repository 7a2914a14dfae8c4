"""The public accounts of the WebArena benchmark, one a site. They come with its published images and are no secret.

Whoever runs sites with other passwords sets `COEVO_WEBARENA_<SITE>_USER` and `COEVO_WEBARENA_<SITE>_PASSWORD`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from coevo.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Account:
    """Someone who can log in to a site."""

    name: str
    password: str = field(repr=False)


ACCOUNTS = {
    "shopping": Account("emma.lopez@gmail.com", "Password.123"),
    "shopping_admin": Account("admin", "admin1234"),
    "shopping_site_admin": Account("admin", "admin1234"),  # of the storefront's REST interface
    "reddit": Account("MarvelsGrantMan136", "test1234"),
    "gitlab": Account("byteblaze", "hello1234"),
}


def account_of(site: str) -> Account:
    """The account for a site, with what the environment overrides. Raises `ConfigError` for a site without one."""
    if site not in ACCOUNTS:
        raise ConfigError(
            f"there is no account for {site!r}", hint=f"sites with accounts: {', '.join(ACCOUNTS)}"
        )
    variable = f"COEVO_WEBARENA_{site.upper()}"
    public = ACCOUNTS[site]
    return Account(
        os.environ.get(f"{variable}_USER") or public.name,
        os.environ.get(f"{variable}_PASSWORD") or public.password,
    )
