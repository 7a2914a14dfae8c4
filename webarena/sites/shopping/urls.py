"""Where the pages of the shop are. Imported once Django is set up."""

from __future__ import annotations

from django.apps import apps
from django.conf import settings
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.urls import include, path
from django.utils._os import safe_join
from django.views.i18n import set_language

from webarena.sites.shopping.pictures import draw


def picture(request: HttpRequest, name: str) -> HttpResponse:
    """A drawn picture of a product; its name says all there is to draw."""
    drawing = draw(name)
    if drawing is None:
        raise Http404
    return HttpResponse(drawing, content_type="image/svg+xml", headers={"Cache-Control": "max-age=86400"})


def media(request: HttpRequest, name: str) -> FileResponse:
    """An uploaded file."""
    try:
        return FileResponse(open(safe_join(settings.MEDIA_ROOT, name), "rb"))
    except OSError:
        raise Http404 from None


urlpatterns = [
    path("media/drawn/<str:name>.svg", picture),
    path("media/<path:name>", media),
    path("i18n/", include([path("setlang/", set_language, name="set_language")])),
    path("", include(apps.get_app_config("oscar").urls[0])),
]
