"""What a warp moves and multiplies (sass.py): instructions of memory, boxes and tensor cores."""
import re

from sass_code import MASK, is_predicate

WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


def width(modifiers):
    return next((WIDTHS[each] for each in modifiers if each in WIDTHS), 4)


def load(warp, modifiers, operands):
    """Of global memory; generic loads are of shared memory, of other blocks or this one's."""
    size = width(modifiers)
    where = operands[-1] if operands[-1][0] != "P" else operands[-2]
    found = re.search(r"\[([^\[\]]+)\]$", where)
    address = address_of(warp, found.group(1))
    warp.touch("loaded", address, size)
    to = next(each for each in operands if not is_predicate(each))
    value = warp.memory(address, size)
    if "S8" in modifiers or "S16" in modifiers:
        value &= MASK
    warp.set(to, value, max(1, size // 4))


def address_of(warp, text):
    total = 0
    for sign, part in re.findall(r"([+-]?)([^+-]+)", text):
        name, *rest = part.split(".")
        if name[0].isdigit():
            value = int(name, 0)
        else:
            value = warp.value(name, 2 if "64" in rest or name.startswith("UR") else 1)
        total += -value if sign == "-" else value
    return total


def local_load(warp, modifiers, operands):
    words = max(1, width(modifiers) // 4)
    warp.set(next(each for each in operands if not is_predicate(each)), 0, words)


def store(warp, modifiers, operands):
    found = re.search(r"\[([^\[\]]+)\]$", operands[0])
    warp.touch("stored", address_of(warp, found.group(1)), width(modifiers))


def copy_asynchronously(warp, modifiers, operands):
    # Where a predicate at the end is false zeros are copied, which come from nowhere.
    if operands[-1][-1] != "]" and not warp.truth(operands[-1]):
        return warp.leave_out()
    place = next(each for each in reversed(operands) if each[-1] == "]")
    found = re.search(r"\[([^\[\]]+)\]$", place)
    warp.touch("copied", address_of(warp, found.group(1)), width(modifiers))


def load_box(warp, modifiers, operands):
    register = re.match(r"\[UR(\d+)\]", operands[1])
    map_ = warp.uniform.get(int(register.group(1)), 0)
    warp.counts["loaded"] += warp.boxes(map_)


def store_box(warp, modifiers, operands):
    register = re.match(r"\[UR(\d+)\]", operands[1])
    warp.counts["stored"] += warp.boxes(warp.uniform.get(int(register.group(1)), 0))


def hgmma(warp, modifiers, operands):
    rows, columns, depth = (int(each) for each in modifiers[0].split("x"))
    warp.counts["flops"] += 2 * rows * columns * depth / 4  # four warps issue it together


def hmma(warp, modifiers, operands):
    rows, columns, depth = 16, 8, {"16816": 16, "1688": 8}.get(modifiers[0], 16)
    warp.counts["flops"] += 2 * rows * columns * depth * (2 if "TF32" in modifiers else 1)


HANDLERS = {
    "LDG": load, "LD": local_load, "LDS": local_load, "LDL": local_load, "ATOMG": local_load,
    "STG": store, "LDGSTS": copy_asynchronously, "UTMALDG": load_box, "UTMASTG": store_box,
    "HGMMA": hgmma, "HMMA": hmma}
