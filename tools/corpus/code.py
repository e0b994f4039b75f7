"""Short code: Python functions and classes, and a little bash, SQL, JavaScript, C and HTML."""

import random

from .base import Sample, expand, single
from .code_python import CLASSES, FUNCTIONS, SNIPPETS

ASK_FUNCTION = (
    "Write a Python function that {t}",
    "Write a function in Python that {t}",
    "Can you write a Python function that {t}?",
    "I need a Python function that {t}",
    "Give me a Python function that {t}",
    "Python function that {t}",
    "Show me a Python function that {t}",
    "How do I write a Python function that {t}?",
    "Code a Python function that {t}",
    "Please write a function that {t}",
)
ASK_NAMED = (
    "Write a Python function called {f} that {t}",
    "Write a Python function named {f} that {t}",
    "Write a Python function `{f}` that {t}",
    "Define a Python function {f} that {t}",
    "Make a function {f} in Python that {t}",
)
INTRO = ("Here is a Python function that {t}:", "This function {t}:", "Here it is:", "Sure:")
NAMES = (
    "f", "compute", "solve", "helper", "process", "run_it", "my_func", "calc", "get_result",
    "do_it", "handle", "check", "convert", "work", "apply", "result_of", "step", "find_it",
)  # fmt: skip

TABLES = {
    "users": ("name", "age", "email", "city"),
    "books": ("title", "author", "year", "price"),
    "orders": ("id", "customer", "total", "date"),
    "products": ("name", "price", "stock", "color"),
    "students": ("name", "grade", "age", "school"),
    "employees": ("name", "salary", "team", "city"),
    "cities": ("name", "country", "population", "area"),
    "songs": ("title", "artist", "year", "length"),
    "movies": ("title", "director", "year", "rating"),
    "animals": ("name", "species", "weight", "age"),
    "cars": ("brand", "color", "year", "price"),
    "pets": ("name", "owner", "age", "species"),
}
WORDS = {
    "year": "1990 2000 2010 2015 2020", "age": "5 12 18 21 30 65", "price": "5 10 20 50 100",
    "stock": "0 5 10 50", "grade": "1 2 3 4", "salary": "2000 3000 5000", "total": "50 100 500",
    "population": "1000 50000 1000000", "area": "10 100 500", "length": "100 180 240",
    "rating": "3 4 5 8", "weight": "1 5 20 100", "id": "1 7 12 42",
}  # fmt: skip
FOLDERS = ("docs", "src", "logs", "data", "photos", "backup", "notes", "music", "tests", "build")
FILES = ("notes.txt", "data.csv", "log.txt", "words.txt", "names.txt", "todo.md", "list.txt")
EXTENSIONS = ("txt", "py", "md", "csv", "log", "json", "jpg", "c")


def _function(rng: random.Random) -> Sample:
    tasks, variants, default = rng.choice(FUNCTIONS)
    task = rng.choice(tasks)
    body = rng.choice(variants)
    name = default
    frames = ASK_FUNCTION
    if rng.random() < 0.35:
        name, frames = rng.choice((default, *NAMES)), ASK_NAMED
    ask = rng.choice(frames).replace("{f}", name).replace("{t}", task)
    code = expand_names(rng, body).replace("FN", name)
    intro = rng.choice(INTRO).replace("{t}", tasks[0])
    return single("code", ask, f"{intro}\n```python\n{code}\n```")


def expand_names(rng: random.Random, body: str) -> str:
    """Replaces the placeholder names of a code template by everyday ones."""
    text = rng.choice(("text", "s", "word"))
    items = rng.choice(("numbers", "items", "values"))
    return body.replace("TEXT", text).replace("ITEMS", items)


def _snippet(rng: random.Random) -> Sample:
    asks, intro, code = rng.choice(SNIPPETS)
    number = str(rng.choice((3, 5, 8, 10, 12, 20, 50, 100)))
    file = rng.choice(FILES)
    ask = expand(rng, rng.choice(asks)).replace("{n}", number).replace("{file}", file)
    code = code.replace("{n}", number).replace("{file}", file)
    return single("code", ask, f"{intro}\n```python\n{code}\n```")


def _class(rng: random.Random) -> Sample:
    name, what, code = rng.choice(CLASSES)
    ask = rng.choice(
        (
            "Write a Python class for {w}", "Write a class {n} in Python", "Python class for {w}",
            "Can you write a Python class named {n}?", "Show me a Python class for {w}",
            "Make a Python class {n}", "I need a class for {w} in Python",
        )
    )  # fmt: skip
    ask = ask.replace("{w}", what).replace("{n}", name)
    intro = rng.choice((f"Here is a class for {what}:", "Here it is:", "Sure:"))
    return single("code", ask, f"{intro}\n```python\n{code}\n```")


def _sql(rng: random.Random) -> Sample:
    table, columns = rng.choice(list(TABLES.items()))
    numeric = [c for c in columns if c in WORDS]
    column, number = rng.choice(columns), rng.choice(numeric)
    value = rng.choice(WORDS[number].split())
    asks, query = rng.choice(
        (
            (("selects all {t}", "gets all rows from {t}", "shows everything in {t}"),
             "SELECT * FROM {t};"),
            (("counts the {t}", "returns the number of {t}", "counts all rows in {t}"),
             "SELECT COUNT(*) FROM {t};"),
            (("selects the {c} of all {t}", "gets every {c} from {t}"), "SELECT {c} FROM {t};"),
            (("finds {t} with {k} above {v}", "selects {t} where {k} is greater than {v}"),
             "SELECT * FROM {t} WHERE {k} > {v};"),
            (("finds {t} with {k} below {v}", "selects {t} where {k} is less than {v}"),
             "SELECT * FROM {t} WHERE {k} < {v};"),
            (("finds {t} with {k} equal to {v}", "selects {t} where {k} is {v}"),
             "SELECT * FROM {t} WHERE {k} = {v};"),
            (("sorts {t} by {c}", "lists {t} ordered by {c}"), "SELECT * FROM {t} ORDER BY {c};"),
            (("deletes {t} with {k} below {v}", "removes {t} where {k} is less than {v}"),
             "DELETE FROM {t} WHERE {k} < {v};"),
            (("gets the average {k} of {t}", "computes the average {k} in {t}"),
             "SELECT AVG({k}) FROM {t};"),
            (("gets the largest {k} of {t}", "finds the maximum {k} in {t}"),
             "SELECT MAX({k}) FROM {t};"),
        )
    )  # fmt: skip
    frame = rng.choice(
        ("Write a SQL query that {a}", "SQL query that {a}", "Give me SQL that {a}",
         "Write SQL that {a}", "I need a SQL query that {a}")
    )  # fmt: skip
    fill = {"{t}": table, "{c}": column, "{k}": number, "{v}": value}
    ask = frame.replace("{a}", rng.choice(asks))
    for mark, word in fill.items():
        ask, query = ask.replace(mark, word), query.replace(mark, word)
    return single("code", ask, f"```sql\n{query}\n```")


def _bash(rng: random.Random) -> Sample:
    asks, code = rng.choice(
        (
            ("list all files in {d}|show the files in the folder {d}", "ls -l {d}"),
            ("count the lines of {f}|find out how many lines {f} has", "wc -l {f}"),
            ("count the words in {f}|find out how many words {f} has", "wc -w {f}"),
            ("find all {e} files|search for files ending in .{e}", 'find . -name "*.{e}"'),
            ("make a folder called {d}|create the folder {d}", "mkdir -p {d}"),
            ("copy {f} to {d}|put a copy of {f} into {d}", "cp {f} {d}/"),
            ("move {f} to {d}|move {f} into the folder {d}", "mv {f} {d}/"),
            ("delete {f}|remove the file {f}", "rm {f}"),
            ("show the first {n} lines of {f}|print the top {n} lines of {f}", "head -n {n} {f}"),
            ("show the last {n} lines of {f}|print the end of {f}, {n} lines", "tail -n {n} {f}"),
            ("search for the word {w} in {f}|find {w} in {f}", 'grep "{w}" {f}'),
            ("sort the lines of {f}|print {f} in sorted order", "sort {f}"),
            ("show the size of the folder {d}|find out how big {d} is", "du -sh {d}"),
            ("print the numbers from 1 to {n}|count from 1 to {n}",
             "for i in $(seq 1 {n}); do\n  echo $i\ndone"),
            ("send {f} to gemmachat|ask gemmachat about {f}",
             'cat {f} | gemmachat run tiny "What is this?"'),
        )
    )  # fmt: skip
    frame = rng.choice(
        ("How do I {a} in bash?", "Bash command to {a}", "How can I {a} in the terminal?",
         "Write a bash command to {a}", "Which shell command can {a}?", "How do I {a} in Linux?")
    )  # fmt: skip
    fill = {
        "{d}": rng.choice(FOLDERS), "{f}": rng.choice(FILES), "{e}": rng.choice(EXTENSIONS),
        "{n}": str(rng.choice((3, 5, 10, 20))),
        "{w}": rng.choice(("error", "hello", "TODO", "fox")),
    }  # fmt: skip
    ask = frame.replace("{a}", rng.choice(asks.split("|")))
    for mark, word in fill.items():
        ask, code = ask.replace(mark, word), code.replace(mark, word)
    return single("code", ask, f"```bash\n{code}\n```")


OTHERS = (
    ("javascript", "JavaScript", (
        ("prints hello", 'console.log("Hello!");'),
        ("adds two numbers", "function add(a, b) {\n  return a + b;\n}"),
        ("multiplies two numbers", "function multiply(a, b) {\n  return a * b;\n}"),
        ("reverses a string", 'function reverse(s) {\n  return s.split("").reverse().join("");\n}'),
        ("doubles every number of an array", "const doubled = numbers.map((n) => n * 2);"),
        ("keeps the even numbers of an array",
         "const even = numbers.filter((n) => n % 2 === 0);"),
        ("finds the largest number of an array", "const largest = Math.max(...numbers);"),
        ("sums an array", "const total = numbers.reduce((sum, n) => sum + n, 0);"),
        ("checks whether a number is even", "function isEven(n) {\n  return n % 2 === 0;\n}"),
        ("counts from 1 to 10", "for (let i = 1; i <= 10; i++) {\n  console.log(i);\n}"),
    )),
    ("c", "C", (
        ("prints hello",
         '#include <stdio.h>\n\nint main(void) {\n    printf("Hello!\\n");\n    return 0;\n}'),
        ("adds two numbers", "int add(int a, int b) {\n    return a + b;\n}"),
        ("multiplies two numbers", "int multiply(int a, int b) {\n    return a * b;\n}"),
        ("returns the larger of two numbers",
         "int larger(int a, int b) {\n    return a > b ? a : b;\n}"),
        ("computes the factorial",
         "int factorial(int n) {\n    int result = 1;\n    for (int i = 2;"
         " i <= n; i++) {\n        result *= i;\n    }\n    return result;\n}"),
        ("sums an array", "int sum(const int *values, int n) {\n    int total = 0;\n    for (int i"
         " = 0; i < n; i++) {\n        total += values[i];\n    }\n    return total;\n}"),
        ("checks whether a number is even", "int is_even(int n) {\n    return n % 2 == 0;\n}"),
    )),
    ("html", "HTML", (
        ("shows a heading", "<h1>Hello!</h1>"),
        ("shows a link", '<a href="https://example.com">Example</a>'),
        ("shows a list", "<ul>\n  <li>One</li>\n  <li>Two</li>\n  <li>Three</li>\n</ul>"),
        ("shows a button", "<button>Click me</button>"),
    )),
)  # fmt: skip


def _other(rng: random.Random) -> Sample:
    tag, language, tasks = rng.choice(OTHERS)
    task, code = rng.choice(tasks)
    frame = rng.choice(
        ("Write {l} code that {t}", "{l} code that {t}", "Show me {l} code that {t}",
         "Can you write {l} that {t}?", "I need {l} code that {t}", "In {l}, write code that {t}")
    )  # fmt: skip
    ask = frame.replace("{l}", language).replace("{t}", task)
    intro = rng.choice((f"Here is {language} code that {task}:\n", ""))
    return single("code", ask, f"{intro}```{tag}\n{code}\n```")


def code(rng: random.Random) -> Sample:
    """A request for a few lines of code."""
    makers = (_function, _snippet, _class, _sql, _bash, _other)
    return rng.choices(makers, (40, 18, 8, 12, 12, 10))[0](rng)
