"""Writes the encyclopaedia as a ZIM file with a full-text index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from webarena.sites.wikipedia.articles import BOOK, MAIN, Article, articles, path_of
from webarena.sites.wikipedia.content import world


def write_zim(folder: Path, seed: int) -> Path:
    """The file `wikipedia.zim` in `folder`, with every article of the seed's world."""
    from libzim.writer import Creator, Hint, Item, StringProvider

    class Page(Item):  # type: ignore[misc]  # libzim has no types
        def __init__(self, article: Article) -> None:
            super().__init__()
            self.article = article

        def get_path(self) -> str:
            return self.article.path

        def get_title(self) -> str:
            return self.article.title

        def get_mimetype(self) -> str:
            return "text/html"

        def get_contentprovider(self) -> Any:
            return StringProvider(self.article.html)

        def get_hints(self) -> dict[Any, int]:
            return {Hint.FRONT_ARTICLE: 1, Hint.COMPRESS: 1}

    facts = world(seed)
    file = folder / f"{BOOK}.zim"
    creator = Creator(str(file))
    creator.config_indexing(True, "eng")
    creator.set_mainpath(path_of(MAIN))
    with creator:
        for article in articles(facts):
            creator.add_item(Page(article))
        for name, value in {
            "Name": BOOK,
            "Title": "Encyclopaedia",
            "Description": f"The encyclopaedia of {facts.country}",
            "Language": "eng",
            "Creator": "coevo",
            "Publisher": "coevo",
            "Date": "2024-01-01",
        }.items():
            creator.add_metadata(name, value)
    return file
