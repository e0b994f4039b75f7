"""An answer that a JSON schema allows."""

import json
import tempfile
from pathlib import Path

import gemmachat
from gemmachat.grammar import read_schema

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "person.json"
    file.write_text(json.dumps(SCHEMA))
    sampling = gemmachat.SamplingParams(temperature=0.0, grammar=read_schema(file))
with gemmachat.Chat("tiny", sampling=sampling) as chat:
    person = json.loads(chat.ask("Give me JSON with name Ann and age 30").text)
    print(person["name"], person["age"])
