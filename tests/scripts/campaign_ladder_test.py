"""The campaign's ladder and unit kernels over the PTX interpreter: every text parses, every
schedule filter finds its schedules, every result is right. FAKE_GPU_WORKER names the worker
(tests/tools/fake_gpu_worker.cpp)."""
import os
import pathlib
import struct
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/campaign"))

import campaign_run  # noqa: E402
import journal  # noqa: E402
import ladder  # noqa: E402
import report  # noqa: E402
import supervisor  # noqa: E402


def bits(path):
    """The elements of a .npy file as raw bytes."""
    data = path.read_bytes()
    return data[10 + struct.unpack_from("<H", data, 8)[0]:]


def not_reproduced(recorded, out):
    """Files of the folder `recorded` that hold something else in `out`, or that are not there."""
    return [
        each.name
        for each in sorted(recorded.glob("*.npy"))
        if not (out / each.name).exists() or bits(out / each.name) != bits(each)]


def matches(wanted, schedule):
    """As a worker's filter does (bench/campaign/worker/schedule_choice.h)."""
    name, *fields = schedule.split()
    have = {key: int(value) for key, value in (field.split("=") for field in fields)}
    kind, *rest = wanted.split()
    return name == kind and all(
        have.get(word.split(">")[0], -1) > int(word.split(">")[1]) if ">" in
        word else have.get(word.split("=")[0]) == int(word.split("=")[1]) for word in rest)


class OnTheInterpreter(unittest.TestCase):
    def campaign(self, folder, part):
        log = open(folder / "log", "w", encoding="utf8")
        self.addCleanup(log.close)
        record = journal.Journal(folder / "state", folder / "campaign", supervisor.TIMED)
        self.addCleanup(record.close)
        campaign = campaign_run.Campaign([os.environ["FAKE_GPU_WORKER"], part], record, 500, log)
        self.addCleanup(campaign.worker.stop)
        return campaign

    def test_unit_kernels(self):
        with tempfile.TemporaryDirectory(prefix="anydim_primitives_") as name:
            folder = pathlib.Path(name)
            campaign = self.campaign(folder, "h200")
            campaign.passed.add("empty")
            campaign.sweep("primitives", ladder.primitive_cases(folder / "out", 90))
            campaign.worker.stop()
            wrong = [each for each in campaign.results if not campaign_run.right(each)]
            self.assertEqual(wrong, [], (folder / "log").read_text())
            self.check_results(folder / "out")
            # What a GPU once gave is reproduced bit for bit.
            self.assertEqual(not_reproduced(ROOT / "bench/results/primitives", folder / "out"), [])
            # And would be missed: one bit, one file that nothing gives any more.
            recorded = folder / "recorded"
            recorded.mkdir()
            for each in ("wgmma.out0.npy", "wgmma.in0.npy", "cluster.out0.npy"):
                (recorded / each).write_bytes((folder / "out" / each).read_bytes())
            self.assertEqual(not_reproduced(recorded, folder / "out"), [])
            data = bytearray((recorded / "wgmma.out0.npy").read_bytes())
            data[-1] ^= 1
            (recorded / "wgmma.out0.npy").write_bytes(data)
            (recorded / "gone.out0.npy").write_bytes(data)
            self.assertEqual(not_reproduced(recorded, folder / "out"),
                             ["gone.out0.npy", "wgmma.out0.npy"])
            # What is kept to compare a GPU's results with is what the interpreter gives.
            self.assertEqual(not_reproduced(ladder.PRIMITIVES / "expected", folder / "out"), [])

    def test_every_kind_of_sweep_case(self):
        quick = {"policy": "symbolic", "repetitions": 1}
        small = next(each for each in ladder.model_sweep() if each["id"] == "models/small")
        chain = next(each for each in ladder.calls_sweep() if each["id"] == "calls/1")
        cases = [
            {"id": "equal", "kind": "attention", "shapes": [[1, 2, 20, 32]], **quick},
            {
                "id": "ragged", "kind": "attention",
                "ragged": [{"heads": 2, "head": 64, "lengths": [3, 17, 1]}], **quick},
            {
                "id": "matmul", "kind": "matmul", "n": 64, "k": 64, "m": [1, 40], "copies": 2,
                "cublas": True, "library_path": "/nowhere/libcublasLt.so", "cache_extremes": True,
                **quick},
            {"id": "schedules", "kind": "schedules", "n": 64, "k": 64, "m": [8], "top": 2},
            {**small, **quick},
            {**chain, "id": "calls", "sizes": chain["sizes"][:2], **quick}]
        with tempfile.TemporaryDirectory(prefix="anydim_sweeps_") as name:
            folder = pathlib.Path(name)
            campaign = self.campaign(folder, "h100")
            found = {case["id"]: campaign.run(case, 300, case["kind"]) for case in cases}
            campaign.worker.stop()
            log = (folder / "log").read_text()
        self.assertEqual([each for each in found.values() if not campaign_run.right(each)], [], log)
        self.assertEqual(len(found["equal"]["rows"]), 1)
        self.assertEqual(found["ragged"]["rows"][0]["lengths"], [3, 17, 1])
        self.assertEqual([row["m"] for row in found["matmul"]["rows"]], [1, 40])
        # Without the library it is timed alone; results are compared all the same.
        self.assertIn("/nowhere/libcublasLt.so", found["matmul"]["no_library"])
        for row in (*found["matmul"]["rows"], *found["equal"]["rows"], *found["ragged"]["rows"],
                    *found["models/small"]["calls"]):
            self.assertTrue(row["right"] and 0 < row["difference"] < 0.03, row)
        self.assertEqual([
            sorted({"warm", "cold", "heuristic_us"} & set(row)) for row in found["matmul"]["rows"]],
                         [["cold", "warm"]] * 2)
        self.assertGreaterEqual(len(found["schedules"]["schedules"]), 1)
        self.assertEqual([call["dims"] for call in found["calls"]["calls"]], [[1, 1], [2, 2]])
        packed = found["models/small"]["calls"]
        self.assertEqual([call["dims"] for call in packed], [[2, 9], [3, 4]])
        self.assertEqual([call["rows"] for call in packed], [
            sum(ladder.texts(*size, 97)["mask"]["lengths"]) for size in ((2, 9), (3, 4))])

    def test_a_wrong_result_of_a_model_is_not_timed(self):
        """Against results that are kept, one number of which is another."""
        with tempfile.TemporaryDirectory(prefix="anydim_expected_") as name:
            folder = pathlib.Path(name)
            for file in ladder.EXPECTED.glob("small_*.npy"):
                (folder / file.name).write_bytes(file.read_bytes())
            spoilt = folder / "small_3x4.0.npy"
            data = bytearray(spoilt.read_bytes())
            data[-1] ^= 0x80  # the sign of the last number
            spoilt.write_bytes(data)
            campaign = self.campaign(folder, "h100")
            case = next(each for each in ladder.model_sweep(expected=folder)
                        if each["id"] == "models/small")
            entry = campaign.run({**case, "policy": "symbolic", "repetitions": 1}, 300, "models")
            campaign.worker.stop()
        self.assertEqual([call["right"] for call in entry["calls"]], [True, False])
        self.assertFalse(campaign_run.right(entry))
        summary = report.summarise(campaign)
        self.assertEqual([row["dims"] for row in summary["models"]], ["2x9"])
        self.assertEqual([(each["case"], each["difference"]) for each in summary["failures"]],
                         [("models/small", entry["calls"][1]["difference"])])

    def test_constants_of_the_cost_model(self):
        products = [{
            "n": 768, "k": 768, "m": m,
            "schedule": "matmul_wgmma bm=64 bn=64 bk=64 stages=4 blocks=1 group=8 persistent=0 swap_ab=0 split=1 multicast_columns=1 multicast_rows=1 tma_store=0"
        } for m in (1, 4096)]
        with tempfile.TemporaryDirectory(prefix="anydim_estimates_") as name:
            campaign = self.campaign(pathlib.Path(name), "h100")
            ask = lambda constants: campaign.worker.run(
                {
                    "id": "estimates", "kind": "estimates", "products": products,
                    "constants": constants}, 60)
            before = ask({})
            after = ask({"start_seconds": before["constants"]["start_seconds"] + 5e-6})
            refused = [ask(each)["error"] for each in ({"speed": 1}, {"wgmma_share": 0})]
            best = [
                campaign.worker.run(
                    {
                        "id": "offer", "kind": "schedules", "n": 768, "k": 768, "m": [4096],
                        "top": 1, "constants": constants}, 120)["schedules"]
                for constants in ({}, {"wgmma_share": 0.05})]
            campaign.worker.stop()
        self.assertLessEqual(set(supervisor.fit.FITTED), set(before["constants"]))
        self.assertEqual(
            [round(b - a, 6)
             for a, b in zip(before["estimates_us"], after["estimates_us"])], [5, 5])
        self.assertEqual(refused, [
            "there is no cost constant speed; codegen_cuda/cost_constants.def lists them",
            "the cost constant wgmma_share is positive, got 0"])
        # Where wgmma is the slower one, it is not chosen.
        self.assertEqual([next(iter(each)).split()[0] for each in best],
                         ["matmul_wgmma", "matmul_mma"])

    def test_what_is_avoided_is_not_on_offer(self):
        case = {
            "id": "offer", "kind": "schedules", "n": 768, "k": 768, "m": [16, 2048], "top": 1000}
        everything = {rung for rung, _, _ in ladder.rungs(90)}
        with tempfile.TemporaryDirectory(prefix="anydim_offers_") as name:
            campaign = self.campaign(pathlib.Path(name), "h200")
            for names, filters in ladder.FEATURES:
                campaign.passed = everything - set(names)
                offered = campaign.run(case, 120, "matrix")["schedules"]
                self.assertTrue(offered)
                self.assertEqual(
                    [each for each in offered for one in filters if matches(one, each)], [], names)
        # Without attention on wgmma, every kind of product is there.
        for _, filters in ladder.FEATURES:
            for one in filters:
                self.assertTrue("attention" in one or
                                [each for each in offered if matches(one, each)], one)

    def climb(self, part, capability, lacking):
        """The smallest case of each rung; whole ladders are climbed by hand (bench/README.md)."""
        with tempfile.TemporaryDirectory(prefix="anydim_ladder_") as name:
            folder = pathlib.Path(name)
            campaign = self.campaign(folder, part)
            campaign.case_seconds = 300
            whole = list(ladder.rungs(capability))
            self.addCleanup(setattr, ladder, "rungs", ladder.rungs)
            ladder.rungs = lambda _: [(rung, needs, cases[:1]) for rung, needs, cases in whole]
            self.assertTrue(campaign.prove_worker(), campaign.results)
            campaign.climb()
            campaign.worker.stop()
            log = (folder / "log").read_text()
        self.assertEqual(set(campaign.closed), lacking, f"{campaign.closed}\n{log}")
        # Each rung ran what it is for, and nothing that a rung above it is for.
        for each in campaign.results:
            wanted, ran = each["case"].get("schedule"), [
                launch["schedule"] for launch in each.get("launches", [])]
            rung = each["part"].split("/")[-1]
            self.assertTrue(
                not wanted or not ran or any(matches(wanted, schedule) for schedule in ran), each)
            above = [name for name, _, _ in whole][[name for name, _, _ in whole].index(rung) +
                                                   1:] if rung != "proof" else []
            for names, filters in ladder.FEATURES:
                if names[0] in above:
                    self.assertFalse(
                        [schedule for schedule in ran
                         for one in filters if matches(one, schedule)], each)

    def test_the_ladder_of_an_h100(self):
        self.climb("h100", 90, set())

    def test_the_ladder_of_an_a100(self):
        self.climb(
            "a100", 80, {
                "tma", "cluster", "wgmma_tile", "ring", "registers", "swap_ab", "persistent",
                "tma_store", "fragments", "pingpong", "split_mma", "split_k", "tma_multicast",
                "multicast_columns", "multicast_rows", "attention_wgmma", "attention_turns",
                "attention_persistent"})

    def check_results(self, out):
        """Against plain arithmetic on the operands."""
        words = struct.unpack("<64I", bits(out / "cluster.out0.npy"))
        self.assertEqual(words, tuple(32 + i + 1 for i in range(32)) + tuple(range(32)))

        bf16 = lambda data: [
            struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
        for name, m, n, rows_of_b in (("mma_sync", 16, 8, True), ("wgmma", 64, 16, False),
                                      ("mma_sync_whole", 16, 8, True), ("wgmma_whole", 64, 16,
                                                                        False)):
            a, b = bf16(bits(out / f"{name}.in0.npy")), bf16(bits(out / f"{name}.in1.npy"))
            got = struct.unpack(f"<{m * n}f", bits(out / f"{name}.out0.npy"))
            for row in range(m):
                for column in range(n):
                    want = sum(a[row * 16 + k] *
                               (b[k * n + column] if rows_of_b else b[column * 16 + k])
                               for k in range(16))
                    self.assertAlmostEqual(got[row * n + column], want, places=6,
                                           msg=f"{name} [{row}, {column}]")

        shared = struct.unpack("<1024H", bits(out / "tma_load.out0.npy"))
        for row in range(16):
            for column in range(64):
                inside = row + 8 < 20 and column + 32 < 72
                place = row * 64 + ((column // 8) ^ (row % 8)) * 8 + column % 8
                self.assertEqual(shared[place], (row + 8) * 72 + column + 32 if inside else 0,
                                 f"tma_load [{row}, {column}]")

        stored, boxed = (struct.unpack(f"<{count}H", bits(out / f"tma_store.{name}.npy"))
                         for name, count in (("out0", 20 * 72), ("in0", 1024)))
        poison = 0x7F7F
        for row in range(20):
            for column in range(72):
                inside = row >= 8 and column >= 32
                place = (row - 8) * 64 + (((column - 32) // 8) ^ ((row - 8) % 8)) * 8 + column % 8
                self.assertEqual(stored[row * 72 + column], boxed[place] if inside else poison,
                                 f"tma_store [{row}, {column}]")

        both = struct.unpack("<2048H", bits(out / "tma_multicast.out0.npy"))
        self.assertEqual(both[:1024], both[1024:])
        for row in range(16):
            for column in range(64):
                place = row * 64 + ((column // 8) ^ (row % 8)) * 8 + column % 8
                self.assertEqual(both[place], (row + 4) * 72 + column + 8,
                                 f"tma_multicast [{row}, {column}]")

        copied, source = bits(out / "cp_async.out0.npy"), bits(out / "cp_async.in0.npy")
        for lane in range(32):
            count = 16 - lane % 17
            self.assertEqual(copied[16 * lane:16 * lane + 16],
                             source[16 * lane:16 * lane + count] + bytes(16 - count))


if __name__ == "__main__":
    unittest.main()
