"""Templates of short Python programs. FN is the function's name, TEXT and ITEMS its parameters."""

FUNCTIONS: tuple[tuple[tuple[str, ...], tuple[str, ...], str], ...] = (
    (("adds two numbers", "returns the sum of two numbers"),
     ("def FN(a, b):\n    return a + b",), "add"),
    (("subtracts two numbers", "returns the difference of two numbers"),
     ("def FN(a, b):\n    return a - b",), "subtract"),
    (("multiplies two numbers", "returns the product of two numbers"),
     ("def FN(a, b):\n    return a * b",), "multiply"),
    (("divides two numbers", "divides a by b safely"),
     ("def FN(a, b):\n    if b == 0:\n        raise ValueError(\"b must not be zero\")\n"
      "    return a / b",), "divide"),
    (("computes the factorial of a number", "calculates n factorial", "returns the factorial of n"),
     ("def FN(n):\n    result = 1\n    for i in range(2, n + 1):\n        result *= i\n"
      "    return result",
      "def FN(n):\n    if n <= 1:\n        return 1\n    return n * FN(n - 1)"), "factorial"),
    (("computes the n-th Fibonacci number", "returns Fibonacci numbers",
      "calculates the Fibonacci sequence"),
     ("def FN(n):\n    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a",
      ), "fibonacci"),
    (("reverses a string", "turns a string around", "returns a string backwards"),
     ("def FN(TEXT):\n    return TEXT[::-1]",), "reverse"),
    (("checks whether a string is a palindrome", "tests for palindromes",
      "says if a word is a palindrome"),
     ("def FN(TEXT):\n    TEXT = TEXT.lower()\n    return TEXT == TEXT[::-1]",), "is_palindrome"),
    (("sorts a list", "sorts a list of numbers", "returns a sorted list"),
     ("def FN(ITEMS):\n    return sorted(ITEMS)",), "sort_list"),
    (("sorts a list in descending order", "sorts numbers from large to small"),
     ("def FN(ITEMS):\n    return sorted(ITEMS, reverse=True)",), "sort_descending"),
    (("finds the largest number of a list", "returns the maximum of a list"),
     ("def FN(ITEMS):\n    return max(ITEMS)",
      "def FN(ITEMS):\n    best = ITEMS[0]\n    for x in ITEMS:\n        if x > best:\n"
      "            best = x\n    return best"), "largest"),
    (("finds the smallest number of a list", "returns the minimum of a list"),
     ("def FN(ITEMS):\n    return min(ITEMS)",), "smallest"),
    (("sums a list", "adds up all numbers of a list", "returns the total of a list"),
     ("def FN(ITEMS):\n    return sum(ITEMS)",
      "def FN(ITEMS):\n    total = 0\n    for x in ITEMS:\n        total += x\n    return total"),
     "total"),
    (("computes the average of a list", "returns the mean of a list of numbers"),
     ("def FN(ITEMS):\n    return sum(ITEMS) / len(ITEMS)",), "average"),
    (("counts the words in a text", "returns the number of words in a string"),
     ("def FN(TEXT):\n    return len(TEXT.split())",), "count_words"),
    (("counts the vowels in a string", "returns the number of vowels in a word"),
     ("def FN(TEXT):\n    return sum(c in \"aeiou\" for c in TEXT.lower())",), "count_vowels"),
    (("counts how often each word occurs", "counts word frequencies"),
     ("def FN(TEXT):\n    counts = {}\n    for word in TEXT.split():\n"
      "        counts[word] = counts.get(word, 0) + 1\n    return counts",), "word_counts"),
    (("computes the greatest common divisor", "returns the gcd of two numbers"),
     ("def FN(a, b):\n    while b:\n        a, b = b, a % b\n    return a",), "gcd"),
    (("checks whether a number is prime", "tests if n is a prime number"),
     ("def FN(n):\n    if n < 2:\n        return False\n    for i in range(2, int(n ** 0.5) + 1):\n"
      "        if n % i == 0:\n            return False\n    return True",), "is_prime"),
    (("lists all primes up to n", "returns the prime numbers below n"),
     ("def FN(n):\n    primes = []\n    for i in range(2, n + 1):\n"
      "        if all(i % p for p in primes):\n            primes.append(i)\n    return primes",),
     "primes"),
    (("plays FizzBuzz", "prints FizzBuzz up to n", "solves FizzBuzz"),
     ("def FN(n):\n    for i in range(1, n + 1):\n        if i % 15 == 0:\n"
      "            print(\"FizzBuzz\")\n        elif i % 3 == 0:\n            print(\"Fizz\")\n"
      "        elif i % 5 == 0:\n            print(\"Buzz\")\n        else:\n"
      "            print(i)",),
     "fizzbuzz"),
    (("reads a file", "reads a text file", "returns the content of a file"),
     ("def FN(path):\n    with open(path, encoding=\"utf-8\") as file:\n        return file.read()",
      ), "read_file"),
    (("writes text to a file", "saves a string to a file"),
     ("def FN(path, text):\n    with open(path, \"w\", encoding=\"utf-8\") as file:\n"
      "        file.write(text)",), "write_file"),
    (("counts the lines of a file", "returns the number of lines in a file"),
     ("def FN(path):\n    with open(path, encoding=\"utf-8\") as file:\n"
      "        return sum(1 for _ in file)",), "count_lines"),
    (("removes duplicates from a list", "returns the unique elements of a list"),
     ("def FN(ITEMS):\n    return list(dict.fromkeys(ITEMS))",), "unique"),
    (("keeps the even numbers of a list", "filters even numbers"),
     ("def FN(ITEMS):\n    return [x for x in ITEMS if x % 2 == 0]",), "even_numbers"),
    (("keeps the odd numbers of a list", "filters odd numbers"),
     ("def FN(ITEMS):\n    return [x for x in ITEMS if x % 2 == 1]",), "odd_numbers"),
    (("squares every number of a list", "returns the squares of a list"),
     ("def FN(ITEMS):\n    return [x * x for x in ITEMS]",), "squares"),
    (("doubles every number of a list", "multiplies each number of a list by two"),
     ("def FN(ITEMS):\n    return [2 * x for x in ITEMS]",), "double"),
    (("checks whether a number is even", "tests if a number is even"),
     ("def FN(n):\n    return n % 2 == 0",), "is_even"),
    (("checks whether a number is odd", "tests if a number is odd"),
     ("def FN(n):\n    return n % 2 == 1",), "is_odd"),
    (("converts Celsius to Fahrenheit", "turns degrees Celsius into Fahrenheit"),
     ("def FN(celsius):\n    return celsius * 9 / 5 + 32",), "to_fahrenheit"),
    (("converts Fahrenheit to Celsius", "turns degrees Fahrenheit into Celsius"),
     ("def FN(fahrenheit):\n    return (fahrenheit - 32) * 5 / 9",), "to_celsius"),
    (("checks for a leap year", "says whether a year is a leap year"),
     ("def FN(year):\n    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)",),
     "is_leap_year"),
    (("computes the power of a number", "raises a number to a power"),
     ("def FN(base, exponent):\n    return base ** exponent",), "power"),
    (("converts a string to upper case", "makes a text upper case"),
     ("def FN(TEXT):\n    return TEXT.upper()",), "shout"),
    (("greets a person by name", "prints a greeting"),
     ("def FN(name):\n    print(f\"Hello, {name}!\")",), "greet"),
    (("computes the area of a circle", "returns the area of a circle"),
     ("import math\n\n\ndef FN(radius):\n    return math.pi * radius ** 2",), "circle_area"),
    (("computes the area of a rectangle", "returns the area of a rectangle"),
     ("def FN(width, height):\n    return width * height",), "rectangle_area"),
    (("returns the absolute value of a number", "computes the absolute value"),
     ("def FN(n):\n    return -n if n < 0 else n",), "absolute"),
    (("searches a sorted list with binary search", "does a binary search"),
     ("def FN(ITEMS, wanted):\n    low, high = 0, len(ITEMS) - 1\n    while low <= high:\n"
      "        mid = (low + high) // 2\n        if ITEMS[mid] == wanted:\n            return mid\n"
      "        if ITEMS[mid] < wanted:\n            low = mid + 1\n        else:\n"
      "            high = mid - 1\n    return -1",), "binary_search"),
    (("joins words with commas", "joins a list of words with commas"),
     ("def FN(words):\n    return \", \".join(words)",), "join_words"),
    (("merges two dictionaries", "combines two dictionaries"),
     ("def FN(first, second):\n    return {**first, **second}",), "merge"),
    (("loads a JSON file", "reads a JSON file"),
     ("import json\n\n\ndef FN(path):\n    with open(path, encoding=\"utf-8\") as file:\n"
      "        return json.load(file)",), "load_json"),
    (("flattens a list of lists", "turns nested lists into one list"),
     ("def FN(lists):\n    return [x for part in lists for x in part]",), "flatten"),
    (("counts the digits of a number", "returns the number of digits of n"),
     ("def FN(n):\n    return len(str(abs(n)))",), "count_digits"),
    (("sums the digits of a number", "returns the digit sum of n"),
     ("def FN(n):\n    return sum(int(d) for d in str(n))",), "digit_sum"),
    (("swaps two values", "swaps two variables"),
     ("def FN(a, b):\n    return b, a",), "swap"),
    (("rolls a dice", "returns a random dice roll"),
     ("import random\n\n\ndef FN():\n    return random.randint(1, 6)",), "roll_dice"),
)  # fmt: skip

SNIPPETS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("[Print|Show] the numbers from 1 to {n} in Python", "How do I count to {n} in Python?",
      "Python loop from 1 to {n}", "Write a Python loop that counts to {n}",
      "Write a for loop in Python from 1 to {n}"),
     "Use a for loop:", "for i in range(1, {n} + 1):\n    print(i)"),
    (("How do I print hello in Python?", "Hello world in Python", "Write hello world in Python",
      "Show me a hello world program"), "Here it is:", "print(\"Hello, world!\")"),
    (("How do I read [the file |]{file} in Python?", "Read {file} in Python",
      "Open {file} in Python", "Python code to read {file}"), "Use `open` with a context manager:",
     "with open(\"{file}\", encoding=\"utf-8\") as file:\n    text = file.read()"),
    (("How do I write to {file} in Python?", "Write a line to {file} in Python",
      "Python code to write to {file}"), "Open the file in write mode:",
     "with open(\"{file}\", \"w\", encoding=\"utf-8\") as file:\n    file.write(\"Hello!\\n\")"),
    (("Print every line of {file} in Python", "How do I go through the lines of {file} in Python?",
      "Python loop over the lines of {file}"), "Loop over the file:",
     "with open(\"{file}\", encoding=\"utf-8\") as file:\n    for line in file:\n"
     "        print(line.rstrip())"),
    (("How do I make a list in Python?", "Create a list in Python", "Python list example"),
     "Write the items in square brackets:", "fruits = [\"apple\", \"pear\", \"plum\"]"),
    (("How do I make a dictionary in Python?", "Create a dictionary in Python",
      "Python dict example"), "Write keys and values in braces:",
     "ages = {\"Ann\": 30, \"Ben\": 25}"),
    (("How do I loop over a dictionary in Python?", "Loop over a dict in Python",
      "Python loop over keys and values"), "Use `items`:",
     "for key, value in ages.items():\n    print(key, value)"),
    (("How do I loop over a list in Python?", "Python loop over a list",
      "Go through a list in Python"), "Use a for loop:", "for item in items:\n    print(item)"),
    (("How do I catch an error in Python?", "Python try except example",
      "How do I handle exceptions in Python?"), "Use try and except:",
     "try:\n    value = int(text)\nexcept ValueError:\n    value = 0"),
    (("How do I ask the user for a name in Python?", "Read input from the user in Python",
      "How do I get input in Python?"), "Use `input`:",
     "name = input(\"Your name: \")\nprint(f\"Hello, {name}!\")"),
    (("Make a list of the squares up to {n} in Python", "Python squares up to {n}",
      "List comprehension with squares up to {n}"), "Use a list comprehension:",
     "squares = [x * x for x in range(1, {n} + 1)]"),
    (("How do I get a random number up to {n} in Python?", "Random number from 1 to {n} in Python",
      "Python random number between 1 and {n}"), "Use the `random` module:",
     "import random\n\nnumber = random.randint(1, {n})"),
    (("How do I get today's date in Python?", "Print the date in Python",
      "Python code for the current date"), "Use the `datetime` module:",
     "from datetime import date\n\nprint(date.today())"),
    (("How do I wait {n} seconds in Python?", "Sleep for {n} seconds in Python",
      "Pause a Python program for {n} seconds"), "Use `time.sleep`:",
     "import time\n\ntime.sleep({n})"),
    (("Sum the numbers from 1 to {n} in Python", "Python sum from 1 to {n}",
      "How do I add the numbers from 1 to {n} in Python?"), "Use `sum` with a range:",
     "total = sum(range(1, {n} + 1))\nprint(total)"),
    (("How do I turn a dict into JSON in Python?", "Convert a dictionary to JSON in Python",
      "Python dict to JSON"), "Use the `json` module:",
     "import json\n\ntext = json.dumps(data)"),
    (("How do I split a string in Python?", "Split a text into words in Python",
      "Python split example"), "Use `split`:", "words = text.split()"),
    (("How do I run gemmachat from Python?", "Call gemmachat in Python",
      "Use gemmachat in a Python script"), "Run it as a process:",
     "import subprocess\n\ncommand = [\"gemmachat\", \"run\", \"tiny\", \"hello\"]\n"
     "result = subprocess.run(command, capture_output=True, text=True)\nprint(result.stdout)"),
)  # fmt: skip

CLASSES: tuple[tuple[str, str, str], ...] = (
    ("Dog", "a dog", "class Dog:\n    def __init__(self, name):\n        self.name = name\n\n"
     "    def bark(self):\n        print(f\"{self.name} says woof!\")"),
    ("Cat", "a cat", "class Cat:\n    def __init__(self, name):\n        self.name = name\n\n"
     "    def meow(self):\n        print(f\"{self.name} says meow!\")"),
    ("Point", "a point", "class Point:\n    def __init__(self, x, y):\n        self.x = x\n"
     "        self.y = y"),
    ("Stack", "a stack", "class Stack:\n    def __init__(self):\n        self.items = []\n\n"
     "    def push(self, item):\n        self.items.append(item)\n\n    def pop(self):\n"
     "        return self.items.pop()"),
    ("Queue", "a queue", "from collections import deque\n\n\nclass Queue:\n"
     "    def __init__(self):\n"
     "        self.items = deque()\n\n    def put(self, item):\n        self.items.append(item)\n\n"
     "    def get(self):\n        return self.items.popleft()"),
    ("Counter", "a counter", "class Counter:\n    def __init__(self):\n        self.value = 0\n\n"
     "    def increase(self):\n        self.value += 1"),
    ("Account", "a bank account", "class Account:\n    def __init__(self, balance=0):\n"
     "        self.balance = balance\n\n    def deposit(self, amount):\n"
     "        self.balance += amount\n\n    def withdraw(self, amount):\n"
     "        if amount > self.balance:\n            raise ValueError(\"not enough money\")\n"
     "        self.balance -= amount"),
    ("Person", "a person", "class Person:\n    def __init__(self, name, age):\n"
     "        self.name = name\n        self.age = age\n\n    def greet(self):\n"
     "        print(f\"Hello, I am {self.name}.\")"),
    ("Book", "a book", "class Book:\n    def __init__(self, title, author):\n"
     "        self.title = title\n        self.author = author"),
    ("Rectangle", "a rectangle", "class Rectangle:\n    def __init__(self, width, height):\n"
     "        self.width = width\n        self.height = height\n\n    def area(self):\n"
     "        return self.width * self.height"),
)  # fmt: skip
