"""One long-lived worker process, driven through lines of JSON: `begin` before and `end` after each case."""
import json
import os
import selectors
import subprocess
import time


class Worker:
    """Runs `command`; a case that does not end in time ends the worker."""

    def __init__(self, command, log):
        self.command = command
        self.log = log  # a text file that collects what workers write to standard error
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, start_new_session=True)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.rest = b""

    def stop(self):
        """Ends the worker at once; a hung kernel answers to nothing gentler."""
        if self.process is None:
            return
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.process = None

    def finish(self, seconds):
        """Lets the worker end by itself: its exit code, or None where it does not."""
        if self.process is None:
            return None
        self.process.stdin.close()
        try:
            code = self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            code = None
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.process = None
        return code

    def _lines(self, deadline):
        """Whole lines as they come; ends at the deadline or with the worker's output."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while True:
                *whole, self.rest = self.rest.split(b"\n")
                for position, line in enumerate(whole):
                    # What the caller does not take stays for the next call.
                    tail = whole[position + 1:]
                    kept = self.rest
                    self.rest = b"\n".join([*tail, kept])
                    yield line
                    if tail:
                        break
                else:
                    left = deadline - time.monotonic()
                    if left <= 0 or not selector.select(left):
                        return
                    piece = self.process.stdout.read()
                    if piece == b"":
                        return
                    self.rest += piece or b""

    def run(self, case, seconds):
        """What became of the case: {"status": "ended", ...}, or "hung" or "died", where the worker is gone afterwards."""
        if self.process is None:
            self.start()
        begun = False
        deadline = time.monotonic() + seconds
        try:
            self.process.stdin.write(json.dumps(case).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it has ended; its output says no more
        for line in self._lines(deadline):
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
            self.stop()
            return {"status": "hung", "begun": begun, "error": f"no end within {seconds:.0f} s; the worker was killed"}
        try:
            code = self.process.wait(timeout=5)  # its output has ended, so it is about to
        except subprocess.TimeoutExpired:
            code = None
        self.stop()
        return {"status": "died", "begun": begun, "error": f"the worker ended with exit code {code}"}
