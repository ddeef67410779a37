"""The code of docs/python.md."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def blocks():
    text = (ROOT / "docs/python.md").read_text()
    # Each stands at its own line, which a traceback then names.
    return ["\n" * text.count("\n", 0, found.start(1)) + found.group(1) for found in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)]


def run(blocks):
    names = {"__name__": "documented"}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
