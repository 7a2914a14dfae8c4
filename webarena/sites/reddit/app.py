"""The forum as a process: imported once (`load`), then served by each fork on a database of its own (`serve`)."""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
from datetime import datetime
from pathlib import Path
from typing import Any

SETTINGS = "webarena.sites.reddit.settings"
DATABASE = "forum.sqlite"
THREADS = 4
STATIC_FOLDERS = ("stylesheets", "scripts", "images")
WARMED = ("spirit/topic/active.html", "spirit/topic/detail.html", "spirit/category/detail.html", "spirit/search/search.html")  # fmt: skip

_application: Any = None


def missing() -> str:
    """What is not installed, with the remedy; "" if nothing."""
    absent = [name for name in ("spirit", "waitress", "whitenoise") if importlib.util.find_spec(name) is None]
    if not absent:
        return ""
    return f"not installed: {', '.join(absent)}; install the arena extra: pip install 'coevo[arena]'"


def setup() -> None:
    """Makes Django ready in this process, without a database."""
    os.environ["DJANGO_SETTINGS_MODULE"] = SETTINGS
    import django

    django.setup()


def use(state: Path) -> None:
    """Points this process to the database and the uploads of `state`. Before the first query."""
    from django.conf import settings
    from django.db import connections

    connections.settings["default"]["NAME"] = str(state / DATABASE)
    settings.MEDIA_ROOT = str(state / "media")


def load() -> None:
    """Imports the application with its URLs and most used templates, and finds the static files."""
    global _application
    if _application is not None:
        return
    setup()
    import waitress  # noqa: F401
    from django.core.wsgi import get_wsgi_application
    from django.template.loader import get_template
    from django.urls import reverse
    from whitenoise import WhiteNoise

    application = WhiteNoise(get_wsgi_application(), max_age=86_400)
    static = _spirit_folder() / "core" / "static" / "spirit"
    for folder in STATIC_FOLDERS:
        application.add_files(str(static / folder), prefix=f"static/spirit/{folder}/")
    _show_whole_dates()
    reverse("spirit:index")
    for name in WARMED:
        get_template(name)
    _application = application


def serve(state: Path, listener: socket.socket, url: str) -> None:
    """Serves `state` until the process is killed."""
    from django.conf import settings
    from waitress import create_server

    load()
    use(state)
    settings.ST_SITE_URL = url
    for name in ("waitress", "django"):  # they warn of full queues and of pages that are not found
        logging.getLogger(name).setLevel(logging.ERROR)
    create_server(_application, sockets=[listener], threads=THREADS, ident="").run()


def _spirit_folder() -> Path:
    import spirit

    return Path(str(spirit.__file__)).parent


def _show_whole_dates() -> None:
    """Spirit shows how long ago something was. The content's dates are fixed, so a page would read differently every year."""
    from django.template.defaultfilters import date
    from spirit.core.templatetags.spirit_tags import register

    def whole(value: datetime) -> str:
        return str(date(value, "j F Y"))

    register.filter("shortnaturaltime", whole, expects_localtime=True)
