#!/usr/bin/env python3
"""Renders the tuner's report in a headless Chromium that reaches no network, and looks at the picture.

usage: report_rendering_test.py TEST_TUNER CHROMIUM

TEST_TUNER writes the page of its test HtmlReport.HoldsEverythingAndRefersToNothing.
"""
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

# The first two colours of tuner/plot.cpp: both plots draw curves with them.
BLUE, ORANGE = (0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)
WIDTH, HEIGHT = 1000, 1800


def pixels(png):
    """Rows of (r, g, b) of a PNG of 8-bit RGB or RGBA without interlacing."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, data = 8, b""
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            assert depth == 8 and colour in (2, 6) and interlaced == 0
            size = 3 if colour == 2 else 4
        elif kind == b"IDAT":
            data += body
        at += 12 + length
    raw, stride, before, rows = zlib.decompress(data), width * size, bytes(width * size), []
    for y in range(height):
        filtering, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride):
            left = line[i - size] if i >= size else 0
            above, corner = before[i], before[i - size] if i >= size else 0
            if filtering == 1:
                guess = left
            elif filtering == 2:
                guess = above
            elif filtering == 3:
                guess = (left + above) // 2
            elif filtering == 4:
                estimate = left + above - corner
                guess = min((left, above, corner), key=lambda value: abs(estimate - value))
            else:
                guess = 0
            line[i] = (line[i] + guess) & 255
        before = bytes(line)
        rows.append([tuple(line[x * size:x * size + 3]) for x in range(width)])
    return rows


def main():
    program, chromium = (str(pathlib.Path(name).resolve()) for name in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        page, picture = pathlib.Path(folder) / "report.html", pathlib.Path(folder) / "report.png"
        subprocess.run([program, "--gtest_filter=HtmlReport.HoldsEverythingAndRefersToNothing", "--gtest_brief=1"], check=True,
                       env={**os.environ, "ANYDIM_REPORT_FILE": str(page)})
        common = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--proxy-server=127.0.0.1:9", f"--user-data-dir={folder}/profile",
                  f"--window-size={WIDTH},{HEIGHT}"]
        subprocess.run([*common, f"--screenshot={picture}", page.as_uri()], check=True, timeout=120, capture_output=True)
        dom = subprocess.run([*common, "--dump-dom", page.as_uri()], check=True, timeout=120, capture_output=True, text=True).stdout
        rows = pixels(picture.read_bytes())
    assert len(rows) == HEIGHT and len(rows[0]) == WIDTH
    assert dom.count("<svg ") == 2 and dom.count('class="curve"') == 6, "the browser sees both plots with all curves"
    for name, colour in (("blue", BLUE), ("orange", ORANGE)):
        drawn = [y for y, row in enumerate(rows) for pixel in row if pixel == colour]
        assert len(drawn) > 200, f"{name} curves are drawn: {len(drawn)} pixels"
        assert max(drawn) - min(drawn) > 400, f"{name} curves are drawn in both plots"
    print("the report is drawn")


main()
