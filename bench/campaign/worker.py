"""One long-lived worker process, driven through lines of JSON: `begin` before and `end` after each
case. Nothing here waits without limit: a process that a driver holds survives even SIGKILL, and is
left behind then."""
import ctypes
import json
import os
import selectors
import signal
import subprocess
import time

# How long a killed process may take to be gone; SIGKILL works at once or, within a driver, never.
KILL_SECONDS = 5
PR_SET_PDEATHSIG = 1


def dies_with(parent):
    """What a child runs first: where whoever started it is killed, it must not go on holding the
    device."""
    def before():
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
    return before


def start(command, log, environment=None):
    """A process with pipes, in a group of its own."""
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                            process_group=0, preexec_fn=dies_with(os.getpid()), env=environment)


def kill(process):
    """Whether it is gone."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    try:
        process.wait(timeout=KILL_SECONDS)
        gone = True
    except subprocess.TimeoutExpired:
        gone = False
    for pipe in (process.stdin, process.stdout):
        try:
            pipe.close()
        except OSError:
            pass  # what it never read
    return gone


class Worker:
    """Runs `command`; a case that does not end in time ends the worker."""

    def __init__(self, command, log, environment=None):
        self.command = command
        self.log = log  # a text file that collects what workers write to standard error
        self.environment = environment
        self.process = None
        self.left_behind = 0  # killed, and still there

    def start(self):
        self.process = start(self.command, self.log, self.environment)
        for pipe in (self.process.stdin, self.process.stdout):
            os.set_blocking(pipe.fileno(), False)
        self.rest = b""

    def stop(self):
        """Ends the worker at once; a hung kernel answers to nothing gentler."""
        if self.process is None:
            return
        process, self.process = self.process, None
        self.left_behind += not kill(process)

    def finish(self, seconds):
        """Lets the worker end by itself: its exit code, or None where it does not."""
        if self.process is None:
            return None
        self.process.stdin.close()
        try:
            code = self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            code = None
        self.stop()
        return code

    def _lines(self, written, deadline):
        """Whole lines as they come, while `written` goes to the worker; ends at the deadline or
        with the worker's output. What the caller does not take stays for the next call."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            selector.register(self.process.stdin, selectors.EVENT_WRITE)
            while (left := deadline - time.monotonic()) > 0:
                line, ended, rest = self.rest.partition(b"\n")
                if ended:
                    self.rest = rest
                    yield line
                    continue
                for key, _ in selector.select(left):
                    if key.fileobj is self.process.stdin:
                        try:
                            written = written[os.write(key.fd, written):]
                        except BlockingIOError:
                            pass
                        except OSError:
                            written = b""  # it has ended; its output says no more
                        if not written:
                            selector.unregister(key.fileobj)
                    else:
                        piece = os.read(key.fd, 1 << 16)
                        if not piece:
                            return
                        self.rest += piece

    def run(self, case, seconds):
        """What became of the case: {"status": "ended", ...}, or "hung" or "died", where the worker
        is gone afterwards."""
        if self.process is None:
            self.start()
        begun = False
        deadline = time.monotonic() + seconds
        for line in self._lines(json.dumps(case).encode() + b"\n", deadline):
            try:
                said = json.loads(line)
            except ValueError:
                continue  # a library's chatter
            if not isinstance(said, dict):
                continue
            begun = begun or said.get("begin") == case["id"]
            if said.get("end") == case["id"] and begun:
                said.pop("end")
                return {"status": "ended", **said}
        if time.monotonic() >= deadline:
            before = self.left_behind
            self.stop()
            left = "killed, and is still there: the driver holds it" if self.left_behind > before else "killed"
            return {
                "status": "hung", "begun": begun,
                "error": f"no end within {seconds:.0f} s; the worker was {left}"}
        try:
            # Its output has ended, so it is about to.
            code = self.process.wait(timeout=KILL_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        self.stop()
        return {
            "status": "died", "begun": begun, "error": f"the worker ended with exit code {code}"}
