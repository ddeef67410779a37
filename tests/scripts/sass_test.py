"""bench/sass.py: a warp's walk through machine code, as nvdisasm prints it."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
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


def walk(lines, place=None, constants=None, memory=lambda address, size: 0,
         boxes=lambda address: 0):
    warp = sass.Warp(sass.Code(listing(lines)).entries["kernel"], place or {}, constants or {},
                     memory, boxes, set())
    return warp, warp.walk()


class Walk(unittest.TestCase):

    def test_loops_are_walked_as_often_as_their_counter_says(self):
        _, counts = walk([
            "ULDC UR4, c[0x0][0x210]", "MOV R2, RZ", ".L_x_0:", "IADD3 R2, R2, 0x1, RZ",
            "MUFU.EX2 R5, R4", "ISETP.GE.AND P0, PT, R2, UR4, PT", "@!P0 BRA `(.L_x_0)", "EXIT"
        ], constants={0x210: 7})
        self.assertEqual(counts["issued"], 2 + 7 * 4 + 1)
        self.assertEqual(counts["special"], 7)

    def test_instructions_that_are_not_executed_are_issued(self):
        _, counts = walk(["ISETP.NE.AND P0, PT, RZ, RZ, PT", "@P0 STG.E.128 desc[UR4][R2.64], R8",
                          "STG.E.64 desc[UR4][R2.64], R8", "EXIT"])
        self.assertEqual((counts["issued"], counts["stored"]), (4, 32 * 8))

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

    def test_what_is_moved_and_multiplied(self):
        read = []
        _, counts = walk([
            "S2R R0, SR_TID.X", "IMAD.WIDE R2, R0, 0x8, RZ", "LDG.E.64 R4, desc[UR4][R2.64+0x10]",
            "LDG.E.64 R4, desc[UR4][R2.64+0x10]", "UMOV UR6, 0x250", "UTMALDG.2D [UR8], [UR6]",
            "HGMMA.64x32x16.F32.BF16 R24, gdesc[UR8], R24", "HMMA.16816.F32.BF16 R8, R4, R6, R8",
            "EXIT"
        ], place={"SR_TID.X": 32}, memory=lambda address, size: read.append((address, size)) or 5,
           boxes={0x250: 4096}.get)
        self.assertEqual(read, [(32 * 8 + 16, 8)] * 2)
        self.assertEqual(counts["loaded"], 32 * 8 + 4096)  # again from the nearest cache
        self.assertEqual(counts["flops"], 2 * 64 * 32 * 16 / 4 + 2 * 16 * 8 * 16)

    def test_a_loop_that_does_not_end_is_told(self):
        with self.assertRaisesRegex(sass.Unknown, "instructions and no end"):
            walk([".L_x_0:", "BRA `(.L_x_0)", "EXIT"])


if __name__ == "__main__":
    unittest.main()
