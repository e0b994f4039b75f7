"""JSON on request, fields read from a sentence, and calls of a declared tool."""

import json
import random
from collections.abc import Callable

from .base import Sample, Turn, control, single
from .words import CITIES, COLORS, JOBS, NAMES

ITEMS = ("apple", "pear", "milk", "bread", "lamp", "book", "chair", "pen", "cup", "shirt", "phone",
         "tea", "rice", "ball", "clock", "bag", "hat", "key", "desk", "cake")  # fmt: skip
ASK = (
    "Give me JSON with {d}", "Write JSON with {d}", "Make a JSON object with {d}",
    "Create a JSON object with {d}", "JSON with {d}", "I need JSON with {d}",
    "Return a JSON object with {d}", "Show me a JSON object with {d}",
    "Can you make JSON with {d}?",
    "Please output JSON with {d}",
)  # fmt: skip
Value = str | int | bool
FIELDS: dict[str, Callable[[random.Random], Value]] = {
    "name": lambda r: r.choice(NAMES),
    "age": lambda r: r.randint(5, 90),
    "city": lambda r: r.choice(CITIES),
    "job": lambda r: r.choice(JOBS),
    "color": lambda r: r.choice(COLORS),
    "item": lambda r: r.choice(ITEMS),
    "price": lambda r: r.randint(1, 99),
    "count": lambda r: r.randint(1, 50),
    "year": lambda r: r.randint(1950, 2026),
    "active": lambda r: r.random() < 0.5,
    "id": lambda r: r.randint(1, 999),
    "friend": lambda r: r.choice(NAMES),
}


def dump(value: object) -> str:
    """JSON in one line."""
    return json.dumps(value, ensure_ascii=False)


def _say(value: Value) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _object(rng: random.Random) -> Sample:
    names = rng.sample(list(FIELDS), rng.choice((1, 2, 2, 2, 3, 3, 4)))
    values = {name: FIELDS[name](rng) for name in names}
    joiner = rng.choice((" ", " ", " = ", ": "))
    parts = [f"{name}{joiner}{_say(value)}" for name, value in values.items()]
    text = parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
    return single("json", rng.choice(ASK).replace("{d}", text), dump(values))


def _array(rng: random.Random) -> Sample:
    pool = rng.choice((ITEMS, COLORS, NAMES, CITIES))
    words = rng.sample(pool, rng.randint(2, 5))
    text = ", ".join(words[:-1]) + " and " + words[-1]
    ask = rng.choice(
        ("Make a JSON array of {w}", "JSON list with {w}", "Turn this into a JSON list: {w}",
         "Write {w} as a JSON array", "Give me a JSON array with {w}", "A JSON list of {w}")
    )  # fmt: skip
    return single("json", ask.replace("{w}", text), dump(words))


def _nested(rng: random.Random) -> Sample:
    name, age, city, _ = (FIELDS[k](rng) for k in ("name", "age", "city", "job"))
    shape = rng.randrange(3)
    if shape == 0:
        ask = f"JSON for {name}, {age} years old, with an address in {city}"
        value: object = {"name": name, "age": age, "address": {"city": city}}
    elif shape == 1:
        friends = rng.sample(NAMES, 2)
        ask = f"JSON for {name} with the friends {friends[0]} and {friends[1]}"
        value = {"name": name, "friends": friends}
    else:
        item, price, count = (FIELDS[k](rng) for k in ("item", "price", "count"))
        ask = f"JSON for an order of {count} {item}s at {price} each by {name}"
        value = {"customer": name, "order": {"item": item, "count": count, "price": price}}
    frame = rng.choice(("{a}", "Write {a}", "Give me {a}", "Please make {a}", "I need {a}"))
    return single("json", frame.replace("{a}", ask), dump(value))


SENTENCES = (
    ("{name} is {age} years old and lives in {city}.", ("name", "age", "city")),
    ("{name} is a {job} in {city}.", ("name", "job", "city")),
    ("{name} works as a {job} and is {age}.", ("name", "job", "age")),
    ("My name is {name} and I am {age} years old.", ("name", "age")),
    ("I am {name} from {city}.", ("name", "city")),
    ("{name} bought {count} {item}s for {price} dollars.", ("name", "count", "item", "price")),
    ("The {item} is {color} and costs {price} dollars.", ("item", "color", "price")),
    ("In {year} {name} moved to {city}.", ("year", "name", "city")),
    ("{name} has a {color} {item}.", ("name", "color", "item")),
)


def _extract(rng: random.Random) -> Sample:
    sentence, names = rng.choice(SENTENCES)
    values = {name: FIELDS[name](rng) for name in names}
    text = sentence
    for name, value in values.items():
        text = text.replace("{" + name + "}", str(value))
    if rng.random() < 0.4:
        wanted = rng.choice(names)
        ask = rng.choice(
            ('What is the {w} in this sentence? "{t}"', 'Find the {w}: "{t}"',
             'Extract the {w}: {t}', '{t} What is the {w}?')
        )  # fmt: skip
        answer = str(values[wanted])
        return single("json", ask.replace("{w}", wanted).replace("{t}", text), answer)
    wanted_names = list(names)
    fields = ", ".join(wanted_names[:-1]) + " and " + wanted_names[-1]
    ask = rng.choice(
        ("Extract {f} as JSON: {t}", "Read this and give me JSON with {f}: {t}",
         "Turn this sentence into JSON with {f}: {t}", "{t} Give me {f} as JSON.",
         'Get {f} from this text as JSON: "{t}"')
    )  # fmt: skip
    ask = ask.replace("{f}", fields).replace("{t}", text)
    return single("json", ask, dump(values))


def _quote(text: str) -> str:
    mark = control('<|"|>')
    return f"{mark}{text}{mark}"


Tool = tuple[str, str, str, str, tuple[str, ...], str]
TOOLS: tuple[Tool, ...] = (
    ("get_weather", "Gives the current weather of a city", "city", "city",
     ("What is the weather in {v}?", "How is the weather in {v} today?", "Weather in {v}?",
      "Is it raining in {v}?", "Tell me the weather in {v}", "Is it warm in {v}?"),
     "sunny|rainy|cloudy|windy|snowy"),
    ("get_time", "Gives the current time of a city", "city", "city",
     ("What time is it in {v}?", "Current time in {v}?", "How late is it in {v}?",
      "Tell me the time in {v}"), "08:15|09:30|12:00|14:45|18:20|22:10"),
    ("get_price", "Gives the price of an item", "item", "item",
     ("How much is a {v}?", "What does a {v} cost?", "Price of a {v}?",
      "Tell me the price of a {v}"), "5 dollars|12 dollars|20 dollars|49 dollars"),
    ("get_age", "Gives the age of a person", "name", "name",
     ("How old is {v}?", "What is the age of {v}?", "Tell me how old {v} is"), "12|25|34|61|80"),
    ("get_job", "Gives the job of a person", "name", "name",
     ("What does {v} do for work?", "What is the job of {v}?", "Which job does {v} have?"),
     "doctor|teacher|baker|pilot|nurse"),
)  # fmt: skip
REPLIES = {
    "get_weather": "It is {r} in {v}.",
    "get_time": "It is {r} in {v}.",
    "get_price": "The {v} costs {r}.",
    "get_age": "{v} is {r} years old.",
    "get_job": "{v} works as a {r}.",
}


def declaration(tool: Tool) -> str:
    """The declaration of a tool in Gemma 4's notation."""
    name, about, parameter, _, _, _ = tool
    properties = f"{parameter}:{{type:{_quote('STRING')}}}"
    body = (
        f"description:{_quote(about)},parameters:{{properties:{{{properties}}},"
        f"required:[{_quote(parameter)}],type:{_quote('OBJECT')}}}"
    )
    return f"{control('<|tool>')}declaration:{name}{{{body}}}{control('<tool|>')}"


def _tool(rng: random.Random) -> Sample:
    tool = rng.choice(TOOLS)
    name, _, parameter, kind, asks, results = tool
    value = str(FIELDS[kind](rng))
    ask = rng.choice(asks).replace("{v}", value)
    call = (
        f"{control('<|tool_call>')}call:{name}{{{parameter}:{_quote(value)}}}"
        f"{control('<tool_call|>')}"
    )
    result = rng.choice(results.split("|"))
    response = (
        f"{control('<|tool_response>')}response:{name}{{value:{_quote(result)}}}"
        f"{control('<tool_response|>')}"
    )
    declared = [tool]
    if rng.random() < 0.4:
        declared.insert(rng.randint(0, 1), rng.choice([t for t in TOOLS if t is not tool]))
    system = Turn("system", "".join(map(declaration, declared)))
    if rng.random() < 0.4:
        # Generation stops at the tool_response token, so the call is trained to end with it.
        answer = call + control("<|tool_response>")
        return Sample("tools", (system, Turn("user", ask, ask), Turn("model", answer)))
    reply = REPLIES[name].replace("{r}", result).replace("{v}", value)
    return Sample("tools", (system, Turn("user", ask, ask), Turn("model", call + response + reply)))


def data(rng: random.Random) -> Sample:
    """A request for JSON, for fields of a sentence, or one that needs a tool."""
    makers = (_object, _array, _nested, _extract, _tool)
    return rng.choices(makers, (32, 12, 12, 24, 20))[0](rng)
