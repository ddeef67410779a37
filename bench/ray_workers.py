"""Processes of Ray's on this machine."""
import pathlib


def ray_workers():
    """Those that embed."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = process.read_bytes()
        except OSError:
            continue
        if b"MapWorker" in command and b"ray::" in command:
            found.append(int(process.parent.name))
    return found
