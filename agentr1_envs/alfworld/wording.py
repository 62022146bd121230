"""What is known beforehand about ALFWorld's releases: hashes, and the wording of 0.4.

Domain and grammar themselves are not kept here. Releases 0.2 and 0.3 (and the game files
``json_2.1.1``) say ``put X in/on Y``, name locations on arrival and have no ``help``; 0.4 (and
``json_2.1.2``) says ``move X to Y``.
"""

from __future__ import annotations

from agentr1_envs.alfworld.grammar import Wording

# domain_hash(domain) -> whether it has the action "help"
KNOWN_DOMAINS: dict[str, bool] = {
    "b0b8259a4e11c9f45e91c181404bde4c2c936ad872fdc4d368c7e63094eaafac": False,  # 0.2, 0.3
    "915e118f4f32b4d826bf53c99e860dd85831afffb1a31ad333f063ce005b7122": True,  # 0.4
}

# parse_grammar(bare)[0] of the grammars that the state engine speaks
KNOWN_SKELETONS: frozenset[str] = frozenset(
    {
        "4b1de79f5eb7022777c3799d55619c70bb547c21d9e6cac2a8a4fc1125030d7e",  # 0.2, 0.3
        "c40267148593b1d3f4aa1d885dfda43f401b455c3bb92a9bea6f5188481d6bbe",  # 0.4, json_2.1.2
        # The same two with the other choice of what "You arrive at" names.
        "cc1b1429565d52644bea7cd44d45063f0db29a073a0381a2a44329fe4a1ac72a",
        "3288b853db98150653369f6ef88e0755f89d8210decd644fd17746a89fe28684",
    }
)

DEFAULT_WORDING = Wording(
    commands={
        "gotolocation": "go to %s",
        "openobject": "open %s",
        "closeobject": "close %s",
        "pickupobject": "take %s from %s",
        "putobject": "move %s to %s",
        "examinereceptacle": "examine %s",
        "examineobject": "examine %s",
        "toggleobject": "use %s",
        "heatobject": "heat %s with %s",
        "cleanobject": "clean %s with %s",
        "coolobject": "cool %s with %s",
        "sliceobject": "slice %s with %s",
        "inventory": "inventory",
        "look": "look",
        "help": "help",
    },
    say={
        "intro": ("-= Welcome to TextWorld, ALFRED! =-\n\n%s\n\n%s",),
        "GotoLocation.feedback": ("You arrive at %s. %s",),
        "OpenObject.feedback": ("You open the %s. %s",),
        "CloseObject.feedback": ("You close the %s.",),
        "PickupObject.feedback": ("You pick up the %s from the %s.",),
        "PutObject.feedback": ("You move the %s to the %s.",),
        "heatObject.feedback": ("You heat the %s using the %s.",),
        "cleanObject.feedback": ("You clean the %s using the %s.",),
        "coolObject.feedback": ("You cool the %s using the %s.",),
        "sliceObject.feedback": ("You sliced the %s with the %s.",),
        "toggleObject.feedback": (
            "You turn on the %s.",
            "You turn off the %s.",
            "You don't see any switch on the %s.",
        ),
        "inventory.feedback": ("You are carrying: %s.", "You are not carrying anything."),
        "examineReceptacle.feedback": (
            "The %s is open. In it, you see %s.",
            "The %s is closed.",
            "On the %s, you see %s.",
        ),
        "examineObject.feedback": (
            "This is a normal %s. In it, you see %s.",
            "This is a hot and clean sliced %s.",
            "This is a cool and clean sliced %s.",
            "This is a clean sliced %s.",
            "This is a hot sliced %s.",
            "This is a cool sliced %s.",
            "This is a hot and clean %s.",
            "This is a cool and clean %s.",
            "This is a hot %s.",
            "This is a clean %s.",
            "This is a cold %s.",
            "This %s is on.",
            "This %s is off.",
            "This is a sliced %s.",
            "There's nothing special about %s.",
        ),
        "look.feedback": (
            "%s. Next to it, you see %s.",
            "You are in the middle of a room. Looking quickly around you, you see %s.",
        ),
        "look-variations": ("You are facing the %s",),
        "list_objects_on_the_floor": ("%s", "nothing"),
        "list_appliances": ("%s", "nothing"),
        "overview(o)": ("%s %s",),
        "overview(r)": ("%s %s",),
        "list_empty": ("nothing",),
        "list_separator": (", ",),
        "list_last_separator": (", and ",),
        "help.feedback": (
            "Available commands:\n"
            "  look:                             look around your current location\n"
            "  inventory:                        check your current inventory\n"
            "  go to (receptacle):               move to a receptacle\n"
            "  open (receptacle):                open a receptacle\n"
            "  close (receptacle):               close a receptacle\n"
            "  take (object) from (receptacle):  take an object from a receptacle\n"
            "  move (object) to (receptacle):  place an object in or on a receptacle\n"
            "  examine (something):              examine a receptacle or an object\n"
            "  use (object):                     use an object\n"
            "  heat (object) with (receptacle):  heat an object using a receptacle\n"
            "  clean (object) with (receptacle): clean an object using a receptacle\n"
            "  cool (object) with (receptacle):  cool an object using a receptacle\n"
            "  slice (object) with (object):     slice an object using a sharp object\n",
        ),
    },
    arrive_names_location=False,
    has_help=True,
)
