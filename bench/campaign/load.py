"""Clocks, power and temperature of the GPU while cases run, from NVML: a library that is opened at
run time, by a process of its own (this file as a script), since its calls may hang with the device.
The script writes a line of JSON for each sample."""
import ctypes
import json
import os
import pathlib
import sys
import time

from worker import kill, start

SAMPLE_SECONDS = 0.1
# Bits that say why clocks are lower than they could be; idle (1) and settings of applications (2)
# are no reasons under load.
REASONS = {
    0x4: "power cap", 0x8: "hardware slowdown", 0x20: "thermal (software)",
    0x40: "thermal (hardware)", 0x80: "power brake"}
SM_CLOCK, MEMORY_CLOCK, GPU_TEMPERATURE = 1, 2, 0  # nvmlClockType_t, nvmlTemperatureSensors_t


def sample(nvml):
    """A function that reads the first device; throws OSError where there is none."""
    device, number, bits = ctypes.c_void_p(), ctypes.c_uint(), ctypes.c_ulonglong()
    for name, arguments in (("nvmlInit_v2", ()), ("nvmlDeviceGetHandleByIndex_v2",
                                                  (0, ctypes.byref(device)))):
        if code := getattr(nvml, name)(*arguments):
            raise OSError(f"{name} failed with {code}")
    readings = {
        "sm_mhz": ("nvmlDeviceGetClockInfo", (SM_CLOCK,), 1),
        "memory_mhz": ("nvmlDeviceGetClockInfo", (MEMORY_CLOCK,), 1),
        "power_w": ("nvmlDeviceGetPowerUsage", (), 1e-3),
        "temperature_c": ("nvmlDeviceGetTemperature", (GPU_TEMPERATURE,), 1)}

    # Drivers have renamed it once.
    reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None) or getattr(
        nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)

    def read():
        values = {
            key: number.value * unit
            for key, (name, arguments, unit) in readings.items()
            if getattr(nvml, name)(device, *arguments, ctypes.byref(number)) == 0}
        if reasons is not None and reasons(device, ctypes.byref(bits)) == 0:
            values["reasons"] = bits.value
        return values
    return read


class Load:
    """What the GPU did between two times of time.monotonic(); None where nothing tells."""

    def __init__(self, log):
        self.process = start([sys.executable, str(pathlib.Path(__file__).resolve())], log)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.rest = b""
        self.samples = []

    def _drain(self):
        while self.process is not None:
            try:
                piece = os.read(self.process.stdout.fileno(), 1 << 16)
            except BlockingIOError:
                return
            if not piece:
                return
            *lines, self.rest = (self.rest + piece).split(b"\n")
            self.samples += [json.loads(line) for line in lines]

    def between(self, begin, end):
        self._drain()
        # Nobody asks again for what was before.
        self.samples = [each for each in self.samples if each["at"] >= begin]
        during = [each for each in self.samples if each["at"] <= end]
        told = {}
        for name in ("sm_mhz", "memory_mhz", "power_w", "temperature_c"):
            values = sorted(each[name] for each in during if name in each)
            if values:
                told[name] = [values[0], values[len(values) // 2], values[-1]]
        reasons = 0
        for each in during:
            reasons |= each.get("reasons", 0)
        if told:
            told["reasons"] = [text for bit, text in REASONS.items() if reasons & bit]
        return told or None

    def stop(self):
        if self.process is not None:
            kill(self.process)
            self.process = None


def main():
    library = os.environ.get("ANYDIM_NVML", "libnvidia-ml.so.1")
    try:
        read = sample(ctypes.CDLL(library))
    except (OSError, AttributeError) as error:
        print(f"no clocks, power and temperatures: {error}", file=sys.stderr)
        return 1
    while True:
        print(json.dumps({"at": time.monotonic(), **read()}), flush=True)
        time.sleep(SAMPLE_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
