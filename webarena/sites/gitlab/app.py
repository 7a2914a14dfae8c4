"""Roundup as a WSGI application whose code and templates lie in this package, and only its database in the slot's state."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from roundup import configuration, instance
from roundup.backends import back_sqlite, indexer_rdbms  # noqa: F401  (the indexer: loaded before the fork)
from roundup.cgi import client, templating
from roundup.cgi.TranslationService import NullTranslationService
from roundup.cgi.wsgi_handler import RequestDispatcher

from webarena.sites.gitlab.schema import define
from webarena.sites.gitlab.views import Views

TEMPLATES = Path(__file__).parent / "html"
SETTINGS: dict[str, Any] = {
    "TEMPLATES": str(TEMPLATES),
    "STATIC_FILES": str(TEMPLATES),
    "TEMPLATE_ENGINE": "jinja2",
    "INDEXER": "native",
    "RDBMS_BACKEND": "sqlite",
    "DEFAULT_TIMEZONE": "UTC",
    "PASSWORD_PBKDF2_DEFAULT_ROUNDS": 1000,
    "TRACKER_NAME": "coevo gitlab",  # names the cookie: roundup_session_coevogitlab
    "TRACKER_LANGUAGE": "en",
    "WEB_HTTP_AUTH": False,
    "WEB_ENABLE_REST": False,
    "WEB_ENABLE_XMLRPC": False,
    "WEB_DYNAMIC_COMPRESSION": False,
    "WEB_USE_BROWSER_LANGUAGE": False,
    "WEB_LOGIN_ATTEMPTS_MIN": 0,
    "WEB_MIGRATE_PASSWORDS": False,
    "WEB_USE_TOKENLESS_CSRF_PROTECTION": True,
    "MAIL_DOMAIN": "example.invalid",
    "MAIL_HOST": "localhost",
    "MAIL_DEBUG": "/dev/null",
}
log = logging.getLogger("webarena.sites.gitlab")


class Database(back_sqlite.Database):  # type: ignore[misc]
    """SQLite without waiting for the disk: a slot's state does not outlive a power cut anyway."""

    def sql_open_connection(self, dbname: str | None = None) -> tuple[Any, Any]:
        connection, cursor = super().sql_open_connection(dbname)
        cursor.execute("pragma synchronous=off")
        return connection, cursor


class Client(client.Client):  # type: ignore[misc]
    """Logs errors, where Roundup mails them."""

    def send_error_to_admin(self, subject: str, html: str, txt: str) -> None:
        log.error("%s: %s\n%s", self.path, subject, txt)

    def determine_language(self) -> None:
        self.language = "en"
        self.setTranslator(NullTranslationService())


class Tracker(instance.Tracker):  # type: ignore[misc]
    """A tracker without a home folder. `open` works once `use` has named the state and the URL."""

    def __init__(self) -> None:
        self.tracker_home = str(TEMPLATES.parent)
        self.optimize = 1
        self.libdir = ""
        self.actions: dict[str, Any] = {}
        self.cgi_actions: dict[str, Any] = {}
        self.templating_utils: dict[str, Any] = {}
        self.config = configuration.CoreConfig()
        for name, value in SETTINGS.items():
            self.config[name] = value
        self.config.detectors = configuration.UserConfig(None)
        self.Client = Client
        self.MailGW = None
        self.TemplatingUtils = Views
        self.templates = templating.get_loader(str(TEMPLATES), "jinja2")
        self.templates._env.auto_reload = False
        self.backend = SimpleNamespace(
            Class=back_sqlite.Class,
            FileClass=back_sqlite.FileClass,
            IssueClass=back_sqlite.IssueClass,
            Database=Database,
        )
        self.schema = compile("define(globals())", "<schema>", "exec")
        self.detectors: list[Any] = []
        self.db_open = 0

    def _exec(self, obj: Any, env: dict[str, Any]) -> dict[str, Any]:
        return dict(super()._exec(obj, env | {"define": define}))

    def use(self, state: Path, url: str) -> None:
        """The state's folder and the base URL, without a trailing slash, of this process."""
        self.config["DATABASE"] = str(state)
        self.config["TRACKER_WEB"] = f"{url}/"

    def warm(self) -> None:
        """Compiles all templates."""
        for path in TEMPLATES.glob("*.html"):
            self.templates._env.get_template(path.name)


class Application(RequestDispatcher):  # type: ignore[misc]
    """The WSGI application of a tracker."""

    def __init__(self, tracker: Tracker) -> None:
        self.home = tracker.tracker_home
        self.debug = self.timing = False
        self.feature_flags: dict[str, Any] = {}
        self.translator = NullTranslationService()
        self.tracker = tracker
