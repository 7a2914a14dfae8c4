"""Django's settings for the shop. They name no state: `app.bind` says where the database is, after the fork."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from webarena.sites.shopping.content import NOW, PIPELINE, STATUSES

TEMPLATES = Path(__file__).with_name("templates")
DATABASE = "shop.sqlite3"
"""Name of the one file of the state."""
MEDIA = "media"
"""Name of the state's folder of uploaded pictures; made by the first upload."""

OSCAR_APPS = (
    "analytics.apps.AnalyticsConfig",
    "checkout.apps.CheckoutConfig",
    "address.apps.AddressConfig",
    "shipping.apps.ShippingConfig",
    "catalogue.apps.CatalogueConfig",
    "catalogue.reviews.apps.CatalogueReviewsConfig",
    "communication.apps.CommunicationConfig",
    "partner.apps.PartnerConfig",
    "basket.apps.BasketConfig",
    "payment.apps.PaymentConfig",
    "offer.apps.OfferConfig",
    "order.apps.OrderConfig",
    "customer.apps.CustomerConfig",
    "search.apps.SearchConfig",
    "voucher.apps.VoucherConfig",
    "wishlists.apps.WishlistsConfig",
    "dashboard.apps.DashboardConfig",
    "dashboard.reports.apps.ReportsDashboardConfig",
    "dashboard.users.apps.UsersDashboardConfig",
    "dashboard.orders.apps.OrdersDashboardConfig",
    "dashboard.catalogue.apps.CatalogueDashboardConfig",
    "dashboard.offers.apps.OffersDashboardConfig",
    "dashboard.partners.apps.PartnersDashboardConfig",
    "dashboard.pages.apps.PagesDashboardConfig",
    "dashboard.ranges.apps.RangesDashboardConfig",
    "dashboard.reviews.apps.ReviewsDashboardConfig",
    "dashboard.vouchers.apps.VouchersDashboardConfig",
    "dashboard.communications.apps.CommunicationsDashboardConfig",
    "dashboard.shipping.apps.ShippingDashboardConfig",
)


class NoMigrations:
    """Tables are made straight from the models: seconds instead of a minute."""

    def __contains__(self, app: str) -> bool:
        return True

    def __getitem__(self, app: str) -> None:
        return None


def settings(site: str) -> dict[str, Any]:
    """The settings of the process that serves `site` ("shopping" or "shopping_admin"). Their cookies differ, because all
    ports of 127.0.0.1 share one cookie jar."""
    import oscar.defaults

    chosen = {name: value for name, value in vars(oscar.defaults).items() if name.isupper()}
    processors = "django.template.context_processors."
    chosen |= {
        "DEBUG": False,
        "SECRET_KEY": "of a shop whose every secret is written in its source",
        "ALLOWED_HOSTS": ["127.0.0.1", "localhost"],
        "ROOT_URLCONF": "webarena.sites.shopping.urls",
        "SITE_ID": 1,
        "DATABASES": {
            "default": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": ":memory:",
                "CONN_MAX_AGE": None,
                "OPTIONS": {
                    "timeout": 20,
                    "transaction_mode": "IMMEDIATE",
                    # One file between requests, safe against a killed process; a lost machine loses no more than a copy.
                    "init_command": "PRAGMA journal_mode=TRUNCATE; PRAGMA synchronous=OFF; PRAGMA cache_size=-8000",
                },
            }
        },
        "DEFAULT_AUTO_FIELD": "django.db.models.AutoField",
        "MIGRATION_MODULES": NoMigrations(),
        "INSTALLED_APPS": [
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.sessions",
            "django.contrib.sites",
            "django.contrib.messages",
            "django.contrib.staticfiles",
            "django.contrib.flatpages",
            "oscar.config.Shop",
            *(f"oscar.apps.{app}" for app in OSCAR_APPS),
            "widget_tweaks",
            "haystack",
            "treebeard",
            "django_tables2",
        ],
        "MIDDLEWARE": [
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.common.CommonMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
            "oscar.apps.basket.middleware.BasketMiddleware",
            "django.contrib.flatpages.middleware.FlatpageFallbackMiddleware",
            "webarena.sites.shopping.overrides.LinksDoNotWrite",
        ],
        "TEMPLATES": [
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "DIRS": [TEMPLATES],
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        processors + "request",
                        processors + "i18n",
                        "django.contrib.auth.context_processors.auth",
                        "django.contrib.messages.context_processors.messages",
                        "oscar.apps.search.context_processors.search_form",
                        "oscar.apps.checkout.context_processors.checkout",
                        "oscar.apps.communication.notifications.context_processors.notifications",
                        "oscar.core.context_processors.metadata",
                        "webarena.sites.shopping.overrides.pages",
                    ]
                },
            }
        ],
        "AUTHENTICATION_BACKENDS": ["oscar.apps.customer.auth_backends.EmailBackend"],
        "PASSWORD_HASHERS": ["django.contrib.auth.hashers.MD5PasswordHasher"],
        "SESSION_ENGINE": "django.contrib.sessions.backends.signed_cookies",
        "SESSION_COOKIE_NAME": f"coevo_{site}_session",
        "SESSION_COOKIE_AGE": 10 * 365 * 86_400,
        "MESSAGE_STORAGE": "django.contrib.messages.storage.session.SessionStorage",
        "CSRF_COOKIE_NAME": f"coevo_{site}_csrf",
        "LANGUAGE_COOKIE_NAME": f"coevo_{site}_language",
        "LOGIN_REDIRECT_URL": "/",
        "LOGIN_URL": "/dashboard/login/" if site == "shopping_admin" else "/accounts/login/",
        "CACHES": {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}},
        "EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend",
        "STATIC_URL": "/static/",
        "MEDIA_URL": "/media/",
        "MEDIA_ROOT": "",
        "LANGUAGE_CODE": "en-us",
        "LANGUAGES": [("en-us", "English")],
        "USE_I18N": True,
        "USE_TZ": True,
        "TIME_ZONE": "UTC",
        "LOGGING_CONFIG": None,
        "SILENCED_SYSTEM_CHECKS": ["fields.W342"],
        "HAYSTACK_CONNECTIONS": {"default": {"ENGINE": "webarena.sites.shopping.search.Engine"}},
        "HAYSTACK_SIGNAL_PROCESSOR": "haystack.signals.BaseSignalProcessor",
        "OSCAR_DYNAMIC_CLASS_LOADER": "webarena.sites.shopping.overrides.load_classes",
        "OSCAR_SHOP_NAME": "Lanternhouse",
        "OSCAR_SHOP_TAGLINE": "",
        "OSCAR_THUMBNAILER": "webarena.sites.shopping.overrides.Thumbnailer",
        "OSCAR_DEFAULT_CURRENCY": "USD",
        "OSCAR_PRODUCTS_PER_PAGE": 12,
        "OSCAR_DASHBOARD_ITEMS_PER_PAGE": 12,
        "OSCAR_SEARCH_FACETS": _facets(oscar.defaults.OSCAR_SEARCH_FACETS),
        "OSCAR_BASKET_COOKIE_OPEN": f"coevo_{site}_basket",
        "OSCAR_RECENTLY_VIEWED_COOKIE_NAME": f"coevo_{site}_history",
        "OSCAR_COOKIES_DELETE_ON_LOGOUT": [f"coevo_{site}_history"],
        "OSCAR_ALLOW_ANON_REVIEWS": False,
        "OSCAR_MODERATE_REVIEWS": False,
        "OSCAR_SEND_REGISTRATION_EMAIL": False,
        "OSCAR_SAVE_SENT_EMAILS_TO_DB": False,
        "OSCAR_INITIAL_ORDER_STATUS": STATUSES[0],
        "OSCAR_INITIAL_LINE_STATUS": STATUSES[0],
        "OSCAR_ORDER_STATUS_PIPELINE": PIPELINE,
        "OSCAR_LINE_STATUS_PIPELINE": PIPELINE,
        "OSCAR_ORDER_STATUS_CASCADE": {status: status for status in STATUSES},
        "CONTENT_DATE": NOW,
    }
    return chosen


def _facets(default: dict[str, Any]) -> dict[str, Any]:
    """Oscar's filters, with ranges that fit our prices."""
    prices = default["queries"]["price_range"] | {
        "queries": [
            ("0 to 20", "[0 TO 20]"),
            ("20 to 50", "[20 TO 50]"),
            ("50 to 100", "[50 TO 100]"),
            ("100+", "[100 TO *]"),
        ]
    }
    return default | {"queries": {"price_range": prices}}
