"""Processors of a test. A command takes all that it may have, so a test says how many those are:
none takes all of the machine's, and `ctest -j` can run as many beside it as are left.

usage: processors.py COUNT SCRIPT [ARGUMENT...]    runs a Python script on so many processors
"""
import fcntl
import os
import pathlib
import random
import sys
import tempfile


def is_free(processor):
    """Whether no other test has it; then this process and what it starts have it until all of them
    end."""
    folder = pathlib.Path(tempfile.gettempdir()) / f"anydim_processors_{os.getuid()}"
    folder.mkdir(exist_ok=True)
    lock = os.open(folder / str(processor), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return False
    os.set_inheritable(lock, True)
    return True


def take(count):
    """Keeps this process, and what it starts from here on, to `count` of the processors that it may
    have: those that no other test has, else any."""
    allowed = sorted(os.sched_getaffinity(0))
    random.shuffle(allowed)
    taken = []
    for processor in allowed:
        if len(taken) < count and is_free(processor):
            taken.append(processor)
    others = [processor for processor in allowed if processor not in taken]
    os.sched_setaffinity(0, taken + others[:max(0, count - len(taken))])


if __name__ == "__main__":
    take(int(sys.argv[1]))
    os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
