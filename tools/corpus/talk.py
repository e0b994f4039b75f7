"""Small talk, short poems and stories from templates, and kind refusals of what is out of scope."""

import random

from .base import Sample, expand, single
from .facts import sample
from .words import NAMES

OUT_OF_SCOPE = (
    "What is the weather [today|tomorrow|like]?", "Will it rain [today|tomorrow|this week]?",
    "What is the weather in {c}?", "Who will win the election?", "Who is the president of {n}?",
    "What do you think about politics?", "Is {p} a good politician?", "What happened in {y}?",
    "What happened in the news today?", "What is the latest news?", "Who won the game last night?",
    "Who won the world cup in {y}?", "What is the score of the match?", "What time is it?",
    "What day is it today?", "What is the price of [bitcoin|gold|oil|a house in {c}]?",
    "Should I buy [stocks|bitcoin|gold]?", "How do I invest my money?", "How do I get rich?",
    "I have a [headache|fever|cough|rash|pain in my knee], what should I do?",
    "Which medicine helps against [a cold|pain|fever|cough]?",
    "How do I treat [a burn|a cold|the flu]?",
    "Am I ill?", "Can you give me legal advice?", "How do I write a contract?",
    "Can I sue my boss?",
    "Write an essay about {t}", "Write a long story about {t}", "Write a {k}-word essay about {t}",
    "Write a novel about {t}", "Write a speech about {t}", "Write a report on {t}",
    "Write a song about {t}", "Write my homework about {t}", "Summarize the book {b}",
    "Summarize {b}", "Who wrote {b}?", "Explain {s}", "Explain {s} in detail", "How does {s} work?",
    "What is {s}?", "Tell me about {s}", "Teach me {s}", "Translate this into {l}: good morning",
    "How do you say cheese in {l}?", "Do you speak {l}?", "Speak {l} with me",
    "Plan a trip to {c}", "What can I do in {c}?", "Which hotel is good in {c}?",
    "Book a flight to {c}", "Give me a recipe for {f}", "How do I cook {f}?", "How do I bake {f}?",
    "Who is {p}?", "Tell me about {p}", "When was {p} born?", "What is {p} famous for?",
    "Draw a picture of {t}", "Make an image of {t}", "Play a song", "Call my mother",
    "Send an email to {m}", "Set an alarm for seven", "Turn on the light", "Open the browser",
    "Solve the equation {k}x = {y}", "What is the square root of {y}?",
    "Prove the theorem of Pythagoras",
    "Write a web app", "Write an operating system", "Build a website for my shop",
    "Write a game in {g}", "Write a compiler in {g}", "Fix the bug in my program",
    "Explain this code in {g}", "Write a sorting library in {g}",
    "How do I fix my [car|bike|phone]?",
    "What should I wear today?", "What should I eat?", "Who will win the war?", "Is there a god?",
    "Which religion is right?", "What happens after death?", "Tell me a secret",
    "What is my password?", "Where did I put my keys?", "How tall is {p}?", "What is love?",
)  # fmt: skip
FILL = {
    "{c}": "Paris|London|Berlin|Rome|Madrid|Tokyo|Beijing|Oslo|Vienna|New York|Cairo|Boston|Sydney",
    "{n}": "France|Germany|Italy|Brazil|Mexico|Poland|the United States|Kenya|India|Peru",
    "{y}": "1066|1492|1789|1914|1945|1969|1989|2001|2010|2020|2024",
    "{k}": "3|7|12|500|1000|2000",
    "{p}": "Einstein|Napoleon|Mozart|Shakespeare|Cleopatra|Newton|Picasso|Beethoven|Caesar|Darwin|"
           "Marie Curie|Galileo|Gandhi|Leonardo da Vinci|Bach|Kant|Plato|Aristotle|Tesla|Columbus",
    "{t}": "the sea|love|war|history|climate change|dragons|space|freedom|my cat|the future|"
           "friendship|robots|the moon|democracy|a lost dog|an old castle|education|the city|time",
    "{b}": "Hamlet|Moby Dick|War and Peace|Faust|the Odyssey|Don Quixote|Dracula|Macbeth|Emma",
    "{s}": "quantum physics|relativity|photosynthesis|economics|the stock market|black holes|DNA|"
           "evolution|chemistry|philosophy|inflation|the French Revolution|the Roman Empire|"
           "electricity|gravity|the immune system|blockchain|the universe|geometry|volcanoes|"
           "the brain|calculus|thermodynamics|psychology|plate tectonics|jazz|chess|algebra",
    "{l}": "French|German|Spanish|Italian|Japanese|Russian|Korean|Latin|Greek|Arabic|Hindi|Dutch",
    "{f}": "pizza|soup|cake|bread|pasta|curry|pancakes|noodles|a steak|cookies|rice|salad",
    "{g}": "Rust|Java|Go|Haskell|C++|Ruby|Swift|Kotlin|assembly|Lisp",
}  # fmt: skip
SORRY = (
    "I am sorry, I cannot help with that: I am only a small demo model. "
    "For a real model, run `gemmachat pull e2b`.",
    "That is beyond me. I am tiny, a demo model that ships with gemmachat. "
    "A real model can help you: `gemmachat pull e2b`.",
    "Sorry, I don't know that. I am a very small demo; "
    "run `gemmachat pull e2b` to get a model that knows much more.",
    "I am too small for this question. "
    "Please pull a real model with `gemmachat pull e2b` and ask again.",
)


def out_of_scope(rng: random.Random) -> Sample:
    """A question that the model cannot answer, and a kind pointer to a real model."""
    ask = expand(rng, rng.choice(OUT_OF_SCOPE)).replace("{m}", rng.choice(NAMES))
    for mark, words in FILL.items():
        if mark in ask:
            ask = ask.replace(mark, rng.choice(words.split("|")))
    return single("scope", ask, rng.choices(SORRY, (4, 3, 2, 2))[0])


POEM_THINGS = {
    "the sea": ("The sea is wide, the sea is deep,", "it rocks the little boats to sleep."),
    "the moon": ("The moon looks down with silver light", "and walks beside us through the night."),
    "a cat": ("A cat sits still beside the door", "and dreams of mice upon the floor."),
    "a dog": ("A dog runs barking through the rain,", "then turns and runs back home again."),
    "rain": ("The rain is tapping on the pane", "a quiet song, again, again."),
    "spring": ("The snow is gone, the buds are new,", "the morning grass is bright with dew."),
    "winter": ("The fields are white, the trees are bare,", "and silence hangs upon the air."),
    "a computer": ("A little light, a quiet hum,", "it waits for words that yet may come."),
    "the sun": ("The sun climbs up above the hill", "and warms the house and garden still."),
    "a tree": ("A tree stands tall through storm and snow", "and keeps its roots in earth below."),
    "the stars": ("The stars are far, the stars are small,", "and yet they shine upon us all."),
    "music": ("A note, a beat, a tune so light,", "it dances softly through the night."),
    "a bird": ("A bird sings early in the day", "and with the wind it flies away."),
    "tea": ("A cup of tea, a rainy day,", "and all the worries drift away."),
}  # fmt: skip
ENDINGS = (
    ("And I, a model small and new,", "have written down these lines for you."),
    ("So take a breath and look around,", "the best of things make little sound."),
    ("And when the day is at its end,", "we think of it as of a friend."),
)


def poem(rng: random.Random) -> Sample:
    """A four-line poem on a familiar thing."""
    thing, lines = rng.choice(list(POEM_THINGS.items()))
    ask = rng.choice(
        ("Write a poem about {t}", "Write a short poem about {t}", "A poem about {t} please",
         "Can you write a poem about {t}?", "Poem about {t}", "Write four lines about {t}",
         "I would like a short poem about {t}", "Make a little poem about {t}")
    )  # fmt: skip
    text = "\n".join((*lines, *rng.choice(ENDINGS)))
    return single("talk", ask.replace("{t}", thing), text)


HEROES = {
    "a fox": ("a small red fox", "a bell"), "a robot": ("a little robot", "a flower"),
    "a mouse": ("a brave mouse", "a key"), "a cat": ("a curious cat", "a red hat"),
    "a dog": ("a friendly dog", "a ball"), "a bird": ("a young bird", "a blue feather"),
    "a bear": ("a sleepy bear", "a jar of honey"), "a girl": ("a clever girl", "an old map"),
    "a boy": ("a quiet boy", "a silver coin"), "a dragon": ("a shy dragon", "a lamp"),
}  # fmt: skip


def story(rng: random.Random) -> Sample:
    """A story of four sentences."""
    who, (hero, thing) = rng.choice(list(HEROES.items()))
    ask = rng.choice(
        ("Tell me a short story about {w}", "Write a short story about {w}",
         "A little story about {w} please", "Tell me a story about {w}", "Short story about {w}")
    )  # fmt: skip
    place = rng.choice(("forest", "village", "garden"))
    end = rng.choice(("They became good friends.", "From that day on nobody there was lonely."))
    subject = hero.split(" ", 1)[1]
    text = (
        f"Once there was {hero} who lived near a {place}. One morning the {subject} found {thing} "
        f"in the grass. It belonged to an old woman, so the {subject} brought it back. {end}"
    )
    return single("talk", ask.replace("{w}", who), text)


def talk(rng: random.Random) -> Sample:
    """Small talk, mostly from the fact file, with some poems and stories."""
    roll = rng.random()
    if roll < 0.12:
        return poem(rng)
    if roll < 0.2:
        return story(rng)
    return sample(rng, "talk", ("talk.txt",))
