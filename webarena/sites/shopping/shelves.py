"""What the invented shop sells: departments, their shelves, and what a product of each can be."""

from __future__ import annotations

from dataclasses import dataclass


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
