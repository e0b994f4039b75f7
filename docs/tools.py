"""Functions that the model may call: those of a file, a calculator and the current time."""

import tempfile
from pathlib import Path

import gemmachat
from gemmachat.tool_runner import ToolRunner

FUNCTIONS = '''
def get_weather(city: str) -> str:
    """Tell the weather.

    Args:
        city: The name of a city.
    """
    return f"sunny in {city}"
'''

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "weather.py"
    file.write_text(FUNCTIONS)
    # `confirm` is asked before every call; without it all calls are allowed.
    with ToolRunner([file]) as tools, gemmachat.Chat("tiny", tools=tools) as chat:
        answer = chat.ask("How is the weather in Paris?")
        print("calls:", [call.name for call in answer.tool_calls])
        print("answer:", answer.text)
