"""shopping_admin: the dashboard of the same shop, for its staff."""

from __future__ import annotations

from webarena.sites.shopping import STAFF, ShopSite

site = ShopSite(
    "shopping_admin",
    {"default": STAFF},
    ("webarena.sites.shopping_admin.tasks_read", "webarena.sites.shopping_admin.tasks_change"),
    "/dashboard/login/",
)

__all__ = ["site"]
