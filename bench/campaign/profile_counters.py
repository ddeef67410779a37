"""Nsight Compute around a worker, and what its table says of each kernel: the tensor pipe, reasons
of stalls, bytes of the caches. Sections are asked for, not counters by name, since devices differ
in those."""
import csv
import re

SECTIONS = ("SpeedOfLight", "ComputeWorkloadAnalysis", "WarpStateStats", "MemoryWorkloadAnalysis",
            "LaunchStats", "Occupancy")
LAUNCHES = 4  # profiled of each case; what follows runs as it would alone
# A few of hundreds of counters: one of those that are told as mean, sum, least and most.
KEPT = re.compile(
    r"gpu__time_duration\.sum|sm__pipe_tensor_cycles_active\.avg\..*active|average_warps?_issue_stalled_\w+\.ratio|dram__bytes\.sum|(lts|sm)__throughput\.avg|lts__t_bytes\.sum|"
    r"launch__registers_per_thread$|shared_mem_per_block_dynamic|sm__warps_active\.avg|sm__cycles_active\.avg"
)


def command(tool, counters, worker):
    # The machine's clocks are left as they are.
    sections = [word for each in SECTIONS for word in ("--section", each)]
    return [
        tool, "--clock-control", "none", "--csv", "--page", "raw", "--force-overwrite",
        "--log-file",
        str(counters), "--launch-count",
        str(LAUNCHES), *sections, *worker]


def kernels(text):
    """{"kernel", "counters": {"NAME [UNIT]": number}} of each launch. The table's second row holds
    units; what stands before it is chatter."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    head, *rows = csv.reader(lines[start:])
    if not rows:
        return []
    units = rows[0]
    found = []
    for row in rows[1:]:
        counters = {}
        for name, unit, value in zip(head, units, row):
            if KEPT.search(name):
                try:
                    counters[f"{name} [{unit}]" if unit else name] = float(value.replace(",", ""))
                except ValueError:
                    pass  # not counted on this device
        found.append({"kernel": row[head.index("Kernel Name")], "counters": counters})
    return found
