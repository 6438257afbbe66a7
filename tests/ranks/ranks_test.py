#!/usr/bin/env python3
"""Runs of several ranks as users start them: by --ranks, by torchrun, and with ranks that die, freeze or are told to stop.

    ranks_test.py path/to/autotrain [FAULTS [SEED [TEST …]]]

60 faults are the long form, with 200 updates in the place of 12 for the same bytes. A TEST is one of those below, as
Ranks.test_any_number_of_ranks_comes_to_the_same_bytes.

Whatever happens to a rank, the others name it and end, nothing stays behind, and the run that is
started again ends with the undisturbed run's bytes.
"""
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import numpy

from runs import digest, ranks_of, rows_of, saved_updates, updates_of

BINARY = Path(sys.argv[1]).resolve()
FAULTS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 1
UPDATES = 12 if FAULTS < 60 else 200  # for the same bytes on any number of ranks
USAGE, INTERRUPTED = 64, 75

IMAGES = """data:
  train: {dataset: npy, inputs: images.npy, targets: classes.npy, limit: 2000}
  validation: {dataset: npy, inputs: images.npy, targets: classes.npy, first: 2000}
  augment: {flip: true, crop_padding: 2}
model: {name: cnn, width: 8, hidden: 32, dropout: 0.3}
"""
DOCUMENTS = """data:
  train: {dataset: documents, files: [documents.jsonl], context: 48}
model: {name: transformer, layers: 1, width: 32, heads: 2, dropout: 0.1}
"""
REST = """batch: {effective: 250}
optimizer: {name: adamw, lr: 0.002, reference_batch: 256, clip_norm: 1.0}
evaluation: {every: 20 updates}
checkpoint: {every: 5 updates, keep: 2}
execution:
  {precision: fp32, threads: 1, lanes: 4, telemetry: 0, memory: {budget: 128MiB}, search: {plan_cache: false}}
report: {html: false, csv: false, tensorboard: false}
"""


def listening(processes):
    """(address, port) of every socket on which one of the processes listens."""
    inodes = set()
    for process in processes:
        for descriptor in Path(f"/proc/{process}/fd").iterdir():
            try:
                inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(descriptor)))
            except OSError:
                continue
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in inodes:
            address, port = fields[1].split(":")
            found.add((socket.inet_ntoa(struct.pack("=I", int(address, 16))), int(port, 16)))
    return found


class Ranks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.recipe = self.root / "images.yaml"
        self.recipe.write_text(IMAGES + REST)
        dice = numpy.random.default_rng(1)
        classes = numpy.arange(2300) % 10
        images = dice.integers(0, 100, (2300, 12, 12)) + 15 * classes[:, None, None]
        numpy.save(self.root / "images.npy", images.astype(numpy.uint8))
        numpy.save(self.root / "classes.npy", classes)

    def command(self, ranks, output, *more, recipe=None, launcher=()):
        by = list(launcher) or []
        own = [] if launcher else ["--ranks", str(ranks)]
        return [*by, str(BINARY), "--config", str(recipe or self.recipe), "--output", str(self.root / output), "--quiet",
                *own, *more]

    def environment(self, **more):
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "SLURM_", "TORCHELASTIC_"))}
        return {**keep, "CI": "1", "CUDA_VISIBLE_DEVICES": "", **more}

    def run_to_end(self, command, code=0):
        done = subprocess.run(command, cwd=self.root, env=self.environment(), capture_output=True, text=True, timeout=1200,
                              check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def start(self, command):
        log = open(self.root / "log", "w", encoding="utf-8")
        self.addCleanup(log.close)
        return subprocess.Popen(command, cwd=self.root, env=self.environment(), stdout=log, stderr=log)

    def wait_for(self, condition, what):
        end = time.monotonic() + 300
        while not condition():
            self.assertLess(time.monotonic(), end, f"waited in vain for {what}")
            time.sleep(0.01)

    def test_any_number_of_ranks_comes_to_the_same_bytes(self):
        (self.root / "documents.jsonl").write_text("".join(
            json.dumps({"text": "the quick brown fox " * (1 + i % 9)}) + "\n" for i in range(600)))
        documents = self.root / "documents.yaml"
        documents.write_text(DOCUMENTS + REST)
        for recipe in (self.recipe, documents):
            runs = {}
            for ranks in (1, 2, 4):
                output = f"{recipe.stem}-{ranks}"
                self.run_to_end(self.command(ranks, output, "--set", f"stop.updates={UPDATES}", "--set",
                                             "execution.micro_batch=20", recipe=recipe))
                runs[ranks] = digest(self.root / output, UPDATES)
            self.assertEqual(len(set(runs.values())), 1, f"{recipe.stem}: {runs}")

    def test_only_the_first_rank_prints_and_the_others_have_logs(self):
        done = self.run_to_end([*self.command(2, "run", "--set", "stop.updates=4")])
        self.assertEqual(done.stdout.count("completed after 4 updates"), 1, done.stdout)
        self.assertIn("[plan]", (self.root / "run" / "ranks" / "rank-1.log").read_text())
        self.assertEqual(json.loads((self.root / "run" / "plan.json").read_text())["world_size"], 2)

    def test_errors_of_recipes_are_said_once(self):
        done = self.run_to_end(self.command(2, "run", "--set", "optimizer.lr=-1"), code=78)
        self.assertEqual(done.stderr.count("error:"), 1, done.stderr)

    def test_a_stranger_who_sends_rubbish_changes_nothing(self):
        more = ("--set", "stop.updates=60", "--set", "execution.micro_batch=20")
        self.run_to_end(self.command(2, "straight", *more))
        launcher = self.start(self.command(2, "run", *more))
        self.wait_for(lambda: updates_of(self.root / "run") >= 5 or launcher.poll() is not None, "5 updates")
        found = listening([launcher.pid, *ranks_of(launcher.pid)])
        self.assertTrue(found, (self.root / "log").read_text())
        self.assertEqual({address for address, _ in found}, {"127.0.0.1"})
        dice, held = random.Random(SEED), []
        for address, port in found:
            for length in (0, 1, 100, 100_000):
                stranger = socket.create_connection((address, port), timeout=10)
                try:
                    stranger.sendall(dice.randbytes(length))
                except OSError:
                    pass  # it was shown the door
                held.append(stranger)
        code = launcher.wait(timeout=300)
        for stranger in held:
            stranger.close()
        self.assertEqual(code, 0, (self.root / "log").read_text())
        self.assertEqual(digest(self.root / "run", 60), digest(self.root / "straight", 60))

    def start_by_hand(self, rank, world, port, *words):
        """A rank as a launcher that knows of no other starts it. Its standard output and error are one."""
        place = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": port}
        process = subprocess.Popen([BINARY, *map(str, words)], cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, env=self.environment(**{name: str(value) for name, value in place.items()}))
        self.addCleanup(process.kill)
        return process

    def ends_of(self, *processes):
        """(exit code, output) of each."""
        output = [process.communicate(timeout=600)[0] for process in processes]
        return [(process.returncode, said) for process, said in zip(processes, output)]

    @staticmethod
    def free_port():
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            return free.getsockname()[1]

    def test_ranks_that_are_to_do_different_things_are_refused(self):
        train = ["train", "--config", self.recipe, "--output", "run", "--quiet", "--set", "stop.updates=4"]
        self.run_to_end(self.command(1, "run", "--set", "stop.updates=4"))
        plan = ["plan", "--config", self.recipe, "--set", "stop.updates=4"]
        elsewhere = [*train[:4], "other", *train[5:]]
        for first, second, said in (
                ([*train, "--resume"], train, "is to train, and rank 0 on .* is to train with --resume"),
                (elsewhere, [*train, "--resume"], "is to train with --resume, and rank 0 on .* is to train"),
                (elsewhere, plan, "is to plan, and rank 0 on .* is to train")):
            port = self.free_port()
            for code, output in self.ends_of(self.start_by_hand(0, 2, port, *first), self.start_by_hand(1, 2, port, *second)):
                self.assertEqual(code, USAGE, output)
                self.assertRegex(output, "rank 1 on .*" + said)

    def test_ranks_of_different_numbers_of_ranks_are_refused_on_both(self):
        port, train = self.free_port(), ["train", "--config", self.recipe, "--output", "run", "--quiet", "--set", "stop.updates=4"]
        for code, output in self.ends_of(self.start_by_hand(0, 2, port, *train), self.start_by_hand(1, 4, port, *train)):
            self.assertEqual(code, USAGE, output)
            self.assertRegex(output, "one of 4 ranks, and rank 0 on .* as one of 2|one of 2 ranks, and rank 1 on .* as one of 4")

    def test_a_rank_that_waits_for_others_says_so_and_ends_at_a_signal(self):
        train = ["train", "--config", self.recipe, "--output", "run", "--quiet", "--set", "stop.updates=4"]
        for rank, whom in ((0, "rank 1 of 2"), (1, "rank 0")):
            process = self.start_by_hand(rank, 2, self.free_port(), *train)
            line = process.stdout.readline()
            self.assertIn(f"waiting for {whom} at 127.0.0.1:", line)
            process.terminate()
            (code, output), = self.ends_of(process)
            self.assertEqual(code, INTERRUPTED, output)
            self.assertIn(f"a signal ended the waiting for {whom}", output)
            self.assertFalse((self.root / "run").exists())

    def test_a_port_that_is_taken_is_no_interrupted_run(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            (code, output), = self.ends_of(self.start_by_hand(0, 2, port, "train", "--config", self.recipe, "--output", "run", "--set",
                                                              "stop.updates=4"))
        self.assertEqual(code, USAGE, output)
        self.assertIn(f"port {port} (MASTER_PORT)", output)

    def test_torchrun_starts_the_ranks_and_starts_them_again(self):
        torchrun = shutil.which("torchrun", path=os.path.dirname(sys.executable)) or shutil.which("torchrun")
        if not torchrun:
            self.skipTest("no torchrun here")
        self.run_to_end(self.command(2, "straight", "--set", "stop.updates=120"))
        launcher = [torchrun, "--standalone", "--no-python", "--nproc-per-node", "2", "--max-restarts", "2", "--monitor-interval", "0.2"]
        process = self.start(self.command(2, "run", "--resume", "--set", "stop.updates=120", launcher=launcher))
        self.wait_for(lambda: updates_of(self.root / "run") >= 15 or process.poll() is not None, "15 updates")
        victims = ranks_of(process.pid)
        self.assertEqual(len(victims), 2, (self.root / "log").read_text())
        os.kill(victims[1], signal.SIGKILL)
        self.assertEqual(process.wait(timeout=600), 0, (self.root / "log").read_text())
        self.assertEqual(digest(self.root / "run", 120), digest(self.root / "straight", 120))

    def test_a_rank_that_fails_is_named_and_the_run_goes_on_where_it_was(self):
        updates = 200
        more = ("--resume", "--set", f"stop.updates={updates}", "--set", "execution.micro_batch=20", "--set",
                "checkpoint.every=25 updates")
        self.run_to_end(self.command(2, "straight", *more))
        wanted = digest(self.root / "straight", updates)
        dice = random.Random(SEED)
        for number in range(FAULTS):
            world = dice.choice((2, 4))
            victim = dice.randrange(world)
            event = dice.choice(("KILL", "STOP", "TERM")) if number > 2 else ("KILL", "STOP", "TERM")[number]
            after = dice.randrange(1, 80)
            output = f"fault-{number}"
            with self.subTest(number=number, world=world, victim=victim, event=event, after=after):
                self.fault(output, world, victim, event, after, more)
                self.run_to_end(self.command(dice.choice((1, 2, 4)), output, *more))
                self.assertEqual(digest(self.root / output, updates), wanted)
            shutil.rmtree(self.root / output, ignore_errors=True)

    def fault(self, output, world, victim, event, after, more):
        launcher = self.start(self.command(world, output, *more))
        self.wait_for(lambda: updates_of(self.root / output) >= after or launcher.poll() is not None, "updates")
        ranks = ranks_of(launcher.pid)
        self.assertEqual(len(ranks), world, (self.root / "log").read_text())
        os.kill(ranks[victim], getattr(signal, "SIG" + event))
        start = time.monotonic()
        code = launcher.wait(timeout=300)
        self.assertEqual(code, INTERRUPTED, (self.root / "log").read_text())
        log = (self.root / "log").read_text()
        if event == "KILL":
            self.assertIn(f"rank {victim}", log)
        if event == "STOP" and victim > 0:
            self.assertIn(f"lost rank {victim} on ", log)
        if event == "TERM":
            self.assertIn("interrupted after", log)
        seen = re.search(r"silent for (\d+) s", log)
        if seen:
            self.assertLessEqual(int(seen.group(1)), 15)
        for process in ranks:
            self.assertFalse(Path(f"/proc/{process}").exists(), f"a rank stayed behind, {time.monotonic() - start:.0f} s")


    LOSING = ("--resume", "--set", "stop.updates=200", "--set", "execution.micro_batch=20", "--set", "checkpoint.every=90 updates",
              "--set", "evaluation.every=90 updates")

    def lose_the_first(self, output, event, *more):
        """The launcher of two ranks and their processes, the first of which was sent a signal in mid-run."""
        launcher = self.start(self.command(2, output, *self.LOSING, *more))
        self.wait_for(lambda: updates_of(self.root / output) >= 10 or launcher.poll() is not None, "updates")
        ranks = ranks_of(launcher.pid)
        self.assertEqual(len(ranks), 2, (self.root / "log").read_text())
        os.kill(ranks[0], event)
        return launcher, ranks

    def test_another_rank_saves_what_the_first_one_cannot(self):
        straight, run = self.root / "straight", self.root / "killed"
        self.run_to_end(self.command(2, "straight", *self.LOSING))
        launcher, _ = self.lose_the_first("killed", signal.SIGKILL)
        self.assertEqual(launcher.wait(timeout=300), INTERRUPTED, (self.root / "log").read_text())
        log = (self.root / "log").read_text()
        self.assertIn("lost rank 0 on ", log)
        self.assertEqual(saved_updates(run, "checkpoints"), [])
        saved = saved_updates(run)
        self.assertEqual(len(saved), 1, log)
        self.assertIn(f"update {saved[0]} is saved in ", log)
        self.assertGreaterEqual(saved[0], updates_of(run))
        self.run_to_end(self.command(1, "killed", *self.LOSING))
        self.assertEqual(digest(run, 200), digest(straight, 200))
        self.assertEqual(rows_of(run), rows_of(straight))
        self.assertEqual(list(run.glob("rescued-*")), [])

    def test_a_first_rank_that_was_only_frozen_overwrites_nothing(self):
        straight, run = self.root / "straight", self.root / "frozen"
        self.run_to_end(self.command(2, "straight", *self.LOSING))
        launcher, ranks = self.lose_the_first("frozen", signal.SIGSTOP)
        self.wait_for(lambda: saved_updates(run, "rescued-*") or launcher.poll() is not None, "the other rank's checkpoint")
        saved = saved_updates(run, "rescued-*")
        self.assertEqual(len(saved), 1, (self.root / "log").read_text())
        os.kill(ranks[0], signal.SIGCONT)
        self.assertEqual(launcher.wait(timeout=300), INTERRUPTED, (self.root / "log").read_text())
        log = (self.root / "log").read_text()
        # A call to the store that was frozen in the middle is out of time when it goes on.
        self.assertRegex(log, "lost rank 1 on |the store that ranks meet at does not answer")
        # The first rank, which serves the store, may have been frozen with the other's consent to one more update in it.
        later = saved_updates(run, "checkpoints")
        self.assertIn(later, ([], [saved[0] + 1]), log)
        self.assertIn(f"update {later[0]} is saved in " if later else "another rank has saved the state in ", log)
        self.assertEqual(saved_updates(run, "rescued-*"), saved)
        self.run_to_end(self.command(2, "frozen", *self.LOSING))
        self.assertEqual(digest(run, 200), digest(straight, 200))
        self.assertEqual(rows_of(run), rows_of(straight))

    def test_what_only_the_first_rank_had_is_not_made_up(self):
        launcher, _ = self.lose_the_first("shared", signal.SIGKILL, "--set", "execution.shard=optimizer")
        self.assertEqual(launcher.wait(timeout=300), INTERRUPTED, (self.root / "log").read_text())
        self.assertEqual(saved_updates(self.root / "shared"), [])
        # The first rank may have been lost while the ranks gave each other their parts of the new weights.
        self.assertRegex((self.root / "shared" / "ranks" / "rank-1.log").read_text(),
                         "cannot be saved in its place: each rank has only its part of the optimizer's state|"
                         "the update under way was applied in part: nothing newer than the last checkpoint can be saved")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
