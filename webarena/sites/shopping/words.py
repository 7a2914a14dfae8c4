"""Word lists of the invented shop. All brands, people and places are made up."""

from __future__ import annotations

BRANDS = (
    "Tarnbeck",
    "Oskelby",
    "Fennimoor",
    "Quillhaven",
    "Brassgate",
    "Lumenholt",
    "Wexcombe",
    "Harrowfen",
    "Pellston",
    "Marlowick",
    "Dovetarn",
    "Thistlecar",
    "Ambergill",
    "Corvale",
    "Hollinsea",
    "Stavenby",
    "Ravenhythe",
    "Millcote",
)

MODELS = (
    "Heron",
    "Juniper",
    "Cobble",
    "Drift",
    "Ember",
    "Lark",
    "Meadow",
    "Northwind",
    "Otter",
    "Plover",
    "Quarry",
    "Rowan",
    "Sparrow",
    "Tide",
    "Umber",
    "Vesper",
    "Willow",
    "Yarrow",
    "Aster",
    "Bramble",
    "Cinder",
    "Dune",
    "Elder",
    "Fathom",
    "Gannet",
    "Hazel",
    "Isle",
    "Kestrel",
    "Linden",
    "Moss",
    "Nettle",
    "Osprey",
    "Pebble",
    "Rill",
    "Sorrel",
    "Thicket",
    "Viola",
    "Wren",
    "Aspen",
    "Beacon",
)

COLOURS = (
    "slate grey",
    "forest green",
    "ivory",
    "mustard",
    "navy",
    "terracotta",
    "charcoal",
    "sky blue",
    "plum",
    "sand",
)


FIRST_NAMES = (
    "Ada", "Bruno", "Clara", "Dmitri", "Elif", "Farid", "Greta", "Hugo", "Imani", "Jonas", "Katya", "Leon", "Maeve",
    "Nadia", "Oscar", "Priya", "Quentin", "Rosa", "Stellan", "Tamsin", "Ugo", "Vera", "Wendell", "Xenia", "Yusuf",
    "Zelda", "Anton", "Beatriz", "Cormac", "Delphine", "Edmund", "Freya", "Gideon", "Hana", "Ivo", "Junia",
)  # fmt: skip

LAST_NAMES = (
    "Abernale", "Birkholm", "Castrell", "Dunmarrow", "Estevan", "Fairlock", "Garrowby", "Hartnoll", "Ingleside",
    "Jessop", "Kirrane", "Lindqvist", "Mossgrove", "Nettleton", "Okonjo", "Pellard", "Quarles", "Rustamov",
    "Sandoval", "Thackeray", "Ullmann", "Vandermeer", "Whitlow", "Yardley", "Zamora", "Ashdown", "Brantner",
    "Colefax", "Drummore", "Ellingham",
)  # fmt: skip

STREETS = (
    "Mill Lane", "Harbour Street", "Orchard Road", "Foundry Way", "Lantern Row", "Chapel Hill", "Juniper Avenue",
    "Quarry Road", "Station Street", "Weaver Close", "Saltmarsh Drive", "Old Bridge Road",
)  # fmt: skip

CITIES = (
    ("Port Ellery", "Maine"), ("Cedar Hollow", "Oregon"), ("Brackwater", "Ohio"), ("New Tarn", "Vermont"),
    ("Sable Point", "Michigan"), ("Larkfield", "Iowa"), ("Dunmoor", "Kansas"), ("Ashby Falls", "Colorado"),
    ("Graycliff", "Montana"), ("Millhaven", "Georgia"),
)  # fmt: skip

COUNTRIES = (
    ("US", "USA", "840", "United States"),
    ("CA", "CAN", "124", "Canada"),
    ("DE", "DEU", "276", "Germany"),
    ("FR", "FRA", "250", "France"),
    ("GB", "GBR", "826", "United Kingdom"),
    ("IE", "IRL", "372", "Ireland"),
    ("NO", "NOR", "578", "Norway"),
)
"""(ISO code of two letters, of three letters, number, name); goods are sent to all of them."""

REVIEW_TITLES = {
    1: ("Broke within a week", "Sent it straight back", "Not what was pictured", "A waste of money"),
    2: ("Expected better", "Thin and flimsy", "Does not match the description", "Disappointing finish"),
    3: ("It does the job", "Fine but pricey", "Mixed feelings", "Good idea, average build"),
    4: ("Very nearly perfect", "Solid choice", "Happy with it", "Good value", "Would buy again"),
    5: (
        "My favourite by far",
        "Simply beautiful",
        "Exactly what I hoped for",
        "Worth every cent",
        "A joy to use",
    ),
}

REVIEW_BODIES = {
    1: (
        "The {noun} arrived scratched and the {material} cracked on the second day.",
        "I asked for {colour} and got something else, and support never answered.",
        "It smells odd, wobbles, and I would not give it to anybody.",
    ),
    2: (
        "The {material} feels cheaper than the price suggests, and the edges are rough.",
        "Too small for {use}; look at the size twice before you order.",
        "The colour faded after a month in the sun.",
    ),
    3: (
        "It works for {use}, but I have seen the same quality for less.",
        "Nice {colour}, though the {noun} is heavier than I thought.",
        "Delivery took long; the product itself is ordinary.",
    ),
    4: (
        "Great for {use}. One star off because the manual is hard to read.",
        "The {material} is lovely and it cleans easily; I only wish there were more colours.",
        "We use the {noun} nearly every day and it still looks new.",
    ),
    5: (
        "Bought it for {use} and could not be happier: the {material} is superb.",
        "The {colour} is even better than in the picture, and it was carefully packed.",
        "Third {noun} we have bought from this brand, and each one is a pleasure.",
    ),
}

OPENINGS = (
    "A {colour} {noun} made of {material}.",
    "This {noun} is shaped from {material} and comes in {colour}.",
    "{material}, finished in {colour}: a {noun} without fuss.",
)

MIDDLES = (
    "It was drawn with {use} in mind.",
    "People choose it for {use}.",
    "It earns its place when it comes to {use}.",
)

CLOSINGS = (
    "Wipe clean with a damp cloth.",
    "Spare parts are kept for ten years.",
    "Packed without plastic.",
    "Made in small batches, so each one differs a little.",
    "Comes with a two-year guarantee.",
)
