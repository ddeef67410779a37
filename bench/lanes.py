"""What a warp does, by the walks of some of its lanes (sass.py): the first stands for its warp, others
tell which bytes of global memory lanes share."""
import sass

LANES, SECTOR = 32, 32  # lanes of a warp, bytes that the L2 cache hands out at least


def bytes_of_lanes(first, last, size, lane):
    """Bytes that lanes 0 to `lane` bring, whose accesses begin at `first` and `last`."""
    if last == first:
        return max(SECTOR, size)
    step, rest = divmod(abs(last - first), lane)
    return (lane + 1) * (size if rest else min(max(step, size), max(SECTOR, size)))


def follow(code, place, constants, memory, boxes, read):
    """What a warp of the block issues, moves and multiplies. `read`: where warps of the block have loaded,
    which the nearest cache still has."""

    def walk(lane):
        own = {"SR_TID.X": place.get("SR_TID.X", 0) + lane, "SR_LANEID": lane}
        warp = sass.Warp(code, {**place, **own}, constants, memory, boxes)
        warp.walk()
        return warp

    warp = walk(0)
    lanes = {}
    if warp.accesses:
        lanes[LANES - 1] = walk(LANES - 1).accesses
        if not warp.accesses.keys() <= lanes[LANES - 1].keys():
            lanes.update((lane, walk(lane).accesses) for lane in (24, 16, 8, 4, 2, 1))
    for key, (kind, address, size) in warp.accesses.items():
        if kind == "loaded":
            if address // SECTOR in read:
                continue
            read.add(address // SECTOR)
        lane = next((each for each, accesses in lanes.items() if key in accesses), 0)
        last = lanes[lane][key][1] if lane else address
        if kind == "stored" and not lane:
            warp.counts["stored"] += size
            continue
        warp.counts["stored" if kind == "stored" else "loaded"] += bytes_of_lanes(
            address, last, size, lane)
    return warp.counts
