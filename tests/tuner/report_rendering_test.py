#!/usr/bin/env python3
"""Renders the tuner's report in a headless Chromium that reaches no network, and looks at the
picture.

usage: report_rendering_test.py TEST_TUNER CHROMIUM

TEST_TUNER writes the page of its test HtmlReport.HoldsEverythingAndRefersToNothing.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from browser import picture_of

# The first two colours of tuner/plot.cpp: both plots draw curves with them.
BLUE, ORANGE = (0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)


def main():
    program, chromium = (str(pathlib.Path(name).resolve()) for name in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "report.html"
        subprocess.run([
            program, "--gtest_filter=HtmlReport.HoldsEverythingAndRefersToNothing",
            "--gtest_brief=1"], check=True, env={**os.environ, "ANYDIM_REPORT_FILE": str(page)})
        rows, dom, said = picture_of(chromium, page, 1000, 1800)
    assert not said, f"the browser complains: {said}"
    assert dom.count("<svg ") == 2 and dom.count(
        'class="curve"') == 6, "the browser sees both plots with all curves"
    for name, colour in (("blue", BLUE), ("orange", ORANGE)):
        drawn = [y for y, row in enumerate(rows) for pixel in row if pixel == colour]
        assert len(drawn) > 200, f"{name} curves are drawn: {len(drawn)} pixels"
        assert max(drawn) - min(drawn) > 400, f"{name} curves are drawn in both plots"
    print("the report is drawn")


main()
