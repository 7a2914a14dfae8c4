"""The forum's URLs: Spirit's at the root, and the pictures that members upload."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.urls import include, path
from django.views.static import serve


def media(request: HttpRequest, name: str) -> HttpResponseBase:
    """A file of the state's media folder, which is known only when the site serves."""
    response: HttpResponseBase = serve(request, name, document_root=settings.MEDIA_ROOT)
    return response


urlpatterns = [path("media/<path:name>", media), path("", include("spirit.urls"))]
