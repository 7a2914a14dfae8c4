"""Word lists of the invented shop. All brands, people and places are made up."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Shelf:
    """A category below a department: what its products are called, made of, and cost (dollars, low to high)."""

    name: str
    noun: str
    materials: tuple[str, ...]
    sizes: tuple[str, ...]
    price: tuple[int, int]
    grams: tuple[int, int]
    shape: str
    uses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Department:
    """A top category. `kind` is the product type of everything in it."""

    name: str
    kind: str
    about: str
    shelves: tuple[Shelf, ...]


DEPARTMENTS = (
    Department(
        "Kitchen",
        "Kitchenware",
        "Things to cook with and eat from.",
        (
            Shelf(
                "Kettles and Teapots",
                "Teapot",
                ("stoneware", "cast iron", "copper", "glass"),
                ("0.6 litres", "0.9 litres", "1.2 litres"),
                (24, 90),
                (500, 1900),
                "pot",
                ("slow afternoons", "a table of four", "loose leaf tea", "small kitchens"),
            ),
            Shelf(
                "Knives",
                "Chef Knife",
                ("carbon steel", "stainless steel", "folded steel"),
                ("15 cm", "18 cm", "20 cm", "24 cm"),
                (35, 160),
                (120, 320),
                "long",
                ("fine chopping", "bread and roasts", "vegetables", "daily prep"),
            ),
            Shelf(
                "Cookware",
                "Saucepan",
                ("copper", "enamelled steel", "cast iron", "aluminium"),
                ("1.5 litres", "2 litres", "3.5 litres"),
                (29, 140),
                (800, 3200),
                "pot",
                ("soups", "caramel and sauces", "induction hobs", "Sunday stews"),
            ),
            Shelf(
                "Tableware",
                "Dinner Plate Set",
                ("porcelain", "stoneware", "bamboo"),
                ("4 pieces", "6 pieces", "8 pieces"),
                (19, 95),
                (900, 3600),
                "round",
                ("everyday meals", "garden parties", "the dishwasher", "stacking neatly"),
            ),
        ),
    ),
    Department(
        "Living",
        "Homeware",
        "Light, comfort and order for every room.",
        (
            Shelf(
                "Lamps",
                "Desk Lamp",
                ("brass", "oak", "powder-coated steel", "linen"),
                ("32 cm", "45 cm", "60 cm"),
                (28, 150),
                (700, 2900),
                "lamp",
                ("late reading", "bright desks", "bedside tables", "dark corners"),
            ),
            Shelf(
                "Cushions",
                "Cushion",
                ("linen", "wool", "velvet", "organic cotton"),
                ("40 x 40 cm", "45 x 45 cm", "50 x 30 cm"),
                (12, 58),
                (250, 800),
                "square",
                ("deep sofas", "window seats", "reading chairs", "the guest room"),
            ),
            Shelf(
                "Clocks",
                "Wall Clock",
                ("walnut", "birch", "brushed steel", "recycled plastic"),
                ("25 cm", "30 cm", "38 cm"),
                (22, 110),
                (400, 1800),
                "round",
                ("the hallway", "quiet bedrooms", "kitchens", "offices"),
            ),
            Shelf(
                "Storage",
                "Storage Basket",
                ("seagrass", "felt", "willow", "recycled paper"),
                ("small", "medium", "large"),
                (14, 70),
                (300, 1500),
                "square",
                ("blankets", "toys", "firewood", "narrow shelves"),
            ),
        ),
    ),
    Department(
        "Garden",
        "Garden goods",
        "For beds, balconies and the birds.",
        (
            Shelf(
                "Planters",
                "Planter",
                ("terracotta", "fibre clay", "zinc", "cedar"),
                ("20 cm", "30 cm", "45 cm"),
                (13, 88),
                (900, 7200),
                "pot",
                ("herbs", "tall grasses", "balconies", "winter frost"),
            ),
            Shelf(
                "Hand Tools",
                "Garden Trowel",
                ("forged steel", "stainless steel", "ash and steel"),
                ("28 cm", "32 cm", "36 cm"),
                (11, 46),
                (200, 700),
                "long",
                ("heavy soil", "bulbs", "small hands", "raised beds"),
            ),
            Shelf(
                "Bird Care",
                "Bird Feeder",
                ("larch", "powder-coated steel", "recycled plastic"),
                ("1 port", "2 ports", "4 ports"),
                (15, 64),
                (350, 1600),
                "lamp",
                ("finches", "sunflower seed", "cold mornings", "keeping squirrels away"),
            ),
            Shelf(
                "Watering",
                "Watering Can",
                ("galvanised steel", "copper", "recycled plastic"),
                ("2 litres", "5 litres", "9 litres"),
                (16, 74),
                (400, 2100),
                "pot",
                ("seedlings", "greenhouses", "long borders", "house plants"),
            ),
        ),
    ),
    Department(
        "Outdoors",
        "Outdoor gear",
        "Made for hills, huts and wet weekends.",
        (
            Shelf(
                "Tents",
                "Tent",
                ("ripstop nylon", "polyester", "polycotton"),
                ("1 person", "2 persons", "4 persons"),
                (110, 480),
                (1100, 6800),
                "peak",
                ("windy ridges", "long treks", "family camps", "light packing"),
            ),
            Shelf(
                "Backpacks",
                "Backpack",
                ("waxed canvas", "recycled nylon", "polyester"),
                ("18 litres", "28 litres", "45 litres"),
                (45, 210),
                (500, 1900),
                "square",
                ("day walks", "commuting", "weekend trips", "climbing gear"),
            ),
            Shelf(
                "Sleeping Bags",
                "Sleeping Bag",
                ("down", "synthetic fibre", "merino wool"),
                ("regular", "long", "wide"),
                (70, 330),
                (600, 2200),
                "long",
                ("three seasons", "cold huts", "summer nights", "small packs"),
            ),
            Shelf(
                "Camp Stoves",
                "Camp Stove",
                ("titanium", "aluminium", "stainless steel"),
                ("1 burner", "2 burners"),
                (32, 150),
                (90, 1400),
                "lamp",
                ("quick coffee", "melting snow", "group meals", "windy spots"),
            ),
        ),
    ),
    Department(
        "Stationery",
        "Paper goods",
        "Paper, ink and tidy desks.",
        (
            Shelf(
                "Notebooks",
                "Notebook",
                ("recycled paper", "cotton paper", "stone paper"),
                ("A4", "A5", "A6"),
                (6, 34),
                (120, 560),
                "square",
                ("fountain pens", "field notes", "sketches", "meeting minutes"),
            ),
            Shelf(
                "Pens",
                "Fountain Pen",
                ("resin", "brass", "walnut", "aluminium"),
                ("extra fine", "fine", "medium", "broad"),
                (18, 140),
                (15, 48),
                "long",
                ("long letters", "left-handed writers", "daily journals", "signatures"),
            ),
            Shelf(
                "Desk Organisers",
                "Desk Organiser",
                ("beech", "cork", "felt", "powder-coated steel"),
                ("3 compartments", "5 compartments", "7 compartments"),
                (15, 72),
                (300, 1700),
                "square",
                ("cables", "pens and scissors", "small desks", "post"),
            ),
        ),
    ),
    Department(
        "Games",
        "Games and toys",
        "For rainy days and long tables.",
        (
            Shelf(
                "Board Games",
                "Board Game",
                ("cardboard", "wood and cardboard", "recycled board"),
                ("2 players", "2-4 players", "3-6 players"),
                (18, 75),
                (600, 2400),
                "square",
                ("quick rounds", "families", "strategists", "two players"),
            ),
            Shelf(
                "Puzzles",
                "Jigsaw Puzzle",
                ("recycled board", "birch plywood", "cork"),
                ("300 pieces", "500 pieces", "1000 pieces"),
                (12, 58),
                (400, 1300),
                "square",
                ("winter evenings", "patient hands", "children", "collectors"),
            ),
            Shelf(
                "Wooden Toys",
                "Wooden Train",
                ("beech", "maple", "birch plywood"),
                ("3 parts", "5 parts", "9 parts"),
                (14, 66),
                (250, 1500),
                "long",
                ("toddlers", "small rooms", "building tracks", "presents"),
            ),
        ),
    ),
    Department(
        "Clothing",
        "Apparel",
        "Warm, plain and made to last.",
        (
            Shelf(
                "Scarves",
                "Scarf",
                ("merino wool", "alpaca", "linen", "organic cotton"),
                ("160 cm", "180 cm", "200 cm"),
                (22, 98),
                (90, 340),
                "long",
                ("frosty walks", "layering", "travel", "spring evenings"),
            ),
            Shelf(
                "Gloves",
                "Mitten Pair",
                ("leather", "merino wool", "fleece"),
                ("S", "M", "L", "XL"),
                (16, 84),
                (60, 210),
                "square",
                ("cycling", "touch screens", "gardening", "snow"),
            ),
            Shelf(
                "Hats",
                "Beanie",
                ("merino wool", "alpaca", "recycled wool"),
                ("one size", "S", "M"),
                (14, 56),
                (50, 140),
                "round",
                ("running", "windy coasts", "every day", "skiing"),
            ),
        ),
    ),
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
