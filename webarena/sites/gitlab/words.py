"""Word lists of the invented software company: its products, people, and what goes wrong with them."""

from __future__ import annotations

COMPANY = "Larkfield"

PRODUCTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "Ferrule": (
        "Build tool",
        "Builds large source trees on many machines and never does the same work twice.",
        (
            "dependency resolver",
            "build cache",
            "task graph",
            "config loader",
            "artifact packer",
            "watch mode",
            "plugin loader",
            "progress bar",
        ),
    ),
    "Marlin": (
        "Message queue",
        "Carries messages between services and keeps them until somebody has read them.",
        (
            "consumer group",
            "dead-letter queue",
            "retry scheduler",
            "broker handshake",
            "offset store",
            "topic browser",
            "compression codec",
            "rate limiter",
        ),
    ),
    "Oriel": (
        "Design system",
        "Buttons, dialogs and tables that every Larkfield product shares.",
        (
            "date picker",
            "modal dialog",
            "dropdown menu",
            "colour palette",
            "icon set",
            "data grid",
            "tooltip",
            "breadcrumb trail",
        ),
    ),
    "Cinder": (
        "Log viewer",
        "Reads logs as they are written and finds the line that matters.",
        (
            "live tail",
            "saved filter",
            "timeline",
            "log parser",
            "alert rule",
            "column layout",
            "archive export",
            "retention job",
        ),
    ),
    "Tansy": (
        "Field notes",
        "A notebook for people who work outdoors and often without a signal.",
        (
            "photo upload",
            "offline sync",
            "map layer",
            "note editor",
            "voice memo",
            "share sheet",
            "tag picker",
            "nightly backup",
        ),
    ),
    "Lodestar": (
        "Route planner",
        "Finds the way by road, rail and ferry, and says when to leave.",
        (
            "geocoder",
            "route cache",
            "turn list",
            "traffic feed",
            "tile server",
            "ferry timetable",
            "elevation profile",
            "stop editor",
        ),
    ),
    "Quire": (
        "Document editor",
        "Long documents, written by several people at once.",
        (
            "footnote panel",
            "table of contents",
            "spell checker",
            "change tracker",
            "page break",
            "comment thread",
            "template gallery",
            "PDF renderer",
        ),
    ),
    "Gantry": (
        "Deployment console",
        "Brings new versions to production step by step, and back again.",
        (
            "rollout plan",
            "health check",
            "secret store",
            "environment page",
            "approval step",
            "audit trail",
            "rollback button",
            "node list",
        ),
    ),
    "Sorrel": (
        "Shop checkout",
        "Everything between a full basket and a paid order.",
        (
            "coupon field",
            "address form",
            "payment callback",
            "tax table",
            "order summary",
            "gift card",
            "refund job",
            "stock check",
        ),
    ),
    "Beacon": (
        "Identity service",
        "One account for all products, with roles and second factors.",
        (
            "password reset",
            "login form",
            "session store",
            "invitation mail",
            "two-factor prompt",
            "role editor",
            "token endpoint",
            "account page",
        ),
    ),
    "Halyard": (
        "Data pipeline",
        "Moves tables between warehouses and checks them on the way.",
        (
            "CSV importer",
            "schema check",
            "join step",
            "backfill job",
            "partition planner",
            "null handler",
            "run history",
            "sampling step",
        ),
    ),
    "Wicket": (
        "Support desk",
        "Tickets, replies and the people who wait for them.",
        (
            "ticket list",
            "canned reply",
            "queue view",
            "response timer",
            "customer card",
            "mail gateway",
            "merge wizard",
            "satisfaction survey",
        ),
    ),
    "Plover": (
        "Calendar",
        "Appointments, rooms and time zones for whole companies.",
        (
            "recurring event",
            "time zone menu",
            "reminder",
            "availability view",
            "guest list",
            "week view",
            "room finder",
            "agenda printer",
        ),
    ),
    "Kestrel": (
        "Monitoring agent",
        "A small program on every server that reports how the server is.",
        (
            "disk probe",
            "heartbeat",
            "metric buffer",
            "service discovery",
            "threshold editor",
            "certificate probe",
            "installer",
            "process table",
        ),
    ),
}

FIRST_NAMES = (
    *("Agnes", "Boris", "Carmen", "Dmitri", "Elif", "Farid", "Greta", "Hassan", "Ingrid", "Jonas"),
    *("Kaori", "Lucia", "Marek", "Nadia", "Oskar", "Paloma", "Quentin", "Renata", "Samir", "Thea"),
    *("Umberto", "Viola", "Wanda", "Xenia", "Yusuf", "Zelda", "Anselm", "Brigid", "Cosima", "Dario"),
    *("Esther", "Florin", "Gideon", "Helga"),
)
LAST_NAMES = (
    *("Abadi", "Bergstrom", "Castellan", "Dunmore", "Eriksen", "Fontaine", "Gruber", "Halloran"),
    *("Ivanov", "Jansen", "Kowal", "Lindgren", "Moretti", "Novak", "Okafor", "Pereira", "Quispe"),
    *("Rahimi", "Santoro", "Takeda", "Ulrich", "Varga", "Weston", "Yilmaz", "Zeman", "Ashdown"),
    *("Brandvold", "Corrigan", "Delacroix", "Engstrom", "Fairweather", "Galanis", "Hartnell", "Iversen"),
)
POSITIONS = (
    "Backend engineer",
    "Frontend engineer",
    "Product designer",
    "Site reliability engineer",
    "Quality engineer",
    "Technical writer",
    "Support engineer",
    "Data engineer",
    "Engineering manager",
    "Product manager",
)
LOCATIONS = ("Bergen", "Porto", "Gdansk", "Leeds", "Graz", "Tartu", "Lyon", "Utrecht")

LABELS: dict[str, str] = {
    "bug": "Something does not do what it should",
    "feature": "Something new",
    "documentation": "Manuals, guides and help texts",
    "maintenance": "Work that nobody outside will notice",
    "accessibility": "Keyboard, screen reader, contrast",
    "customer report": "Reported by a paying customer",
    "good first issue": "Small and well described",
    "needs design": "Waits for a drawing",
    "needs info": "Waits for an answer of the reporter",
    "performance": "Too slow or too big",
    "regression": "Worked in an earlier release",
    "release blocker": "No release before this is done",
    "security": "Somebody could misuse it",
    "translation": "Words in other languages",
}
EXTRA_LABELS: dict[str, tuple[str, ...]] = {
    "bug": (
        "customer report",
        "regression",
        "needs info",
        "release blocker",
        "security",
        "performance",
        "translation",
    ),
    "feature": ("needs design", "accessibility", "customer report", "good first issue", "translation"),
    "documentation": ("good first issue", "translation", "customer report"),
    "maintenance": ("performance", "good first issue", "security", "release blocker"),
}

FAULTS = (
    "loses its state",
    "shows stale values",
    "crashes",
    "freezes for a minute",
    "ignores the chosen language",
    "stays empty",
    "rejects valid input",
    "reports the same error twice",
    "leaks memory",
    "times out",
    "duplicates entries",
    "sorts in the wrong order",
    "forgets the last choice",
    "stops halfway",
    "cannot be cancelled",
    "shows a blank screen",
    "counts one too many",
    "sends everything again",
)
OCCASIONS = (
    "after an upgrade",
    "on slow connections",
    "when two people work at once",
    "with more than 500 entries",
    "on the first of the month",
    "after the laptop wakes up",
    "for read-only users",
    "when a name contains an umlaut",
    "behind a proxy",
    "in private windows",
    "when the disk is nearly full",
    "with an empty configuration",
    "during a restart",
    "when summer time begins",
    "on small screens",
    "after pressing Escape",
    "with the archived data set",
    "right after midnight",
)
WISHES = (
    "Add keyboard shortcuts to the {c}",
    "Let people pin the {c}",
    "Export the {c} as a spreadsheet",
    "Remember the size of the {c}",
    "Offer a dark variant of the {c}",
    "Undo for the {c}",
    "Show who last changed the {c}",
    "Bulk actions in the {c}",
    "Search inside the {c}",
    "Preview before saving in the {c}",
    "Notify watchers about changes of the {c}",
    "Copy settings of the {c} between environments",
)
PAPERS = (
    "Document the limits of the {c}",
    "Screenshots of the {c} are out of date",
    "Explain how the {c} is configured",
    "Write a troubleshooting page for the {c}",
    "Translate the help text of the {c}",
    "Describe the permissions of the {c}",
)
CHORES = (
    "Split the {c} into smaller modules",
    "Raise the test coverage of the {c}",
    "Remove the deprecated options of the {c}",
    "Replace the hand-written parser of the {c}",
    "Measure how long the {c} takes to start",
    "Move the {c} to the new storage layer",
    "Drop the old wire format of the {c}",
)

BUG_OPENINGS = (
    "Seen in version {v} on {e}.",
    "A colleague in {city} ran into this with version {v}.",
    "Since version {v} this happens about {n} times a day.",
    "Found while testing version {v} on {e}.",
)
BUG_BODIES = (
    "The {c} {fault} {occasion}. Starting again helps for a while, then it comes back.",
    "To reproduce: open the {c}, wait {n} minutes, and watch. It {fault} {occasion}.",
    "Expected: the {c} keeps working. What happens: it {fault} {occasion}.",
    "It is always the {c} that {fault}, and only {occasion}. Other parts are fine.",
)
BUG_ENDINGS = (
    "The log has nothing about it.",
    "There is a workaround: switch the {c} off and on again.",
    "About {n} accounts are affected.",
    "It did not happen before.",
    "I can share a recording if that helps.",
)
WISH_BODIES = (
    "At least {n} people have asked for this. Today they do it by hand in another program.",
    "The {c} is used every day, and this would save a few minutes each time.",
    "Our competitors have it. A first step without settings would be enough for version {v}.",
    "This came up in the review in {city}. A small version is better than none.",
)
PAPER_BODIES = (
    "New colleagues ask about the {c} every month, and the manual has only {n} lines on it.",
    "The page on the {c} still describes version {v}.",
    "The office in {city} wrote a page of its own, which should become part of the manual.",
)
CHORE_BODIES = (
    "The code of the {c} has grown to {n}00 lines in one file. Nobody dares to touch it.",
    "It costs us about {n} hours a month, so it should be done before version {v}.",
    "Left over from the move of last year. No change is visible from outside.",
)
SYSTEMS = ("Debian 12", "Windows 11", "macOS 14", "Ubuntu 22.04", "Android 13", "Fedora 39")

COMMENTS = (
    "I can reproduce this on {e}.",
    "I could not reproduce this with version {v}. Which settings do you use?",
    "Looks related to the {c} changes of last month.",
    "{who}, could you take a look at this?",
    "Waiting for an answer from {who} before I go on.",
    "Raised this with the team in {city}; they see it too.",
    "A first patch is ready. It needs about {n} more tests.",
    "The patch made the {c} slower by {n} percent, so I took it back.",
    "Tested on {e} with version {v}: works for me now.",
    "This was discussed in the weekly meeting. We want it, but not before version {v}.",
    "Another customer asked about this today, that makes {n}.",
    "Please attach the output of the diagnosis command.",
    "Here are the numbers: {n} of 200 runs failed.",
    "The cause is in the {c}, it keeps a copy that nobody refreshes.",
    "I think the priority should be looked at again.",
    "Moved to the next milestone because {who} is away until Monday.",
    "Thanks {who}, that explains it.",
    "Half of this is done, the other half waits for a decision on the {c}.",
    "The wording is fine with me. One typo in the second paragraph.",
    "Reviewed. Two small remarks, then it can go in.",
    "It still fails on {e}, but only every {n}th time.",
    "We should write a test for the {c} first.",
    "Done on my branch, {who} wants to review it on Thursday.",
    "Nobody has touched this for {n} weeks. Is it still wanted?",
)
CLOSING: dict[str, tuple[str, ...]] = {
    "Done": (
        "Merged, will be part of version {v}.",
        "Released with version {v}, closing.",
        "Verified on {e}, closing.",
    ),
    "Duplicate": ("We have this already, see the other issue.", "Same cause as the issue linked above."),
    "Declined": (
        "We will not do this, the {c} is going to be replaced.",
        "Not enough people need this.",
        "Works as designed, closing.",
    ),
}
