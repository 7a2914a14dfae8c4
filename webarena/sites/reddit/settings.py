"""Django settings of the forum. The database's path and the site's URL are set by `app.serve` and `build.build`."""

from __future__ import annotations

from pathlib import Path

DEBUG = False
SECRET_KEY = (
    "local-arena-forum"  # nothing to protect: the site serves one machine, with accounts that everybody knows
)
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "webarena.sites.reddit.urls"

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "spirit.core",
    "spirit.admin",
    "spirit.search",
    "spirit.user",
    "spirit.user.admin",
    "spirit.user.auth",
    "spirit.category",
    "spirit.category.admin",
    "spirit.topic",
    "spirit.topic.admin",
    "spirit.topic.favorite",
    "spirit.topic.moderate",
    "spirit.topic.notification",
    "spirit.topic.private",
    "spirit.topic.unread",
    "spirit.comment",
    "spirit.comment.bookmark",
    "spirit.comment.flag",
    "spirit.comment.flag.admin",
    "spirit.comment.history",
    "spirit.comment.like",
    "spirit.comment.poll",
    "djconfig",
    "haystack",
]

# Without Spirit's LastIP and LastSeen: they write to the database on every page view.
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "spirit.user.middleware.TimezoneMiddleware",
    "spirit.user.middleware.ActiveUserMiddleware",
    "djconfig.middleware.DjConfigMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [Path(__file__).parent / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.contrib.auth.context_processors.auth",
                "django.template.context_processors.static",
                "django.template.context_processors.request",
                "django.contrib.messages.context_processors.messages",
                "djconfig.context_processors.config",
            ]
        },
    }
]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": "",
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            # A state is thrown away after a crash, so it need not survive one.
            "init_command": "PRAGMA synchronous=OFF; PRAGMA journal_mode=MEMORY;",
        },
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"

CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "st_rate_limit": {"BACKEND": "django.core.cache.backends.dummy.DummyCache", "TIMEOUT": None},
}

# The session is in a signed cookie, so a login outlives a restored database and holds on every copy of the site.
SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
SESSION_COOKIE_NAME = "coevo_reddit_session"
SESSION_COOKIE_AGE = 10 * 365 * 24 * 3600
CSRF_COOKIE_NAME = "coevo_reddit_csrf"
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"

AUTHENTICATION_BACKENDS = ["spirit.user.auth.backends.UsernameAuthBackend"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
LOGIN_URL = "spirit:user:auth:login"
LOGIN_REDIRECT_URL = "spirit:index"
LOGOUT_REDIRECT_URL = "spirit:index"

HAYSTACK_CONNECTIONS = {"default": {"ENGINE": "webarena.sites.reddit.search.DatabaseEngine"}}

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True
DATETIME_FORMAT = "j F Y, H:i"
STATIC_URL = "/static/"
MEDIA_URL = "/media/"
EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
LOGGING_CONFIG = None

ST_SITE_URL = "http://127.0.0.1/"
ST_RATELIMIT_ENABLE = False
ST_RATELIMIT_CACHE = "st_rate_limit"
ST_UPLOAD_IMAGE_ENABLED = False
ST_DOUBLE_POST_THRESHOLD_MINUTES = 0
