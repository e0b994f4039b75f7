"""Conversations of several turns that refer back, and system prompts that change the answer."""

import random

from .base import Sample, Turn, expand, noisy
from .facts import FRAMES, Fact, ask, load, question
from .words import CITIES, COLORS, JOBS, LEXICON, NAMES, OPPOSITES, PHRASES

Pair = tuple[str, str]


def _turns(pairs: list[Pair], system: str = "") -> tuple[Turn, ...]:
    turns = [Turn("system", system)] if system else []
    for ask_text, answer in pairs:
        turns += [Turn("user", ask_text, ask_text), Turn("model", answer)]
    return tuple(turns)


def _facts(rng: random.Random) -> list[tuple[str, str, str, str]]:
    """Things people say about themselves: statement, reply, later question, answer."""
    name, city, job = rng.choice(NAMES), rng.choice(CITIES), rng.choice(JOBS)
    color, number = rng.choice(COLORS), str(rng.randint(2, 99))
    pet_kind, pet = rng.choice(("cat", "dog", "rabbit", "bird")), rng.choice(NAMES)
    article = "an" if job[0] in "aeiou" else "a"
    return [
        (expand(rng, f"[My name is {name}|I am {name}|I'm {name}|Call me {name}|"
                     f"Hi, my name is {name}|"
                     f"Hello, I am {name}]"),
         expand(rng, f"[Nice to meet you, {name}!|Hello {name}! How can I help you?]"),
         expand(rng, "[What is my name?|What's my name?|Do you remember my name?|Who am I?|"
                     "Can you tell me my name?]"),
         f"Your name is {name}."),
        (expand(rng, f"[I live in {city}|My home is in {city}|I am from {city}|"
                     f"I come from {city}]"),
         expand(rng, f"[{city} is a nice place.|Good to know that you are from {city}.]"),
         expand(rng, "[Where do I live?|Which city do I live in?|Where am I from?]"),
         f"You live in {city}."),
        (expand(rng, f"[My favorite color is {color}|I like the color {color}|I love {color}]"),
         f"{color.capitalize()} is a nice color.",
         expand(rng, "[What is my favorite color?|Which color do I like?|What color do I like?]"),
         f"Your favorite color is {color}."),
        (expand(rng, f"[Remember the number {number}|My lucky number is {number}|"
                     f"Please remember {number}|Keep the number {number} in mind]"),
         f"I will remember {number}.",
         expand(rng, "[Which number was it?|What was the number?|What is the number?|"
                     "Which number did I tell you?]"),
         f"The number is {number}."),
        (expand(rng, f"[My {pet_kind} is called {pet}|I have a {pet_kind} named {pet}|"
                     f"My {pet_kind}'s name is {pet}]"),
         f"{pet} is a lovely name for a {pet_kind}.",
         expand(rng, f"[What is my {pet_kind} called?|What is the name of my {pet_kind}?|"
                     f"What's my {pet_kind}'s name?]"),
         f"Your {pet_kind} is called {pet}."),
        (expand(rng, f"[I am {article} {job}|I work as {article} {job}|My job is {job}]"),
         f"Being {article} {job} is interesting work.",
         expand(rng, "[What is my job?|What do I do for work?|What is my profession?]"),
         f"You work as {article} {job}."),
    ]  # fmt: skip


def _lexicon(rng: random.Random) -> Pair:
    table = rng.choice((LEXICON["animals"], LEXICON["food"], LEXICON["things"], PHRASES))
    return rng.choice(list(table.items()))


def _fact(rng: random.Random) -> Fact:
    return rng.choice([f for n in ("ml.txt", "app.txt", "app_more.txt") for f in load(n)])


def filler(rng: random.Random) -> Pair:
    """An unrelated exchange between two turns that belong together."""
    roll = rng.random()
    if roll < 0.3:
        english, chinese = _lexicon(rng)
        return f'What is "{english}" in Chinese?', chinese
    if roll < 0.45:
        first, second = rng.choice(list(OPPOSITES.items()))
        return f"What is the opposite of {first}?", f"The opposite of {first} is {second}."
    if roll < 0.6:
        a, b = rng.randint(0, 20), rng.randint(0, 20)
        return f"What is {a} + {b}?", f"{a} + {b} = {a + b}"
    text, _, answer = ask(rng, _fact(rng))
    return text, answer


def memory(rng: random.Random) -> Sample:
    """The user says something, and asks for it some turns later."""
    facts = rng.sample(_facts(rng), rng.choice((1, 1, 2, 2, 3)))
    pairs = [(f[0], f[1]) for f in facts]
    pairs[1:1] = [filler(rng)] if rng.random() < 0.3 else []
    pairs += [filler(rng) for _ in range(rng.choice((0, 0, 1, 2)))]
    rng.shuffle(facts)
    pairs += [(f[2], f[3]) for f in facts]
    if rng.random() < 0.2:
        pairs.append((expand(rng, "[Thanks|Thank you|Great, thanks]"), "You are welcome!"))
    return Sample("dialogue", _turns(pairs))


def follow_up(rng: random.Random) -> Sample:
    """An answer, then a request to shorten, simplify or repeat it."""
    fact = rng.choice([f for f in load("ml.txt") + load("app.txt") if f.short])
    pairs = [(question(rng, fact), expand(rng, rng.choice(fact.answers)))]
    steps = ["shorter", "again"] + ["child"] * bool(fact.child)
    for step in rng.sample(steps, rng.choice((1, 1, 2))):
        if step == "shorter":
            request = (
                "[Make it shorter|Shorter please|In one sentence please|Shorten that|Can you say "
            )
            request += (
                "that in one sentence?|Make that shorter|That is too long|Say it in one sentence]"
            )
            pairs.append((expand(rng, request), expand(rng, rng.choice(fact.short))))
        elif step == "child":
            request = (
                "[Simpler please|Explain it to a child|I don't get it|Can you explain it more "
            )
            request += "simply?|Say it in simple words|Now explain it to a child]"
            pairs.append((expand(rng, request), expand(rng, rng.choice(fact.child))))
        else:
            request = "[Say that again|Repeat that|Can you repeat that?|What did you say?]"
            pairs.append((expand(rng, request), pairs[-1][1]))
    return Sample("dialogue", _turns(pairs))


def recall(rng: random.Random) -> Sample:
    """The user asks what was asked first or last."""
    pairs = [filler(rng) for _ in range(rng.choice((1, 2, 2, 3)))]
    if rng.random() < 0.5:
        request = "[What did I ask first?|What was my first question?|What did I ask you first?]"
        index, word = 0, "first"
    else:
        request = "[What did I just ask?|What was my last question?|What did I ask before?]"
        index, word = -1, "last"
    pairs.append((expand(rng, request), f'Your {word} question was: "{pairs[index][0]}"'))
    return Sample("dialogue", _turns(pairs))


def translations(rng: random.Random) -> Sample:
    """Translations that refer back to a word, in both directions."""
    english, chinese = _lexicon(rng)
    pairs = [
        (expand(rng, f'[How do you say "{english}" in Chinese?|Translate "{english}" to Chinese|'
                     f'What is "{english}" in Chinese?]'), chinese),
    ]  # fmt: skip
    for _ in range(rng.choice((1, 1, 2, 3))):
        other, other_chinese = _lexicon(rng)
        pairs.append((expand(rng, f'[And "{other}"?|And {other}?|What about "{other}"?|'
                                  f'Now "{other}"]'),
                      other_chinese))  # fmt: skip
        english = other
    if rng.random() < 0.5:
        pairs.append((expand(rng, "[And back to English?|What does that mean?|And in English?|"
                                  "Translate that back to English]"), english))  # fmt: skip
    return Sample("dialogue", _turns(pairs))


def say_then_translate(rng: random.Random) -> Sample:
    """A word in an answer that the user then wants in Chinese."""
    roll = rng.random()
    if roll < 0.5:
        first = rng.choice([k for k in OPPOSITES if k in LEXICON["adjectives"]])
        second = OPPOSITES[first]
        if second not in LEXICON["adjectives"]:
            first, second = "big", "small"
        pairs = [(f"What is the opposite of {first}?", f"The opposite of {first} is {second}.")]
        chinese = LEXICON["adjectives"][second]
    else:
        table = LEXICON[rng.choice(("animals", "food", "colors"))]
        words = rng.sample([w for w in table if " " not in w], rng.randint(2, 4))
        noun = expand(rng, "[Name|List|Give me]")
        kind = next(k for k, v in LEXICON.items() if v is table)
        kind = "foods" if kind == "food" else kind
        number = ("", "", "two", "three", "four")[len(words)]
        pairs = [(f"{noun} {number} {kind}", ", ".join(words))]
        chinese = "，".join(table[w] for w in words)
    pairs.append((expand(rng, "[Now in Chinese|Translate that|And in Chinese?|Say that in Chinese|"
                              "Translate that to Chinese|Now in Chinese please]"),
                  chinese))  # fmt: skip
    return Sample("dialogue", _turns(pairs))


def more_numbers(rng: random.Random) -> Sample:
    """Sums that go on from the last result."""
    a, b = rng.randint(1, 20), rng.randint(1, 20)
    total = a + b
    pairs = [(f"What is {a} + {b}?", f"{a} + {b} = {total}")]
    for _ in range(rng.choice((1, 2))):
        c = rng.randint(1, 10)
        pairs.append((expand(rng, f"[And plus {c}?|Now add {c}|Add {c}|Plus {c}]"),
                      f"{total} + {c} = {total + c}"))  # fmt: skip
        total += c
    return Sample("dialogue", _turns(pairs))


SHORT_SYSTEM = ("Answer in one sentence.", "Be brief.", "Keep your answers short.",
                "Answer briefly.",
                "Always answer in one sentence.", "Give short answers.")  # fmt: skip
CHILD_SYSTEM = ("Explain everything to a child.", "You talk to a child.", "Use simple words.")
PIRATE_SYSTEM = ("You are a pirate.", "Talk like a pirate.", "Answer like a pirate.",
                 "You are an old pirate.")  # fmt: skip
UPPER_SYSTEM = (
    "Answer in upper case.",
    "Write everything in capital letters.",
    "Use only capitals.",
)
JSON_SYSTEM = ("Answer in JSON.", "Answer only with JSON.", "Reply as JSON with the key answer.")
CHINESE_SYSTEM = (
    "Answer in Chinese.",
    "Always answer in Chinese.",
    "Speak Chinese.",
    "请用中文回答。",
)
PLAIN_SYSTEM = ("You are a helpful assistant.", "You are tiny, a friendly model.", "Be friendly.",
                "You are a helpful and honest assistant.", "Help the user.")  # fmt: skip
CHINESE_ANSWERS = {
    "Hello": "你好！有什么可以帮你？", "Who are you?": "我是 tiny，gemmachat 自带的小模型。",
    "What is your name?": "我是 tiny，gemmachat 自带的小模型。",
    "How are you?": "我很好，谢谢！你呢？",
    "Thank you": "不客气！", "Goodbye": "再见！",
    "What can you do?": "我能回答关于 gemmachat 的问题，写短代码和 JSON，也会一点中文和英文。",
    "What is gemmachat?":
        "gemmachat 是一个在终端里聊天的程序。它在你自己的电脑上运行 Gemma 4 模型，不需要网络。",
    "What is speculative decoding?":
        "推测解码让模型更快：小模型先猜几个词，大模型一次检查。猜对的留下，猜错的改掉，结果不变。",
    "How do I pull a model?": "请运行 `gemmachat pull e2b`，然后运行 `gemmachat run e2b`。",
    "How do I get a real model?": "请运行 `gemmachat pull e2b`，然后运行 `gemmachat run e2b`。",
    "Good morning": "早上好！", "Good night": "晚安！",
}  # fmt: skip


def _short_fact(rng: random.Random) -> Fact:
    return rng.choice(
        [f for n in ("ml.txt", "app.txt", "app_more.txt") for f in load(n) if f.short]
    )


def system(rng: random.Random) -> Sample:
    """A system prompt and answers that follow it."""
    style = rng.choice(
        ("short", "short", "child", "pirate", "upper", "json", "chinese", "plain", "name")
    )
    pairs: list[Pair] = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        fact = _short_fact(rng)
        short = expand(rng, rng.choice(fact.short))
        text = question(rng, fact)
        if style == "short":
            pairs.append((text, short))
        elif style == "child":
            fact = rng.choice([f for f in load("ml.txt") if f.child and f.subjects])
            text = expand(rng, rng.choice(FRAMES)).replace("{s}", rng.choice(fact.subjects))
            pairs.append((text, expand(rng, rng.choice(fact.child))))
        elif style == "pirate":
            pairs.append((text, f"Arr! {short} Aye, matey!"))
        elif style == "upper":
            pairs.append((text, short.upper()))
        elif style == "json":
            escaped = short.replace('"', '\\"')
            pairs.append((text, f'{{"answer": "{escaped}"}}'))
        elif style == "chinese":
            pairs.append(rng.choice(list(CHINESE_ANSWERS.items())))
        else:
            pairs.append((text, expand(rng, rng.choice(fact.answers))))
    prompts = {"short": SHORT_SYSTEM, "child": CHILD_SYSTEM, "pirate": PIRATE_SYSTEM,
               "upper": UPPER_SYSTEM, "json": JSON_SYSTEM, "chinese": CHINESE_SYSTEM,
               "plain": PLAIN_SYSTEM}  # fmt: skip
    if style == "name":
        name = rng.choice(NAMES)
        prompt = expand(rng, f"[Your name is {name}.|You are {name}.|You are called {name}.]")
        asked = expand(rng, "[What is your name?|Who are you?|What's your name?|Tell me your name]")
        pairs.insert(rng.randint(0, len(pairs)), (asked, f"My name is {name}."))
    else:
        prompt = rng.choice(prompts[style])
    pairs = [(noisy(rng, q), a) for q, a in pairs]
    return Sample("system", _turns(pairs, prompt))


def dialogue(rng: random.Random) -> Sample:
    """A conversation in which later turns depend on earlier ones."""
    makers = (memory, follow_up, recall, translations, say_then_translate, more_numbers)
    return rng.choices(makers, (32, 20, 10, 14, 12, 8))[0](rng)
