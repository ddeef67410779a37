"""Pages in a headless Chromium that reaches no network."""
import pathlib
import struct
import subprocess
import tempfile
import zlib


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
        filtering, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) *
                                                               (stride + 1)])
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


def picture_of(chromium, page, width, height):
    """Rows of pixels, the document as the browser has it, and what it said on its console."""
    with tempfile.TemporaryDirectory() as folder:
        picture = pathlib.Path(folder) / "picture.png"
        common = [
            chromium, "--headless", "--no-sandbox", "--disable-gpu", "--proxy-server=127.0.0.1:9",
            f"--user-data-dir={folder}/profile", "--hide-scrollbars", "--enable-logging=stderr",
            f"--window-size={width},{height}"]
        shown = subprocess.run(
            [*common, f"--screenshot={picture}", page.as_uri()], check=True, timeout=120,
            capture_output=True, text=True)
        dom = subprocess.run([*common, "--dump-dom", page.as_uri()], check=True, timeout=120,
                             capture_output=True, text=True).stdout
        rows = pixels(picture.read_bytes())
    assert len(rows) == height and len(rows[0]) == width
    return rows, dom, [line for line in shown.stderr.splitlines() if "CONSOLE" in line]
