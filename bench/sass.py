"""Follows a warp through the machine code of a kernel for sm_90 (nvdisasm's text): which
instructions it issues, what they move and multiply. Integers, predicates and addresses are
computed; numbers that kernels compute with are not (they are 1, and comparisons of them fail), nor
are waits (what is waited for is there). The walk is one lane's (lanes.py has the warp's)."""
import functools
import operator
import re
import struct
from collections import Counter

import sass_memory
from sass_code import MASK, Code, is_predicate

MOST = 1_000_000  # instructions of a warp: more is a loop that does not end
ONE = 0x3F800000  # 1.0f
LANES = 32
# Where parameters begin in constant bank 0, and where it holds their address.
CONSTANTS, BASE = 0x210, 0x198


class Unknown(Exception):
    """An instruction whose result decides something and is not known here."""


def signed(value):
    return value - (1 << 32) if value & 0x80000000 else value


def signed64(value):
    return value - (1 << 64) if value >> 63 & 1 else value


def bits_of(number):
    try:
        return struct.unpack("<I", struct.pack("<f", number))[0]
    except OverflowError:
        return 0x7F800000


def number_of(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


class Asked(Exception):
    """What a lane says in the next vote."""


class Warp:
    """One warp's walk. `place`: tid, ctaid, cluster rank and so on by special register;
    `constants`: bytes of bank 0 by offset; `memory(address, width)`: what a load of global memory
    gives; `boxes(map)`: bytes of a box of the tensor map at an address. `accesses`: of global
    memory by the lane, as (loaded, stored or copied, address, bytes) by the instruction's position
    and how often it came there. `votes`: what the lanes said each time that they exchanged
    something; those of `known` another lane's walk has found, and with `asked` this one ends at the
    next."""

    def __init__(self, code, place, constants, memory, boxes, known=(), asked=False):
        self.instructions, self.labels, self.addresses = code
        self.place, self.constants, self.memory, self.boxes = place, constants, memory, boxes
        self.registers, self.uniform, self.predicates = {}, {}, {}
        self.counts = Counter()
        self.accesses, self.visits = {}, Counter()
        self.position = 0
        self.known, self.asked, self.votes = known, asked, []

    def lane(self, number, known, asked=False):
        """The walk of another lane of this one's warp."""
        first = self.place.get("SR_TID.X", 0) - self.place.get("SR_LANEID", 0)
        place = {**self.place, "SR_TID.X": first + number, "SR_LANEID": number}
        return Warp((self.instructions, self.labels, self.addresses), place, self.constants,
                    self.memory, self.boxes, known, asked)

    def said(self, value):
        """What each lane says, of those that come here after the same votes; None of others."""
        number, own = len(self.votes), self.place.get("SR_LANEID", 0)
        if number >= len(self.known) and self.asked:
            raise Asked(self.position, value)
        if number < len(self.known):
            values = self.known[number]
        else:
            values = [None] * LANES
            values[own] = value
            for lane in range(LANES):
                if lane == own:
                    continue
                try:
                    self.lane(lane, list(self.votes), True).walk()
                except Asked as asked:
                    position, value = asked.args
                    if position == self.position:
                        values[lane] = value
        self.votes.append(values)
        return values

    def leave_out(self):
        """An access that this lane has no part in: others' keep their numbers."""
        self.visits[self.position] += 1

    def touch(self, kind, address, size):
        self.visits[self.position] += 1
        self.accesses[self.position, self.visits[self.position]] = kind, address, size

    # ---- operands ----

    def register(self, name):
        if name in ("RZ", "URZ", "SRZ"):
            return 0
        bank = self.uniform if name.startswith("UR") else self.registers
        return bank.get(int(name.lstrip("UR")), 0)

    def set(self, name, value, words=1):
        if name in ("RZ", "URZ"):
            return
        bank = self.uniform if name.startswith("UR") else self.registers
        number = int(name.lstrip("UR"))
        for i in range(words):
            bank[number + i] = value >> 32 * i & MASK

    def constant(self, text, words):
        found = re.fullmatch(r"c\[0x[0-9a-f]+\]\[(.+)\]", text)
        offset = self.address(found.group(1))
        return sum(self.constants.get(offset + 4 * i, 0) << 32 * i for i in range(words))

    def address(self, text):
        total = 0
        for sign, part in re.findall(r"([+-]?)([^+-]+)", text):
            part = part.split(".")[0]
            value = int(part, 0) if part[0].isdigit() else self.register(part)
            total += -value if sign == "-" else value
        return total

    def value(self, text, words=1):
        """Unsigned, of 32 bits a word."""
        mask = (1 << 32 * words) - 1
        if text[0] == "-" and not text[1].isdigit():
            return -self.value(text[1:], words) & mask
        if text[0] == "~":
            return ~self.value(text[1:], words) & mask
        if text[0] == "|":
            inner = self.value(text.strip("|"))
            return abs(signed(inner)) & MASK
        if text[0] == "c":
            return self.constant(text, words)
        if text[0] in "RU" or text == "SRZ":
            name = text.split(".")[0]
            if name in ("RZ", "URZ", "SRZ") or words == 1:
                return self.register(name)
            letters = name.rstrip("0123456789")
            number = int(name[len(letters):])
            return sum(self.register(f"{letters}{number + i}") << 32 * i for i in range(words))
        try:
            return int(text, 0) & mask
        except ValueError:
            try:
                return bits_of(float(text))
            except ValueError:
                return 0  # +INF, QNAN

    def truth(self, text):
        negated = text[0] == "!"
        name = text.lstrip("!")
        value = True if name in ("PT", "UPT") else self.predicates.get(name, False)
        return value != negated

    def let(self, name, value):
        if name not in ("PT", "UPT"):
            self.predicates[name] = bool(value)

    # ---- walking ----

    def walk(self):
        steps = 0
        while True:
            guard, opcode, operands = self.instructions[self.position]
            self.position += 1
            steps += 1
            if steps > MOST:
                raise Unknown(f"{MOST} instructions and no end, at {self.position}")
            taken = guard is None or self.truth(guard)
            self.counts["issued"] += 1
            if not taken:
                continue
            name, *modifiers = opcode.split(".")
            if name == "EXIT":
                return self.counts
            handler = HANDLERS.get(name)
            if handler is not None:
                handler(self, modifiers, operands)


def bra(warp, modifiers, operands):
    if "DIV" in modifiers:
        return  # lanes that have parted
    for each in operands[:-1]:
        if is_predicate(each) and not warp.truth(each):
            return
    warp.position = warp.labels[operands[-1].strip("`()")]


def call(warp, modifiers, operands):
    warp.position = warp.labels[operands[-1].strip("`()")]


def ret(warp, modifiers, operands):
    warp.position = warp.addresses[warp.value(operands[0].split()[0])]


def carries(warp, operands):
    """The destination, its carries and what is added."""
    outs = 0
    while is_predicate(operands[1 + outs]):
        outs += 1
    return operands[0], operands[1:1 + outs], operands[1 + outs:]


def addend(warp, text):
    """With the carry that a negated operand brings."""
    if text[0] == "-" and not text[1].isdigit():
        return (~warp.value(text[1:]) & MASK) + 1
    return warp.value(text)


def iadd3(warp, modifiers, operands):
    if "64" in modifiers:
        return warp.set(operands[0], warp.value(operands[1], 2) + warp.value(operands[2], 2), 2)
    to, outs, rest = carries(warp, operands)
    ins = [each for each in rest if is_predicate(each)]
    total = sum(addend(warp, each) for each in rest if not is_predicate(each))
    total += sum(warp.truth(each) for each in ins)
    warp.set(to, total)
    for i, out in enumerate(outs):
        warp.let(out, total >> 32 > i)


def imad(warp, modifiers, operands):
    to, outs, rest = carries(warp, operands)
    ins = [each for each in rest if is_predicate(each)]
    rest = [each for each in rest if not is_predicate(each)]
    unsigned = "U32" in modifiers
    if "WIDE" in modifiers:
        a, b = warp.value(rest[0]), warp.value(rest[1])
        product = a * b if unsigned else signed(a) * signed(b)
        total = (product & (1 << 64) - 1) + warp.value(rest[2], 2) + sum(map(warp.truth, ins))
        warp.set(to, total, 2)
        for out in outs:
            warp.let(out, total >> 64)
    elif "HI" in modifiers:
        a, b = warp.value(rest[0]), warp.value(rest[1])
        product = a * b if unsigned else signed(a) * signed(b)
        warp.set(to, product + warp.value(rest[2], 2) >> 32)
    else:
        total = warp.value(rest[0]) * warp.value(rest[1]) + warp.value(rest[2])
        warp.set(to, total + sum(map(warp.truth, ins)))


def lea(warp, modifiers, operands):
    to, outs, rest = carries(warp, operands)
    ins = [each for each in rest if is_predicate(each)]
    rest = [each for each in rest if not is_predicate(each)]
    shift = int(rest[-1], 0)
    a = warp.value(rest[0])
    if "HI" in modifiers:
        high = (MASK if a >> 31 else 0) if "SX32" in modifiers else warp.value(rest[2])
        total = ((high << 32 | a) >> 32 - shift & MASK) + warp.value(rest[1])
    else:
        total = (a << shift & MASK) + addend(warp, rest[1])
    total += sum(map(warp.truth, ins))
    warp.set(to, total)
    for out in outs:
        warp.let(out, total >> 32)


def shf(warp, modifiers, operands):
    to, low, amount, high = operands
    low, high, amount = warp.value(low), warp.value(high), warp.value(amount)
    both = high << 32 | low
    wide = "U64" in modifiers or "S64" in modifiers
    amount = min(amount, 63 if wide else 32)
    if modifiers[0] == "L":
        moved = both << amount
        warp.set(to, moved >> 32 if "HI" in modifiers else low << amount if high == 0 else moved)
    else:
        if "S32" in modifiers or "S64" in modifiers:
            both = signed64(both)
        if "HI" in modifiers and "S32" in modifiers:
            warp.set(to, signed(high) >> amount)
        elif "HI" in modifiers and "U32" in modifiers:
            warp.set(to, high >> amount)
        else:
            warp.set(to, both >> amount + (32 if "HI" in modifiers else 0))


def lut(a, b, c, table, mask):
    total = 0
    for i in range(8):
        if table >> i & 1:
            total |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
    return total & mask


def lop3(warp, modifiers, operands):
    outs = []
    while is_predicate(operands[0]):
        outs.append(operands[0])
        operands = operands[1:]
    to, a, b, c, table = operands[:5]
    total = lut(warp.value(a), warp.value(b), warp.value(c), int(table, 0), MASK)
    warp.set(to, total)
    for out in outs:
        warp.let(out, total != 0)


def plop3(warp, modifiers, operands):
    to, other, a, b, c, table = operands[:6]
    values = [warp.truth(each) for each in (a, b, c)]
    second = int(operands[6], 0) if len(operands) > 6 else 0
    warp.let(to, lut(*values, int(table, 0), 1))
    if other not in ("PT", "UPT"):
        warp.let(other, lut(*values, second, 1))


COMPARISONS = {
    "GE": lambda a, b: a >= b, "GT": lambda a, b: a > b, "LE": lambda a, b: a <= b,
    "LT": lambda a, b: a < b, "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b,
    "F": lambda a, b: False, "T": lambda a, b: True}


def isetp(warp, modifiers, operands):
    to, other, a, b, with_ = operands[:5]
    a, b = warp.value(a), warp.value(b)
    if "U32" not in modifiers:
        a, b = signed(a), signed(b)
    result = COMPARISONS[modifiers[0]](a, b)
    if "EX" in modifiers:  # of 64 bits: the lower words decide where these are equal
        low = warp.truth(operands[5])
        kind = modifiers[0]
        result = (a == b and low) if kind == "EQ" else (a != b or low) if kind == "NE" else (
            low if a == b else COMPARISONS[kind](a, b))
    other_result = not result
    joined = warp.truth(with_)
    combine = (lambda x: x or joined) if "OR" in modifiers else (
        (lambda x: x != joined) if "XOR" in modifiers else (lambda x: x and joined))
    warp.let(to, combine(result))
    warp.let(other, combine(other_result))


def fsetp(warp, modifiers, operands):
    warp.let(operands[0], False)
    warp.let(operands[1], False)


def sel(warp, modifiers, operands):
    warp.set(operands[0], warp.value(operands[1] if warp.truth(operands[3]) else operands[2]))


def extreme(warp, modifiers, operands):
    a, b = warp.value(operands[-3]), warp.value(operands[-2])
    order = (lambda x: x) if "U32" in modifiers else signed
    warp.set(operands[0], (min if warp.truth(operands[-1]) else max)(a, b, key=order))


def add_extreme(warp, modifiers, operands):
    total = warp.value(operands[1]) + warp.value(operands[2]) & MASK
    order = (lambda x: x) if "U32" in modifiers else signed
    pick = min if warp.truth(operands[-1]) else max
    warp.set(operands[0], pick(total, warp.value(operands[3]), key=order))


def move(warp, modifiers, operands):
    warp.set(operands[0], warp.value(operands[1]))


def pair(warp, modifiers, operands):
    warp.set(operands[0], warp.value(operands[1], 2), 2)


def special(warp, modifiers, operands):
    warp.set(operands[0], warp.place.get(operands[1], 0))


def constant_load(warp, modifiers, operands):
    words = 2 if "64" in modifiers else 1
    warp.set(operands[0], warp.constant(operands[1], words), words)


def to_uniform(warp, modifiers, operands):
    if is_predicate(operands[0]):
        operands = operands[1:]
    warp.set(operands[0], warp.value(operands[1]))


def prmt(warp, modifiers, operands):
    a, select, b = (warp.value(each) for each in operands[1:4])
    octets = (b << 32 | a).to_bytes(8, "little")
    chosen = bytes(octets[select >> 4 * i & 7] for i in range(4))
    warp.set(operands[0], int.from_bytes(chosen, "little"))


def to_real(warp, modifiers, operands):
    wide = "S64" in modifiers or "U64" in modifiers
    value = warp.value(operands[1], 2 if wide else 1)
    if not any(each.startswith("U") for each in modifiers):
        value = signed64(value) if wide else signed(value)
    bits = bits_of(float(value))
    if "RP" in modifiers and number_of(bits) < value:
        bits += 1
    warp.set(operands[0], bits)


def to_integer(warp, modifiers, operands):
    number = number_of(warp.value(operands[1]))
    whole = int(number) if abs(number) < 2.0**64 else (1 << 64) - 1
    warp.set(operands[0], whole, 2 if "U64" in modifiers or "S64" in modifiers else 1)


def byte_shift(text):
    found = re.search(r"\.?B([1-3])$", text)
    return 8 * int(found.group(1)) if found else 0


def from_predicates(warp, modifiers, operands):
    bits = sum(warp.predicates.get(f"P{i}", False) << i for i in range(7))
    mask, shift = int(operands[3], 0), byte_shift(".".join(modifiers))
    warp.set(operands[0], warp.value(operands[2]) & ~(mask << shift) | (bits & mask) << shift)


def to_predicates(warp, modifiers, operands):
    value = warp.value(operands[1]) >> byte_shift(operands[1])
    for i in range(7):
        if int(operands[2], 0) >> i & 1:
            warp.let(f"P{i}", value >> i & 1)


def mufu(warp, modifiers, operands):
    warp.counts["special"] += 1
    if modifiers[0] == "RCP":
        number = number_of(warp.value(operands[1]))
        warp.set(operands[0], bits_of(1 / number) if number else 0x7F800000)
    else:
        warp.set(operands[0], ONE)


def real(warp, modifiers, operands):
    if not is_predicate(operands[0]):
        warp.set(operands[0], ONE)


def halves(warp, modifiers, operands):
    """Halves added to -0 * 0 are a constant, most often an integer."""
    if modifiers[:1] == ["MMA"] and operands[1:3] == ["-RZ", "RZ"]:
        high, low = (struct.unpack("<H", struct.pack("<e", float(each)))[0]
                     for each in operands[3:5])
        return warp.set(operands[0], high << 16 | low)
    real(warp, modifiers, operands)


def shuffle(warp, modifiers, operands):
    warp.set(operands[1], warp.value(operands[2]))
    warp.let(operands[0], False)


def vote(warp, modifiers, operands):
    value = warp.truth(operands[-1])
    constant = operands[-1].lstrip("!") in ("PT", "UPT")
    lanes = [value] * LANES if constant else warp.said(value)
    bits = sum(bool(each) << lane for lane, each in enumerate(lanes))
    for each in operands[:-1]:
        if is_predicate(each):
            warp.let(each, bits == MASK if "ALL" in modifiers else bits != 0)
        else:
            warp.set(each, bits)


def reduce(warp, modifiers, operands):
    values = [each for each in warp.said(warp.value(operands[1])) if each is not None]
    if modifiers[0] != "OR":
        raise Unknown(f"REDUX.{modifiers[0]}")
    warp.set(operands[0], functools.reduce(operator.or_, values))


def reverse(warp, modifiers, operands):
    warp.set(operands[0], int(f"{warp.value(operands[1]):032b}"[::-1], 2))


def leading(warp, modifiers, operands):
    """The place of the highest bit, or with SH how far it is from the top; -1 of 0."""
    if is_predicate(operands[1]):
        operands = [operands[0], *operands[2:]]
    place = warp.value(operands[1]).bit_length() - 1
    warp.set(operands[0], 31 - place if "SH" in modifiers and place >= 0 else place)


def population(warp, modifiers, operands):
    warp.set(operands[0], warp.value(operands[1]).bit_count())


def elect(warp, modifiers, operands):
    for each in operands:
        if is_predicate(each):
            return warp.let(each, True)


def sync(warp, modifiers, operands):
    if operands and is_predicate(operands[0]):
        warp.let(operands[0], True)
    elif modifiers[0] == "PHASECHK":
        raise Unknown("a wait without a predicate")


def registers(warp, modifiers, operands):
    if is_predicate(operands[0]):
        warp.let(operands[0], True)  # they are there


HANDLERS = {
    "BRA": bra, "CALL": call, "RET": ret, "IADD3": iadd3, "UIADD3": iadd3, "VIADD": iadd3,
    "IMAD": imad, "UIMAD": imad, "LEA": lea, "ULEA": lea, "SHF": shf, "USHF": shf,
    "LOP3": lop3, "ULOP3": lop3, "PLOP3": plop3, "UPLOP3": plop3, "ISETP": isetp,
    "UISETP": isetp, "FSETP": fsetp, "FCHK": lambda w, m, o: w.let(o[0], False), "SEL": sel,
    "USEL": sel, "VIMNMX": extreme, "IMNMX": extreme, "UVIMNMX": extreme,
    "VIADDMNMX": add_extreme, "MOV": move, "UMOV": move, "CS2R": pair, "S2R": special,
    "S2UR": special, "LDC": constant_load, "ULDC": constant_load, "R2UR": to_uniform,
    "P2R": from_predicates, "R2P": to_predicates, "PRMT": prmt, "UPRMT": prmt, "I2F": to_real,
    "I2FP": to_real, "F2I": to_integer, "MUFU": mufu,
    "IABS": lambda w, m, o: w.set(o[0], abs(signed(w.value(o[1])))), "BREV": reverse,
    "UBREV": reverse, "FLO": leading, "UFLO": leading, "POPC": population, "UPOPC": population,
    "REDUX": reduce, "SHFL": shuffle, "VOTE": vote, "VOTEU": vote, "ELECT": elect, "SYNCS": sync,
    "USETMAXREG": registers,
    "HFMA2": halves,
    **{name: real for name in ("FADD", "FMUL", "FFMA", "FSEL", "FMNMX", "F2F", "F2FP", "HADD2",
                               "HMUL2", "FSET", "FRND")},
    **sass_memory.HANDLERS}
