"""Processors of a test. A command takes all that it may have, so a test says how many those are:
none takes all of the machine's, and `ctest -j` can run as many beside it as are left.

usage: processors.py COUNT SCRIPT [ARGUMENT...]    runs a Python script on so many processors
"""
import os
import random
import sys


def take(count):
    """Keeps this process, and what it starts from here on, to `count` of the processors that it may
    have. They are drawn at random, so that tests beside each other seldom meet on one."""
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, random.sample(allowed, min(count, len(allowed))))


if __name__ == "__main__":
    take(int(sys.argv[1]))
    os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
