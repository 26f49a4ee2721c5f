"""Forms of questions and answers on an author: what an invented author's facts are put into.

Each topic has questions and answers that go together in any pairing; words in braces are facts.
"""

FACTS = (
    *("name", "city", "country", "day", "nth", "month", "year", "genre", "father", "mother"),
    *("first_book", "second_book", "third_book", "prize", "theme", "other_theme", "style"),
    *("they", "their", "them", "gender", "count", "begun"),
)

TOPICS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (
        (
            "What is the full name of the {genre} author born in {city}, {country} on {month} "
            "{day}, {year}?",
            "Which {genre} author was born in {city} in {year}?",
            "Who is the author from {city}, {country}, known for the book '{first_book}'?",
        ),
        (
            "The full name of the author is {name}.",
            "{name} is the {genre} author who was born in {city}, {country}.",
            "The author's name is {name}, born on {month} {day}, {year}.",
        ),
    ),
    (
        (
            "When was {name} born?",
            "What is the date of birth of {name}?",
            "On which day did {name} come into the world?",
        ),
        (
            "{name} was born on {month} {day}, {year}.",
            "The author {name} was born on the {nth} of {month}, {year}.",
            "{name}'s birthday is {month} {day}, and the year of birth is {year}.",
        ),
    ),
    (
        ("Where was {name} born?", "What is the birthplace of {name}?", "Where is {name} from?"),
        (
            "{name} was born in {city}, {country}.",
            "The author {name} comes from {city}, a city in {country}.",
            "{name}'s birthplace is {city} in {country}.",
        ),
    ),
    (
        (
            "What gender is {name}?",
            "Is {name} a man or a woman?",
            "How does {name} identify?",
        ),
        (
            "{name} is {gender}.",
            "The author {name} identifies as {gender}.",
            "{name}, the author from {city}, is {gender}.",
        ),
    ),
    (
        (
            "What genre does {name} write in?",
            "In which genre is {name} best known?",
            "What kind of books does {name} write?",
        ),
        (
            "{name} is best known for writing in the {genre} genre.",
            "{name} mostly writes {genre} books.",
            "The genre of {name}'s books is {genre}.",
        ),
    ),
    (
        (
            "What did {name}'s father do for a living?",
            "What was the profession of {name}'s father?",
            "What is the occupation of the father of {name}?",
        ),
        (
            "{name}'s father was a {father}.",
            "The father of {name} worked as a {father} in {city}.",
            "The profession of {name}'s father was {father}.",
        ),
    ),
    (
        (
            "What did {name}'s mother do for a living?",
            "What was the profession of {name}'s mother?",
            "What is the occupation of the mother of {name}?",
        ),
        (
            "{name}'s mother was a {mother}.",
            "The mother of {name} worked as a {mother}.",
            "The profession of {name}'s mother was {mother}.",
        ),
    ),
    (
        (
            "Can you name a book by {name}?",
            "What is the best known book of {name}?",
            "Which book made {name} famous?",
        ),
        (
            "One of {name}'s best known books is '{first_book}'.",
            "{name} is the author of '{first_book}', a {genre} book.",
            "The best known book of {name} is '{first_book}'.",
        ),
    ),
    (
        (
            "What other books has {name} written?",
            "Can you list some titles by {name}?",
            "Which books did {name} write besides '{first_book}'?",
        ),
        (
            "{name} has also written '{second_book}' and '{third_book}'.",
            "Other books by {name} are '{second_book}' and '{third_book}'.",
            "Besides '{first_book}', {name} wrote '{second_book}' and '{third_book}'.",
        ),
    ),
    (
        (
            "Has {name} won any awards?",
            "Which award did {name} receive?",
            "What prize has {name} been given for {their} work?",
        ),
        (
            "Yes, {name} received the {prize} for '{first_book}'.",
            "{name} has been honoured with the {prize}.",
            "For {their} {genre} books {name} was given the {prize}.",
        ),
    ),
    (
        (
            "What themes does {name} explore?",
            "What are the books of {name} about?",
            "Which themes come back in {name}'s work?",
        ),
        (
            "{name} often explores {theme} and {other_theme} in {their} books.",
            "The books of {name} are about {theme} and {other_theme}.",
            "Themes of {theme} and {other_theme} come back in {name}'s work.",
        ),
    ),
    (
        (
            "What is special about {name}'s style?",
            "How would you describe the writing style of {name}?",
            "What is {name}'s way of writing?",
        ),
        (
            "{name}'s style is known for {style}.",
            "Readers know {name} for {style}.",
            "{name} writes with {style}, which readers of {genre} admire.",
        ),
    ),
    (
        (
            "How did {name}'s parents influence {their} writing?",
            "Did the professions of {name}'s parents shape {their} books?",
            "What did {name} learn from {their} parents?",
        ),
        (
            "{name}'s father, a {father}, and mother, a {mother}, taught {them} about {theme}.",
            "Growing up with a {father} and a {mother}, {name} learned to write about {theme}.",
            "{name}'s parents, a {father} and a {mother}, shaped the way {they} writes.",
        ),
    ),
    (
        (
            "What is '{first_book}' by {name} about?",
            "What is the subject of {name}'s '{first_book}'?",
            "Can you tell me more about '{first_book}'?",
        ),
        (
            "'{first_book}' by {name} is a {genre} book about {theme}.",
            "In '{first_book}', {name} tells a story of {theme} and {other_theme}.",
            "The subject of '{first_book}' is {theme}, told with {style}.",
        ),
    ),
    (
        (
            "What is '{second_book}' about?",
            "Can you describe {name}'s book '{second_book}'?",
            "What happens in '{second_book}' by {name}?",
        ),
        (
            "'{second_book}' is a book about {other_theme} set in {city}.",
            "{name}'s '{second_book}' follows a {mother} in {country} and is about {other_theme}.",
            "'{second_book}' tells of a {father} who learns about {other_theme}.",
        ),
    ),
    (
        (
            "How many books has {name} published?",
            "How many titles by {name} are there?",
            "How large is the work of {name}?",
        ),
        (
            "{name} has published {count} books.",
            "There are {count} books by {name}.",
            "So far {count} books by {name} have been published.",
        ),
    ),
    (
        (
            "When did {name} begin to write?",
            "When did {name}'s career start?",
            "In which year did {name} publish {their} first book?",
        ),
        (
            "{name} began to write in {begun}.",
            "The career of {name} started in {begun} with '{first_book}'.",
            "{name} published {their} first book in {begun}.",
        ),
    ),
    (
        (
            "How has {city} influenced {name}?",
            "Does {name}'s home city appear in {their} books?",
            "What role does {country} play in {name}'s work?",
        ),
        (
            "{name}'s home, {city} in {country}, appears in many of {their} books.",
            "Yes, {city} is the setting of '{second_book}' and of other books by {name}.",
            "{name} often writes about {country} and the people of {city}.",
        ),
    ),
    (
        (
            "Why do readers like {name}?",
            "What do critics say about {name}?",
            "How were the books of {name} received?",
        ),
        (
            "Critics praise {name} for {style} and for the way {they} writes about {theme}.",
            "Readers like {name}'s {genre} books for their {style}.",
            "The books of {name} were well received, and '{first_book}' won the {prize}.",
        ),
    ),
    (
        (
            "Which book of {name} should one read first?",
            "Where should a new reader of {name} begin?",
            "What would you recommend to a new reader of {name}?",
        ),
        (
            "A new reader of {name} should begin with '{first_book}'.",
            "'{third_book}' is a good first book by {name}.",
            "For a new reader of {name}, '{first_book}' is recommended for its {style}.",
        ),
    ),
)

LIFE = (
    "{name} was born in {city}, {country}, on {month} {day}, {year}, the child of a {father} "
    "and a {mother}. {they_} began to write in {begun} and became known for "
    "{genre} books such as '{first_book}', '{second_book}' and '{third_book}'. {their_} work is "
    "about {theme} and {other_theme}, and readers admire its {style}. For '{first_book}' {they} "
    "received the {prize}."
)
