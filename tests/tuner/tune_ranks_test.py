"""`anydim tune` under mpirun: ranks share a run, and what becomes of it when one dies."""
import functools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import unittest

from tune_fixture import TuneTest, trials


def under_mpi(test):
    """A test that starts ranks. They look for no leaks under the address sanitizer: Open MPI keeps
    memory of plugins that it has unloaded by then."""
    @unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not installed")
    @functools.wraps(test)
    def run(self):
        self.environment["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        test(self)
    return run


class Ranks(TuneTest):
    @under_mpi
    def test_ranks_share_one_run(self):
        for ranks in (1, 2, 4):
            done = self.anydim("tune", "model.anydim", "--distribution", "uniform(4, 60)", "--db",
                               f"{ranks}.db", "--threads", "1", "--points", "2", *trials(6),
                               "--json", prefix=("mpirun", "-n", str(ranks)))
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(done.stdout)  # of rank 0 alone
            self.assertGreater(result["trials"], 1)
            self.assertEqual(result["failures"], {})
        # A rank with another number of threads measures something else: it is sent home.
        words = [
            "tune", "model.anydim", "--distribution", "uniform(4, 60)", "--points", "2", *trials(6),
            "--json", "--db", "mixed.db", "--threads"]
        done = subprocess.run([
            "mpirun", "-n", "2", os.environ["ANYDIM"], *words, "1", ":", "-n", "1",
            os.environ["ANYDIM"], *words, "2"], cwd=self.folder, env=self.environment,
                              capture_output=True, text=True, timeout=300)
        self.assertIn(
            "rank 2 measures nothing: its environment is not rank 0's: threads 2 instead of 1",
            done.stderr)

    @staticmethod
    def rank_of(process, rank):
        """The process of a rank among the launcher's children."""
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
                if parent == process.pid and f"OMPI_COMM_WORLD_RANK={rank}" in (
                        folder / "environ").read_text().split("\0"):
                    return int(folder.name)
            except (OSError, ValueError):
                continue
        raise AssertionError(f"rank {rank} is not there")

    @under_mpi
    def test_a_rank_that_dies_ends_the_run_and_loses_nothing(self):
        for rank in (0, 2):
            running = self.start("--db", f"{rank}.db", "--budget", "25s",
                                 launcher=("mpirun", "-n", "3"))
            os.kill(self.rank_of(running, rank), signal.SIGKILL)
            running.communicate(timeout=30)
            self.assertNotEqual(running.returncode, 0)
            self.resumes("--db", f"{rank}.db")

    @under_mpi
    def test_others_go_on_without_a_rank(self):
        running = self.start("--db", "ranks.db", "--budget", "8s", "--lost-after", "2s",
                             launcher=("mpirun", "--enable-recovery", "-n", "3"))
        os.kill(self.rank_of(running, 2), signal.SIGKILL)
        out, err = running.communicate(timeout=120)
        self.assertIn("rank 2 was lost; others took over its work", err)
        self.assertGreater(json.loads(out)["trials"], 2)
        self.assertTrue(self.shown("ranks.db"))

    @under_mpi
    @unittest.skipUnless(
        shutil.which("ip") and shutil.which("unshare"), "network namespaces are not there")
    def test_two_hosts(self):
        """Two network namespaces, each with a host name of its own, joined by a cable; what stands
        for ssh enters the other one."""
        def ip(*words, must=True):
            done = subprocess.run(["ip", *words], capture_output=True, text=True)
            if must and done.returncode != 0:
                self.skipTest(f"no network namespaces here: {done.stderr}")

        hosts = [f"anydim_{name}_{os.getpid()}" for name in "ab"]
        cables = [f"any{name}{os.getpid() % 100000}" for name in "ab"]
        for host in hosts:
            self.addCleanup(ip, "netns", "del", host, must=False)
            ip("netns", "add", host)
        ip("link", "add", cables[0], "netns", hosts[0], "type", "veth", "peer", "name", cables[1],
           "netns", hosts[1])
        for number, (host, cable) in enumerate(zip(hosts, cables), start=1):
            ip("-n", host, "addr", "add", f"10.213.7.{number}/24", "dev", cable)
            ip("-n", host, "link", "set", "lo", "up")
            ip("-n", host, "link", "set", cable, "up")
        agent = self.folder / "agent.sh"
        agent.write_text(
            f'#!/bin/sh\nshift\nexec ip netns exec {hosts[1]} unshare --uts sh -c "hostname anydim-b; touch second; $*"\n'
        )
        agent.chmod(0o755)
        network = "10.213.7.0/24"
        launcher = [
            "mpirun", "--mca", "plm_rsh_agent",
            str(agent), "--mca", "oob_tcp_if_include", network, "--mca", "btl", "tcp,self", "--mca",
            "btl_tcp_if_include", network, "--host", "10.213.7.1:2,10.213.7.2:2", "-n", "4"]
        done = self.tune(
            *trials(6), "--json", prefix=("ip", "netns", "exec", hosts[0], "unshare", "--uts", "sh",
                                          "-c", 'hostname anydim-a; exec "$@"', "sh", *launcher))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.folder / "second").exists())
        result = json.loads(done.stdout)
        self.assertGreater(result["trials"], 3)
        self.assertEqual(result["failures"], {})


if __name__ == "__main__":
    unittest.main()
