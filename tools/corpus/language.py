"""English and Chinese phrases, word games, small facts and small sums."""

import random
from collections.abc import Callable

from .base import Sample, single
from .words import (
    CAPITALS,
    DAYS,
    FACTS,
    LEXICON,
    MONTHS,
    OBJECTS,
    OPPOSITES,
    PHRASES,
    PLANETS,
    PLURALS,
    SOUNDS,
    SUBJECTS,
    THING_COLORS,
    VERBS,
)

TO_CHINESE = (
    "Translate {w} to Chinese", "Translate {w} into Chinese", "What is {w} in Chinese?",
    "How do you say {w} in Chinese?", "How do I say {w} in Chinese?", "{w} in Chinese?",
    "Say {w} in Chinese", "What is the Chinese for {w}?", "Chinese for {w}",
    "What's {w} in Chinese?", "Please translate to Chinese: {w}",
    "用中文怎么说{w}？", "{w}用中文怎么说？",
)  # fmt: skip
TO_ENGLISH = (
    "Translate {w} to English", "Translate {w} into English", "What does {w} mean?",
    "What is {w} in English?", "What does {w} mean in English?", "{w} in English?",
    "{w}是什么意思？", "{w}用英语怎么说？", "Say {w} in English",
    "Please translate to English: {w}",
)  # fmt: skip


def _pair(rng: random.Random) -> tuple[str, str]:
    """An English expression and its Chinese counterpart."""
    roll = rng.random()
    if roll < 0.3:
        english, chinese = rng.choice(list(PHRASES.items()))
    elif roll < 0.62:
        english, chinese = rng.choice(list(rng.choice(list(LEXICON.values())).items()))
    else:
        subject, verb, thing = (rng.choice(list(t)) for t in (SUBJECTS, VERBS, OBJECTS))
        negative = rng.random() < 0.2 and verb != "have"
        chinese = SUBJECTS[subject] + ("不" if negative else "") + VERBS[verb] + OBJECTS[thing]
        third = subject in ("he", "she")
        form = {"have": "has"}.get(verb, verb + "s") if third else verb
        if negative:
            form = ("doesn't " if third else "don't ") + verb
        english = f"{subject} {form} {thing}"
        english = english[0].upper() + english[1:]
    return english, chinese


def _translate(rng: random.Random) -> Sample:
    english, chinese = _pair(rng)
    mark = rng.choice(('"{}"', '"{}"', "{}", "'{}'"))
    if rng.random() < 0.58:
        ask = rng.choice(TO_CHINESE).replace("{w}", mark.format(english))
        return single("language", ask, chinese)
    ask = rng.choice(TO_ENGLISH).replace("{w}", mark.format(chinese))
    return single("language", ask, english)


def _opposite(rng: random.Random) -> Sample:
    first, second = rng.choice(list(OPPOSITES.items()))
    back = {v: k for k, v in OPPOSITES.items() if list(OPPOSITES.values()).count(v) == 1}
    if rng.random() < 0.4 and second in back:
        first, second = second, back[second]
    ask = rng.choice(
        ("What is the opposite of {w}?", "Opposite of {w}?", "Give me the opposite of {w}",
         "Antonym of {w}", 'What is the opposite of "{w}"?', "Tell me the opposite of {w}")
    )  # fmt: skip
    answer = rng.choice(
        (f"The opposite of {first} is {second}.",) * 3 + (second.capitalize() + ".",)
    )
    return single("language", ask.replace("{w}", first), answer)


def _plural(rng: random.Random) -> Sample:
    one, many = rng.choice(list(PLURALS.items()))
    ask = rng.choice(
        ("What is the plural of {w}?", "Plural of {w}?", 'What is the plural of "{w}"?',
         "Give me the plural of {w}", "How do you write the plural of {w}?")
    )  # fmt: skip
    return single("language", ask.replace("{w}", one), f"The plural of {one} is {many}.")


def _color(rng: random.Random) -> Sample:
    thing, color = rng.choice(list(THING_COLORS.items()))
    ask = rng.choice(
        ("What color is {w}?", "Which color does {w} have?", "What is the color of {w}?",
         "What colour is {w}?", "Tell me the color of {w}")
    )  # fmt: skip
    answer = thing[0].upper() + thing[1:] + f" is {color}."
    return single("language", ask.replace("{w}", thing), answer)


def _capital(rng: random.Random) -> Sample:
    country, city = rng.choice(list(CAPITALS.items()))
    if rng.random() < 0.3:
        ask = rng.choice(("{c} is the capital of which country?",
                          "Which country has the capital {c}?",
                          "Of which country is {c} the capital?"))  # fmt: skip
        return single("language", ask.replace("{c}", city), f"{city} is the capital of {country}.")
    ask = rng.choice(
        ("What is the capital of {w}?", "Capital of {w}?", "Which city is the capital of {w}?",
         "Name the capital of {w}", "What's the capital of {w}?", "Tell me the capital of {w}")
    )  # fmt: skip
    answer = f"The capital of {country} is {city}"
    return single("language", ask.replace("{w}", country), answer.rstrip(".") + ".")


def _sound(rng: random.Random) -> Sample:
    animal, sound = rng.choice(list(SOUNDS.items()))
    ask = rng.choice(
        ("What does {w} say?", "What sound does {w} make?", "Which sound does {w} make?")
    )
    name = animal[0].upper() + animal[1:]
    return single("language", ask.replace("{w}", animal), f'{name} says "{sound}".')


def _fact(rng: random.Random) -> Sample:
    ask, answer = rng.choice(list(FACTS.items()))
    return single("language", ask, answer)


def _sum(rng: random.Random) -> Sample:
    if rng.random() < 0.6:
        a, b = rng.randint(0, 20), rng.randint(0, 20)
    else:
        a, b = rng.randint(0, 99), rng.randint(0, 99)
    sign, word, result = rng.choice((("+", "plus", a + b), ("-", "minus", a - b)))
    if rng.random() < 0.2:
        a, b = rng.randint(0, 10), rng.randint(0, 10)
        sign, word, result = "*", "times", a * b
    elif sign == "-" and result < 0:
        a, b, result = b, a, -result
    ask = rng.choice(
        ("What is {a} {s} {b}?", "{a} {s} {b}", "{a} {s} {b} = ?", "Calculate {a} {s} {b}",
         "What is {a} {w} {b}?", "How much is {a} {w} {b}?", "{a} {w} {b}?", "Compute {a} {s} {b}")
    )  # fmt: skip
    for mark, value in (("{a}", a), ("{s}", sign), ("{b}", b), ("{w}", word)):
        ask = ask.replace(mark, str(value))
    return single("language", ask, f"{a} {sign} {b} = {result}")


def _count(rng: random.Random) -> Sample:
    start = rng.choice((1, 1, 1, 0, 2, 5, 10))
    stop = start + rng.randint(3, 15)
    if rng.random() < 0.25:
        ask = rng.choice(("Count down from {b} to {a}", "Count backwards from {b} to {a}"))
        numbers = range(stop, start - 1, -1)
    else:
        ask = rng.choice(("Count from {a} to {b}", "Count to {b}",
                          "List the numbers from {a} to {b}",
                          "Say the numbers from {a} to {b}"))  # fmt: skip
        if "{a}" not in ask:
            start = 1
        numbers = range(start, stop + 1)
    ask = ask.replace("{a}", str(start)).replace("{b}", str(stop))
    return single("language", ask, ", ".join(map(str, numbers)))


def _order(rng: random.Random) -> Sample:
    names, unit = rng.choice(((DAYS, "day"), (DAYS, "day"), (MONTHS, "month")))
    i = rng.randrange(len(names))
    if rng.random() < 0.6:
        j, word = (i + 1) % len(names), "after"
    else:
        j, word = (i - 1) % len(names), "before"
    ask = rng.choice(("Which {u} comes {w} {x}?", "What {u} is {w} {x}?", "What comes {w} {x}?"))
    ask = ask.replace("{u}", unit).replace("{w}", word).replace("{x}", names[i])
    return single("language", ask, f"{names[j]} comes {word} {names[i]}.")


def _listing(rng: random.Random) -> Sample:
    lists: dict[str, tuple[str, ...]] = {"days of the week": DAYS, "planets": PLANETS,
                                         "months of the year": MONTHS}  # fmt: skip
    if rng.random() < 0.3:
        name = rng.choice(list(lists))
        ask = rng.choice(("List the {n}", "What are the {n}?", "Name all {n}", "Tell me the {n}"))
        return single("language", ask.replace("{n}", name), ", ".join(lists[name]) + ".")
    group = rng.choice(("animals", "colors", "food", "things"))
    count = rng.randint(2, 6)
    words = rng.sample([w for w in LEXICON[group] if " " not in w], count)
    noun = {"food": "foods"}.get(group, group)
    ask = rng.choice(("Name {c} {n}", "List {c} {n}", "Give me {c} {n}", "Tell me {c} {n}"))
    number = ("zero", "one", "two", "three", "four", "five", "six")[count]
    amount = rng.choice((number, str(count)))
    ask = ask.replace("{c}", amount).replace("{n}", noun)
    if rng.random() < 0.5:
        return single("language", ask, "\n".join(f"- {w}" for w in words))
    return single("language", ask, ", ".join(words))


def _letters(rng: random.Random) -> Sample:
    group = rng.choice(("animals", "colors", "food", "family", "things", "adjectives"))
    word = rng.choice([w for w in LEXICON[group] if " " not in w])
    roll = rng.random()
    if roll < 0.3:
        ask = rng.choice(("Spell {w}", "Spell the word {w}", "How do you spell {w}?"))
        answer = "-".join(word.upper())
    elif roll < 0.6:
        ask = rng.choice(("Write {w} in upper case", "{w} in capital letters", "Uppercase {w}"))
        answer = word.upper()
    elif roll < 0.8:
        ask = rng.choice(("How many letters does {w} have?", "Count the letters of {w}"))
        answer = f"{word} has {len(word)} letters."
    else:
        ask = rng.choice(("What is the first letter of {w}?", "Which letter does {w} start with?"))
        answer = word[0].upper()
    mark = rng.choice(('"{}"', "{}"))
    return single("language", ask.replace("{w}", mark.format(word)), answer)


def _repeat(rng: random.Random) -> Sample:
    roll = rng.random()
    pool = [w for g in ("animals", "food", "things", "colors") for w in LEXICON[g] if " " not in w]
    if roll < 0.5:
        words = rng.sample(pool, rng.randint(2, 6))
        ask = rng.choice(
            ("Repeat: {w}", "Repeat after me: {w}", "Say: {w}", "Repeat these words: {w}")
        )
        answer = " ".join(words)
    elif roll < 0.75:
        words = rng.sample(pool, rng.randint(2, 5))
        ask = rng.choice(("Reverse the order of these words: {w}",
                          "Write these words backwards: {w}",
                          "Put these words in reverse order: {w}"))  # fmt: skip
        answer = " ".join(reversed(words))
    else:
        words = rng.sample(pool, rng.randint(3, 5))
        ask = rng.choice(("Sort these words: {w}", "Put these words in alphabetical order: {w}"))
        answer = " ".join(sorted(words))
    return single("language", ask.replace("{w}", " ".join(words)), answer)


MAKERS: tuple[tuple[int, Callable[[random.Random], Sample]], ...] = (
    (42, _translate), (6, _opposite), (4, _plural), (4, _color), (7, _capital), (2, _sound),
    (6, _fact), (14, _sum), (4, _count), (4, _order), (5, _listing), (6, _letters), (8, _repeat),
)  # fmt: skip


def language(rng: random.Random) -> Sample:
    """A phrase, word game, fact or sum."""
    return rng.choices([m for _, m in MAKERS], [w for w, _ in MAKERS])[0](rng)
