"""The words of questions: {x} is a noun phrase, {a} and {b} the two sides of a comparison."""

from __future__ import annotations

# How a question names an entity of a kind; other kinds by their bare name.
NAMED = {
    "film": "the film {n}",
    "novel": "the novel {n}",
    "album": "the album {n}",
    "painting": "the painting {n}",
    "expedition": "the {n}",
    "battle": "the {n}",
    "festival": "the {n}",
}

# The noun phrase for what a relation leads to.
OF: dict[tuple[str, str], list[str]] = {
    ("country", "capital"): ["the capital of {x}"],
    ("city", "country"): ["the country in which {x} lies"],
    ("city", "twin"): ["the twin town of {x}", "the town twinned with {x}"],
    ("person", "birthplace"): ["the birthplace of {x}", "the town where {x} was born"],
    ("person", "university"): [
        "the university attended by {x}",
        "the university where {x} studied",
    ],
    ("person", "spouse"): ["the spouse of {x}", "the person married to {x}"],
    ("person", "teacher"): ["the teacher of {x}", "the person who taught {x}"],
    ("person", "club"): ["the football club of {x}", "the club that {x} played for"],
    ("film", "director"): ["the director of {x}", "the person who directed {x}"],
    ("film", "actor"): ["the star of {x}", "the actor who plays the lead in {x}"],
    ("film", "composer"): ["the composer of {x}", "the person who wrote the music of {x}"],
    ("film", "studio"): ["the studio that made {x}", "the studio behind {x}"],
    ("film", "novel"): ["the novel adapted as {x}", "the novel on which {x} is based"],
    ("novel", "author"): ["the author of {x}", "the writer of {x}"],
    ("novel", "publisher"): ["the publisher of {x}", "the house that published {x}"],
    ("novel", "city"): ["the setting of {x}", "the town in which {x} is set"],
    ("album", "singer"): ["the singer of {x}", "the performer of {x}"],
    ("album", "label"): ["the label that issued {x}", "the record label behind {x}"],
    ("album", "city"): ["the town where {x} was recorded"],
    ("painting", "painter"): ["the painter of {x}", "the artist behind {x}"],
    ("painting", "museum"): ["the museum that owns {x}", "the museum where {x} hangs"],
    ("museum", "architect"): ["the architect of {x}", "the designer of {x}"],
    ("expedition", "leader"): ["the leader of {x}", "the person who led {x}"],
    ("expedition", "city"): ["the town from which {x} set out"],
    ("battle", "commander"): ["the victor of {x}", "the winning commander at {x}"],
    ("battle", "city"): ["the town nearest to {x}"],
    ("festival", "winner"): ["the winning film of {x}", "the film that won {x}"],
    ("festival", "president"): [
        "the head of the jury of {x}",
        "the person who chaired the jury of {x}",
    ],
    ("festival", "city"): ["the host city of {x}"],
}

QUESTIONS: dict[tuple[str, str], list[str]] = {
    ("country", "capital"): ["What is the capital of {x}?", "Which city is the capital of {x}?"],
    ("country", "language"): ["What is the official language of {x}?"],
    ("country", "currency"): ["What is the currency of {x}?", "Which currency is used in {x}?"],
    ("country", "year"): ["In what year did {x} become independent?"],
    ("city", "country"): ["In which country is {x}?", "In which country does {x} lie?"],
    ("city", "river"): ["On which river does {x} lie?", "Which river flows through {x}?"],
    ("city", "year"): ["In what year was {x} founded?"],
    ("city", "population"): ["What is the population of {x}?", "How many people live in {x}?"],
    ("city", "twin"): ["Which town is twinned with {x}?", "What is the twin town of {x}?"],
    ("person", "born"): ["In what year was {x} born?"],
    ("person", "birthplace"): ["Where was {x} born?", "In which town was {x} born?"],
    ("person", "university"): ["At which university did {x} study?", "Where was {x} educated?"],
    ("person", "spouse"): ["Who was married to {x}?", "Whom did {x} marry?"],
    ("person", "teacher"): ["Who taught {x}?", "Who was the teacher of {x}?"],
    ("person", "died"): ["In what year did {x} die?"],
    ("person", "club"): ["Which football club did {x} play for?"],
    ("film", "director"): ["Who directed {x}?", "Who was the director of {x}?"],
    ("film", "actor"): ["Who plays the lead in {x}?", "Who is the star of {x}?"],
    ("film", "composer"): ["Who wrote the music of {x}?", "Who composed the score of {x}?"],
    ("film", "studio"): ["Which studio made {x}?"],
    ("film", "novel"): ["On which novel is {x} based?"],
    ("film", "year"): ["In what year was {x} released?"],
    ("film", "runtime"): ["How long is {x}?", "What is the running time of {x}?"],
    ("novel", "author"): ["Who wrote {x}?", "Who is the author of {x}?"],
    ("novel", "publisher"): ["Which house published {x}?", "Who published {x}?"],
    ("novel", "city"): ["In which town is {x} set?", "Where does {x} take place?"],
    ("novel", "year"): ["In what year did {x} come out?"],
    ("novel", "pages"): ["How many pages does {x} have?"],
    ("album", "singer"): ["Who recorded {x}?", "Which singer made {x}?"],
    ("album", "label"): ["Which label issued {x}?"],
    ("album", "city"): ["Where was {x} recorded?"],
    ("album", "year"): ["In what year was {x} released?"],
    ("painting", "painter"): ["Who painted {x}?"],
    ("painting", "museum"): ["In which museum does {x} hang?", "Which museum owns {x}?"],
    ("painting", "year"): ["In what year was {x} finished?"],
    ("museum", "architect"): ["Who designed the building of {x}?"],
    ("museum", "city"): ["In which town does {x} stand?"],
    ("museum", "year"): ["In what year did {x} open?"],
    ("club", "city"): ["In which town is {x} based?"],
    ("club", "ground"): ["What is the home ground of {x}?", "At which ground does {x} play?"],
    ("club", "year"): ["In what year was {x} founded?"],
    ("expedition", "leader"): ["Who led {x}?"],
    ("expedition", "city"): ["From which town did {x} set out?"],
    ("expedition", "destination"): ["What was the goal of {x}?"],
    ("expedition", "year"): ["In what year did {x} take place?"],
    ("battle", "commander"): ["Who won {x}?"],
    ("battle", "city"): ["Near which town did {x} take place?"],
    ("battle", "year"): ["In what year did {x} take place?"],
    ("festival", "winner"): ["Which film won {x}?"],
    ("festival", "president"): ["Who chaired the jury of {x}?"],
    ("festival", "city"): ["Which city hosted {x}?"],
}

# The only work of a person: (kind of work, relation to the maker).
MAKERS: dict[tuple[str, str], list[str]] = {
    ("film", "director"): ["the film directed by {x}", "the film that {x} directed"],
    ("novel", "author"): ["the novel by {x}", "the novel that {x} wrote"],
    ("album", "singer"): ["the album by {x}", "the album that {x} recorded"],
    ("painting", "painter"): ["the painting by {x}", "the painting that {x} made"],
    ("expedition", "leader"): ["the expedition led by {x}", "the expedition that {x} led"],
    ("battle", "commander"): ["the battle won by {x}", "the battle that {x} won"],
}

# (the one with the least value, the one with the greatest).
EXTREMES: dict[tuple[str, str], tuple[str, str]] = {
    ("person", "born"): ("the elder of {a} and {b}", "the younger of {a} and {b}"),
    ("city", "population"): ("the smaller of {a} and {b}", "the larger of {a} and {b}"),
    ("film", "year"): (
        "the earlier released of {a} and {b}",
        "the later released of {a} and {b}",
    ),
    ("film", "runtime"): ("the shorter of {a} and {b}", "the longer of {a} and {b}"),
    ("novel", "pages"): ("the shorter of {a} and {b}", "the longer of {a} and {b}"),
    ("novel", "year"): (
        "the earlier published of {a} and {b}",
        "the later published of {a} and {b}",
    ),
    ("album", "year"): (
        "the earlier released of {a} and {b}",
        "the later released of {a} and {b}",
    ),
    ("painting", "year"): (
        "the earlier finished of {a} and {b}",
        "the later finished of {a} and {b}",
    ),
    ("expedition", "year"): ("the earlier of {a} and {b}", "the later of {a} and {b}"),
    ("battle", "year"): ("the earlier of {a} and {b}", "the later of {a} and {b}"),
}

SAME: dict[tuple[str, str], list[str]] = {
    ("person", "birthplace"): ["Were {a} and {b} born in the same town?"],
    ("person", "university"): ["Did {a} and {b} study at the same university?"],
    ("city", "country"): ["Are {a} and {b} in the same country?"],
    ("film", "director"): ["Were {a} and {b} directed by the same person?"],
    ("film", "studio"): ["Were {a} and {b} made by the same studio?"],
    ("novel", "author"): ["Were {a} and {b} written by the same person?"],
    ("novel", "publisher"): ["Were {a} and {b} published by the same house?"],
    ("album", "label"): ["Were {a} and {b} issued by the same label?"],
    ("painting", "museum"): ["Do {a} and {b} hang in the same museum?"],
}

# "yes" when the value of {a} is smaller than that of {b}.
BEFORE: dict[tuple[str, str], list[str]] = {
    ("person", "born"): ["Was {a} born before {b}?", "Is {a} older than {b}?"],
    ("city", "population"): ["Does {a} have fewer inhabitants than {b}?"],
    ("film", "year"): ["Was {a} released before {b}?"],
    ("film", "runtime"): ["Is {a} shorter than {b}?"],
    ("novel", "year"): ["Did {a} come out before {b}?"],
    ("novel", "pages"): ["Does {a} have fewer pages than {b}?"],
    ("album", "year"): ["Was {a} released before {b}?"],
    ("painting", "year"): ["Was {a} finished before {b}?"],
    ("expedition", "year"): ["Did {a} take place before {b}?"],
    ("battle", "year"): ["Did {a} take place before {b}?"],
}

for _kind in ("university", "publisher", "studio", "label", "club"):
    OF[_kind, "city"] = ["the town where {x} is based", "the home town of {x}"]
    QUESTIONS[_kind, "city"] = ["In which town is {x} based?", "Where is {x} based?"]
    QUESTIONS[_kind, "year"] = ["In what year was {x} founded?"]
    EXTREMES[_kind, "year"] = ("the older of {a} and {b}", "the newer of {a} and {b}")
    SAME[_kind, "city"] = ["Are {a} and {b} based in the same town?"]
    BEFORE[_kind, "year"] = ["Was {a} founded before {b}?"]
    if _kind != "club":
        OF[_kind, "founder"] = ["the founder of {x}", "the person who founded {x}"]
        QUESTIONS[_kind, "founder"] = ["Who founded {x}?", "Who was the founder of {x}?"]
OF["museum", "city"] = ["the town where {x} stands"]
SAME["museum", "city"] = ["Do {a} and {b} stand in the same town?"]
EXTREMES["museum", "year"] = (
    "the earlier opened of {a} and {b}",
    "the later opened of {a} and {b}",
)
BEFORE["museum", "year"] = ["Did {a} open before {b}?"]
