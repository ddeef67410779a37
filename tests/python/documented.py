"""The Python code of the documentation's pages."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def blocks(page="docs/python.md"):
    text = (ROOT / page).read_text()
    # Each stands at its own line, which a traceback then names.
    return [
        "\n" * text.count("\n", 0, found.start(1)) + found.group(1)
        for found in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)]


def run(blocks, page="docs/python.md", **given):
    """All blocks as one program, which finds what is `given` under these names."""
    names = {"__name__": "documented", **given}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
