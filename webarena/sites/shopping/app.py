"""The application: Django set up once a process, bound to a state after the fork, served by waitress."""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from typing import Any

from webarena.sites.shopping import settings as shop_settings

THREADS = 4
_application: Any = None


def setup(site: str) -> None:
    """Import Django and Oscar with the settings of `site`; opens no database. A process can serve one site."""
    import django
    from django.conf import settings

    if not settings.configured:
        settings.configure(**shop_settings.settings(site))
        django.setup()
        _forget_visitors()
    elif f"coevo_{site}_session" != settings.SESSION_COOKIE_NAME:
        raise RuntimeError(f"this process is set up for another site than {site}")


def _forget_visitors() -> None:
    """Looking must not write: who only reads a page leaves the state as it was."""
    from oscar.apps.analytics import receivers
    from oscar.apps.catalogue.signals import product_viewed
    from oscar.apps.search.signals import user_search

    product_viewed.disconnect(receivers.receive_product_view)
    user_search.disconnect(receivers.receive_product_search)


def load(site: str) -> Any:
    """The WSGI application of `site`, with every template parsed and every view imported, so that a fork starts warm."""
    global _application
    setup(site)
    if _application is None:
        import oscar
        from django.core.handlers.wsgi import WSGIHandler
        from django.urls import get_resolver, reverse
        from whitenoise import WhiteNoise

        logging.getLogger("django").setLevel(logging.ERROR)
        logging.getLogger("oscar").setLevel(logging.ERROR)
        application = WhiteNoise(WSGIHandler(), max_age=86_400)
        application.add_files(Path(oscar.__file__).parent / "static", prefix="static/")
        _compile_urls(get_resolver())
        reverse("search:search")
        _parse_templates(Path(oscar.__file__).parent / "templates")
        _mend_tables()
        _warm_locale()
        _application = application
    return _application


def _compile_urls(resolver: Any) -> None:
    """Imports all views and prepares addresses for both directions, which Django leaves to the first requests."""
    for pattern in resolver.url_patterns:
        _ = pattern.pattern.regex
        if hasattr(pattern, "url_patterns"):
            _compile_urls(pattern)


def _parse_templates(folder: Path) -> None:
    from django.template import TemplateSyntaxError
    from django.template.loader import get_template

    for path in folder.rglob("*.html"):
        name = path.relative_to(folder).as_posix()
        if "/emails/" not in name:
            try:
                get_template(name)
            except TemplateSyntaxError:
                continue  # for an add-on that is not installed


def _mend_tables() -> None:
    """Oscar offers to sort some tables by their check boxes, and then fails."""
    from oscar.apps.dashboard.catalogue.tables import CategoryTable, ProductTable

    for table in (CategoryTable, ProductTable):
        table.base_columns["checkbox"].orderable = False


def _warm_locale() -> None:
    from oscar.templatetags.currency_filters import currency

    currency("1.00")


def bind(state: Path) -> None:
    """From here on this process works on the database in `state`. Before the first query, after the fork."""
    from django.conf import settings
    from django.db import connections

    connections.close_all()
    connections["default"].settings_dict["NAME"] = str(state / shop_settings.DATABASE)
    settings.MEDIA_ROOT = str(state / shop_settings.MEDIA)


def serve(site: str, state: Path, listener: socket.socket) -> None:
    """Answer requests on `listener` until killed."""
    from waitress import create_server

    application = load(site)
    bind(state)
    logging.getLogger("waitress").setLevel(logging.ERROR)
    create_server(
        application, sockets=[listener], threads=THREADS, ident=None, clear_untrusted_proxy_headers=True
    ).run()
