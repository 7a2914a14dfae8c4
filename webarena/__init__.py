"""Browser worlds for coevo agents: a pool of Chromium pages, observations, actions, and task sets that use them."""

from webarena.browser import Browser, find_chromium
from webarena.pool import BrowserPool, Slot

__all__ = ["Browser", "BrowserPool", "Slot", "find_chromium"]
