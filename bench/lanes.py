"""What a warp does, by the walks of some of its lanes (sass.py): the first stands for its warp,
others tell which bytes of global memory lanes share."""
import sass

SECTOR = 32  # bytes that the L2 cache hands out at least


def bytes_of_lanes(first, second, last, size, lane):
    """Bytes that lanes 0 to `lane` bring, whose accesses begin at `first`, `second` (of lane 1) and
    `last`: lanes a fixed way apart, else beside each other."""
    if last == first:
        return max(SECTOR, size)
    step = abs(second - first)
    steady = step * lane == abs(last - first)
    return (lane + 1) * (min(max(step, size), max(SECTOR, size)) if steady else size)


def follow(code, place, constants, memory, boxes, read):
    """What a warp of the block issues, moves and multiplies. `read`: where warps of the block have
    loaded, which the nearest cache still has."""

    warp = sass.Warp(code, place, constants, memory, boxes)
    warp.walk()

    def accesses(lane):
        other = warp.lane(lane, list(warp.votes))
        other.walk()
        return other.accesses

    lanes = {}
    if warp.accesses:
        lanes[sass.LANES - 1] = accesses(sass.LANES - 1)
        lanes[1] = accesses(1)
        if not warp.accesses.keys() <= lanes[sass.LANES - 1].keys():
            lanes.update((lane, accesses(lane)) for lane in (24, 16, 8, 4, 2))
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
