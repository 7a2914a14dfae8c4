"""`coevo webarena check`."""

from __future__ import annotations

import asyncio
import dataclasses

import click

from coevo.cli.common import json_option, print_rows


@click.command()
@click.option(
    "--site", "sites", multiple=True, metavar="NAME", help="Only this site; can be given several times."
)
@json_option
def check(sites: tuple[str, ...], as_json: bool) -> None:
    """Try the real WebArena sites: do they answer, log in, and what versions are they? Also looks for the task files.

    Sites are found by WA_SHOPPING, WA_SHOPPING_ADMIN, WA_REDDIT, WA_GITLAB, WA_MAP and WA_WIKIPEDIA (several copies of a
    site are separated by commas), or by WEBARENA_HOST. Exits with status 1 when something is missing.

    Example: WEBARENA_HOST=my-host coevo webarena check
    """
    from coevo.errors import ConfigError
    from webarena.check import check_files, check_sites
    from webarena.configs import SITES

    for site in sites:
        if site not in SITES:
            raise ConfigError(f"there is no WebArena site {site!r}", hint=f"sites: {', '.join(SITES)}")
    checks = [*asyncio.run(check_sites(sites or SITES)), *([] if sites else check_files())]
    rows = [dataclasses.asdict(one) | {"state": "failed" if one.problem else "ok"} for one in checks]
    columns = ("name", "state", "url", "login", "version", "problem", "next_step")
    print_rows(rows, columns, as_json=as_json, empty="nothing to check")
    if any(one.problem for one in checks):
        raise SystemExit(1)
