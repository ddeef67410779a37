"""bench/sass.py: a warp's walk through machine code, as nvdisasm prints it."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import lanes
import sass

HEAD = ".text.kernel:\n"


def listing(lines):
    """Instructions with addresses, 16 bytes each; labels stand as they are."""
    text, at = HEAD, 0
    for line in lines:
        if line.endswith(":"):
            text += line + "\n"
        else:
            text += f"        /*{at:04x}*/                   {line} ;\n"
            at += 16
    return text


def code_of(lines):
    return sass.Code(listing(lines)).entries["kernel"]


def walk(lines, place=None, constants=None, memory=lambda address, size: 0,
         boxes=lambda address: 0):
    warp = sass.Warp(code_of(lines), place or {}, constants or {}, memory, boxes)
    return warp, warp.walk()


def follow(lines, place=None, memory=lambda address, size: 0, boxes=lambda address: 0):
    return lanes.follow(code_of(lines), place or {}, {}, memory, boxes, set())


class Walk(unittest.TestCase):

    def test_loops_are_walked_as_often_as_their_counter_says(self):
        _, counts = walk([
            "ULDC UR4, c[0x0][0x210]", "MOV R2, RZ", ".L_x_0:", "IADD3 R2, R2, 0x1, RZ",
            "MUFU.EX2 R5, R4", "ISETP.GE.AND P0, PT, R2, UR4, PT", "@!P0 BRA `(.L_x_0)", "EXIT"
        ], constants={0x210: 7})
        self.assertEqual(counts["issued"], 2 + 7 * 4 + 1)
        self.assertEqual(counts["special"], 7)

    def test_instructions_that_are_not_executed_are_issued(self):
        counts = follow(["S2R R0, SR_TID.X", "IMAD.WIDE R2, R0, 0x8, RZ",
                         "ISETP.NE.AND P0, PT, RZ, RZ, PT", "@P0 STG.E.128 desc[UR4][R2.64], R8",
                         "STG.E.64 desc[UR4][R2.64], R8", "EXIT"])
        self.assertEqual((counts["issued"], counts["stored"]), (6, 32 * 8))

    def test_predicates_are_kept_in_registers(self):
        warp, _ = walk(["ISETP.EQ.AND P2, PT, RZ, RZ, PT", "P2R R5, PR, RZ, 0x4",
                        "P2R.B1 R5, PR, R5, 0x7f", "ISETP.NE.AND P2, PT, RZ, RZ, PT",
                        "R2P PR, R5.B1, 0x4", "EXIT"])
        self.assertEqual((warp.registers[5], warp.predicates["P2"]), (0x404, True))

    def test_numbers_are_one(self):
        """So that functions take the way that they take of numbers, and constants are what they are."""
        warp, _ = walk(["FADD R9, R8, 9.99e-13", "MUFU.RSQ R10, R9", "HFMA2.MMA R4, -RZ, RZ, 0, 0",
                        "HFMA2.MMA R5, -RZ, RZ, 0.8955078125, -0.052093505859375", "EXIT"])
        self.assertEqual([warp.registers[i] for i in (9, 10, 4, 5)],
                         [sass.ONE, sass.ONE, 0, 0x3B2AAAAB])

    def test_sums_carry_into_the_upper_word(self):
        warp, _ = walk(["MOV R2, 0xffffffff", "MOV R3, 0x1", "IADD3 R4, P0, R2, 0x2, RZ",
                        "IADD3.X R5, R3, RZ, RZ, P0, !PT", "IMAD.WIDE R6, R3, -0x2, R4",
                        "ISETP.GE.U32.AND P1, PT, R4, R6, PT",
                        "ISETP.GE.AND.EX P1, PT, R5, R7, PT, P1", "EXIT"])
        self.assertEqual([warp.registers[i] for i in (4, 5, 6, 7)], [1, 2, 0xFFFFFFFF, 1])
        self.assertTrue(warp.predicates["P1"])

    def test_quotients_by_the_reciprocal(self):
        warp, _ = walk([
            "MOV R0, 0x64", "MOV R7, 0x7", "I2F.U32.RP R4, R7", "MUFU.RCP R4, R4",
            "VIADD R4, R4, 0xffffffe", "F2I.FTZ.U32.TRUNC.NTZ R5, R4", "MOV R4, RZ",
            "IMAD R9, R5, -0x7, RZ", "IMAD.HI.U32 R5, R5, R9, R4", "IMAD.HI.U32 R2, R5, R0, RZ",
            "EXIT"
        ])
        self.assertEqual(warp.registers[2], 100 // 7)

    def test_lanes_vote_each_for_itself(self):
        warp, counts = walk([
            "S2R R0, SR_TID.X", "ISETP.GE.AND P0, PT, R0, 0x5, PT", "VOTE.ANY R1, PT, !P0",
            "LOP3.LUT R2, RZ, R1, RZ, 0x33, !PT", "BREV R2, R2", "FLO.U32.SH R3, R2",
            "ISETP.GE.AND P1, PT, R0, R3, PT", "VOTE.ALL P2, P1", "VOTE.ANY R4, P3, P1",
            "POPC R5, R4", "REDUX.OR UR4, R0", "EXIT"
        ])
        self.assertEqual([warp.registers[i] for i in (1, 3, 4, 5)], [0b11111, 5, 0xFFFFFFE0, 27])
        self.assertEqual([warp.predicates[f"P{i}"] for i in (2, 3)], [False, True])
        self.assertEqual(warp.uniform[4], 31)
        self.assertEqual(counts["issued"], 12)

    def test_what_is_moved_and_multiplied(self):
        read = []
        counts = follow([
            "S2R R0, SR_TID.X", "IMAD.WIDE R2, R0, 0x8, RZ", "LDG.E.64 R4, desc[UR4][R2.64+0x10]",
            "LDG.E.64 R4, desc[UR4][R2.64+0x10]", "UMOV UR6, 0x250", "UTMALDG.2D [UR8], [UR6]",
            "HGMMA.64x32x16.F32.BF16 R24, gdesc[UR8], R24", "HMMA.16816.F32.BF16 R8, R4, R6, R8",
            "EXIT"
        ], place={"SR_TID.X": 32}, memory=lambda address, size: read.append((address, size)) or 5,
           boxes={0x250: 4096}.get)
        self.assertEqual(read, [(lane * 8 + 16, 8) for lane in (32, 32, 63, 63, 33, 33)])
        self.assertEqual(counts["loaded"], 32 * 8 + 4096)  # again from the nearest cache
        self.assertEqual(counts["flops"], 2 * 64 * 32 * 16 / 4 + 2 * 16 * 8 * 16)

    def test_lanes_share_bytes(self):
        """All the same element, their own sectors, half of them, one of them."""
        place = ["S2R R0, SR_TID.X", "IMAD.WIDE R2, R0, 0x100, RZ", "IMAD.WIDE R6, R0, 0x4, RZ"]
        loads = {
            "LDG.E R4, desc[UR4][R10.64]": 32, "LDG.E.U16 R4, desc[UR4][R2.64]": 32 * 32,
            "STG.E desc[UR4][R6.64], R4": 32 * 4, "LDGSTS.E.128 [R9], desc[UR4][R2.64]": 32 * 32}
        for load, moved in loads.items():
            counts = follow(place + [load, "EXIT"])
            self.assertEqual(counts["loaded"] + counts["stored"], moved, load)
        for most, moved in (("0x10", 17 * 4), ("0x0", 4)):
            counts = follow(place + [f"ISETP.GT.AND P0, PT, R0, {most}, PT",
                                     "@!P0 STG.E desc[UR4][R6.64], R4", "EXIT"])
            self.assertEqual(counts["stored"], moved)
            counts = follow(place + [f"ISETP.GT.AND P0, PT, R0, {most}, PT",
                                     "LDGSTS.E [R9], desc[UR4][R6.64], !P0", "EXIT"])
            self.assertEqual(counts["loaded"], max(moved, 32))

    def test_lanes_of_rows_lie_beside_each_other(self):
        """Four lanes a row: the last lane's place tells nothing of what lies between."""
        counts = follow(["S2R R0, SR_TID.X", "LOP3.LUT R4, R0, 0x3, RZ, 0xc0, !PT",
                         "SHF.R.U32.HI R5, RZ, 0x2, R0", "IMAD R5, R5, 0x80, RZ",
                         "LEA R2, R4, R5, 0x2", "LDG.E R6, desc[UR4][R2.64]", "EXIT"])
        self.assertEqual(counts["loaded"], 32 * 4)

    def test_a_loop_that_does_not_end_is_told(self):
        with self.assertRaisesRegex(sass.Unknown, "instructions and no end"):
            walk([".L_x_0:", "BRA `(.L_x_0)", "EXIT"])


if __name__ == "__main__":
    unittest.main()
