#!/usr/bin/env python3
"""Shows the page of `anydim explain --html` in a headless Chromium that reaches no network, and
looks at the picture.

usage: explain_page_test.py ANYDIM CHROMIUM
"""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from browser import picture_of

MODEL = pathlib.Path(__file__).resolve().parent.parent / "models/tiny_bert.onnx"
# The first two colours of api/explain_page.cpp: the kinds of regions that take the most time.
COLOURS = {"blue": (0x00, 0x72, 0xB2), "orange": (0xD5, 0x5E, 0x00)}


def main():
    anydim, chromium = (str(pathlib.Path(name).resolve()) for name in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "page.html"
        subprocess.run([
            anydim, "explain", MODEL, "--shape", "input_ids=2x7", "--html", page, "--cache-dir",
            f"{folder}/kernels"], check=True, timeout=300)
        text = page.read_text()
        rows, dom, said = picture_of(chromium, page, 1300, 2200)
    assert "://" not in text.replace(
        "http://www.w3.org/2000/svg",
        "") and "<script" not in text and "nan" not in text, "the page refers to nothing"
    assert not said, f"the browser complains: {said}"
    for part in ('id="timeline"', 'id="regions"', "<h2>Buckets</h2>", "<h2>Facts</h2>"):
        assert part in dom, part
    for name, colour in COLOURS.items():
        drawn = [y for y, row in enumerate(rows) for pixel in row if pixel == colour]
        assert len(drawn) > 200, f"{name} is drawn: {len(drawn)} pixels"
        assert max(drawn) - min(drawn) > 150, f"{name} is drawn in the timeline and in the table"
    print("the page is drawn")


main()
