"""What a warp does, by the walks of some of its lanes (sass.py): the first stands for its warp, others
tell which bytes of global memory lanes share."""
import sass

LANES, SECTOR = 32, 32  # lanes of a warp, bytes that the L2 cache hands out at least


def bytes_of_lanes(first, second, last, size, lane):
    """Bytes that lanes 0 to `lane` bring, whose accesses begin at `first`, `second` (of lane 1) and `last`:
    lanes a fixed way apart, else beside each other."""
    if last == first:
        return max(SECTOR, size)
    step = abs(second - first)
    steady = step * lane == abs(last - first)
    return (lane + 1) * (min(max(step, size), max(SECTOR, size)) if steady else size)


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
        lanes[1] = walk(1).accesses
        if not warp.accesses.keys() <= lanes[LANES - 1].keys():
            lanes.update((lane, walk(lane).accesses) for lane in (24, 16, 8, 4, 2))
    for key, (kind, address, size) in warp.accesses.items():
        if kind == "loaded":
            if address // SECTOR in read:
                continue
            read.add(address // SECTOR)
        lane = max((each for each, accesses in lanes.items() if key in accesses), default=0)
        second, last = (lanes[each][key][1] if key in lanes.get(each, ()) else address
                        for each in (1, lane))
        if kind == "stored" and not lane:
            warp.counts["stored"] += size
            continue
        warp.counts["stored" if kind == "stored" else "loaded"] += bytes_of_lanes(
            address, second, last, size, lane)
    return warp.counts
