"""Pictures of products, drawn from their names: no files to keep, copy or fetch."""

from __future__ import annotations

from functools import lru_cache

from webarena.sites.shopping.content import slugify

TONES = {
    "slate-grey": "#6b7683",
    "forest-green": "#2f6b45",
    "ivory": "#efe6cf",
    "mustard": "#d3a22b",
    "navy": "#22365f",
    "terracotta": "#c4613c",
    "charcoal": "#3b3b3f",
    "sky-blue": "#7fb7dd",
    "plum": "#6d3560",
    "sand": "#d9c39a",
}

SHAPES = {
    "pot": '<path d="M50 70h90l-12 75H62z"/><path d="M140 85q35 5 18 40l-14-6q10-18-6-22z"/><rect x="70" y="55" width="50" height="12" rx="6"/>',
    "long": '<path d="M30 150L140 40l22 22L52 172z"/><circle cx="158" cy="44" r="16"/>',
    "round": '<circle cx="100" cy="100" r="62"/><circle cx="100" cy="100" r="40" fill="#fff" fill-opacity=".35"/>',
    "lamp": '<path d="M70 40h60l24 60H46z"/><rect x="94" y="100" width="12" height="50"/><rect x="66" y="150" width="68" height="12" rx="6"/>',
    "square": '<rect x="45" y="50" width="110" height="105" rx="10"/><rect x="60" y="66" width="80" height="10" rx="5" fill="#fff" fill-opacity=".4"/>',
    "peak": '<path d="M100 40L175 155H25z"/><path d="M100 80l30 75H70z" fill="#fff" fill-opacity=".35"/>',
}


def picture_name(shape: str, colour: str) -> str:
    """Path below the media root, for the product's image field."""
    return f"drawn/{shape}_{slugify(colour)}.svg"


@lru_cache(maxsize=128)
def draw(name: str) -> str | None:
    """The SVG for the stem of a picture's file name ("pot_navy"), or None if there is no such shape or colour."""
    shape, _, tone = name.partition("_")
    if shape not in SHAPES or tone not in TONES:
        return None
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 200" width="155" height="155">'
        f'<rect width="200" height="200" fill="#f4f4f2"/><g fill="{TONES[tone]}">{SHAPES[shape]}</g></svg>'
    )
