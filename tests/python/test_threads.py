"""Many threads and tasks on one model."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import anydim
from models import ENCODER, SANITIZED, dense_inputs, resident_bytes


class ReadInput:
    """An input that tells when a call reads it: `read` is set from inside of the call."""

    def __init__(self, array):
        self.array, self.read = array, threading.Event()

    def __dlpack__(self, **options):
        self.read.set()
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


THREADS, RUNS = 8, int(os.environ.get("ANYDIM_RUNS", "1000"))

# A loop of `n` rounds that carries a number: Ctrl-C ends it between two of them.
LONG_LOOP = """
fn @main(%n: Tensor[(), i64], %x: Tensor[(m), f32]) {
  %r = loop(%n, none, %x) body(%i, %on, %c) {
    %d = add(%c, %x)
    yield %on, %d
  }
  return %r
}
"""


def encoder_inputs(random):
    batch, seq = int(random.integers(1, 9)), int(random.integers(1, 33))
    lengths = random.integers(1, seq + 1, batch)
    return {
        "ids": random.integers(0, 50, (batch, seq)), "mask": (np.arange(seq)
                                                              < lengths[:, None]).astype("int64")}


def test_eight_threads_give_what_one_gives(build):
    """8 threads, each 1,000 (ANYDIM_RUNS) runs at random shapes; memory is that of the largest
    shape for each thread, and does not grow."""
    model = build(ENCODER, masked_rows="zero")
    calls = [encoder_inputs(np.random.default_rng(seed)) for seed in range(RUNS)]
    expected = [model.run(call)["rows"].tobytes() for call in calls]
    started = threading.Barrier(THREADS)

    def work(thread):
        started.wait()
        order = np.random.default_rng(thread).permutation(RUNS)
        return sum(model.run(calls[i])["rows"].tobytes() == expected[i] for i in order)

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(work, range(THREADS))) == [RUNS] * THREADS
        before = resident_bytes()
        assert list(pool.map(work, range(THREADS))) == [RUNS] * THREADS
        assert SANITIZED or resident_bytes() - before < 4 << 20
    assert model.stats().calls.calls == (2 * THREADS + 1) * RUNS


def test_calls_release_the_gil(build):
    """While one thread computes, another one runs Python: both would take turns of 5 ms
    otherwise."""
    model = build(
        "fn @main(%x: Tensor[(n, 1024), f32], %w: Tensor[(1024, 1024), f32]) {\n  %y = matmul(%x, %w)\n  return %y\n}\n",
        threads=1)
    x, w = np.ones((4000, 1024), "float32"), np.ones((1024, 1024), "float32")
    model.run({"x": x, "w": w})
    done = threading.Event()
    thread = threading.Thread(target=lambda: (model.run({"x": x, "w": w}), done.set()))
    thread.start()
    rounds = 0
    while not done.is_set():
        rounds += 1
    thread.join()
    assert rounds > 1000


def test_closing_while_others_call(build, random):
    model = build(ENCODER)
    inputs = encoder_inputs(random)
    called = threading.Event()

    def work(_):
        for _ in range(300):
            try:
                model.run(inputs)
            except anydim.ClosedError:
                return True
            called.set()
        return False

    with ThreadPoolExecutor(4) as pool:
        results = pool.map(work, range(4))
        called.wait()
        model.close()
        list(results)
    with pytest.raises(anydim.ClosedError):
        model.run(inputs)


def test_awaited_calls(dense, random):
    inputs = [dense_inputs(random, 1 + i % 5, 1 + i % 7) for i in range(50)]

    async def gather():
        return await asyncio.gather(*(dense.run_async(one) for one in inputs))

    for one, result in zip(inputs, asyncio.run(gather())):
        assert (result["r"] == dense.run(one)["r"]).all()

    async def wrong():
        await dense.run_async({})

    with pytest.raises(anydim.InputError):
        asyncio.run(wrong())


def test_a_task_that_is_cancelled_ends_its_call(build):
    model = build(LONG_LOOP)

    async def cancelled():
        x = ReadInput(np.ones(8, "float32"))
        task = asyncio.create_task(model.run_async({"n": np.array(10**10), "x": x}))
        await asyncio.to_thread(x.read.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    began = time.monotonic()
    asyncio.run(cancelled())  # waits for the executor's threads
    assert time.monotonic() - began < 10
    assert (model.run({"n": np.array(2), "x": np.ones(8, "float32")})["r"] == 3).all()


# Says "inside" from within a long call. A handler of Python's runs between two of its instructions
# and where a call asks for signals: two signals at one instruction came in one call.
SAY_INSIDE = """
import signal

def say_inside(_, frame, last=[None]):
    at = frame.f_code, frame.f_lasti
    if at == last[0]:
        signal.setitimer(signal.ITIMER_REAL, 0)
        print("inside", flush=True)
    last[0] = at

signal.signal(signal.SIGALRM, say_inside)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
"""


def interrupted(prepare, program):
    """Runs both, sends SIGINT once a call of the program is under way, and gives the output and how
    long it took to end."""
    process = subprocess.Popen([
        sys.executable, "-c",
        textwrap.dedent(prepare) + SAY_INSIDE + textwrap.dedent(program)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "inside\n"
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    return output, errors, time.monotonic() - began, process.returncode


def test_ctrl_c_ends_a_compilation():
    """Many kernels, none kept: seconds of work."""
    output, errors, seconds, _ = interrupted(
        """
        import anydim
        layers = "".join(f"  %w{i} = constant(f32 ({i + 40}, {i + 41}) @random({i}))\\n  %y{i} = matmul({f'%y{i - 1}' if i else '%x'}, %w{i})\\n" for i in range(120))
        text = f"fn @main(%x: Tensor[(n, m, 40), f32]) {{\\n{layers}  return %y119\\n}}\\n"
        """, """
        try:
            anydim.compile(text.encode(), cache=False, database=False, threads=1)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        else:
            print("compiled", flush=True)
        """)
    assert output == "interrupted\n" and seconds < 3, (output, errors, seconds)


def test_ctrl_c_ends_a_call():
    output, errors, seconds, _ = interrupted(
        f"""
        import anydim, numpy
        model = anydim.compile({LONG_LOOP!r}.encode(), cache=False, database=False, threads=1)
        """, """
        try:
            model.run({"n": numpy.array(10**10), "x": numpy.ones(8, "float32")})
        except KeyboardInterrupt:
            print(model.run({"n": numpy.array(2), "x": numpy.ones(1, "float32")})["r"], flush=True)
        """)
    assert output == "[3.]\n" and seconds < 3, (output, errors, seconds)


def test_another_handler_decides():
    """A signal whose handler raises nothing ends nothing."""
    output, errors, _, code = interrupted(
        f"""
        import anydim, numpy, signal
        signal.signal(signal.SIGINT, lambda *_: print("seen", flush=True))
        model = anydim.compile({LONG_LOOP!r}.encode(), cache=False, database=False, threads=1)
        """, """
        results = model.run({"n": numpy.array(5_000_000), "x": numpy.ones(1, "float32")})
        print(results["r"].shape, flush=True)
        """)
    assert sorted(output.split("\n")) == ["", "(1,)", "seen"] and code == 0, (output, errors)


def test_cancellation_from_another_thread(build):
    model = build(LONG_LOOP)
    cancellation = anydim.Cancellation()
    x = ReadInput(np.ones(8, "float32"))
    threading.Thread(target=lambda: (x.read.wait(), cancellation.cancel())).start()
    with pytest.raises(anydim.CancelledError):
        model.run({"n": np.array(10**10), "x": x}, cancellation=cancellation)
    assert model.stats().calls.failed == 1
