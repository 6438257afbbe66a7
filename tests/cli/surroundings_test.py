#!/usr/bin/env python3
"""Runs in surroundings that nobody chose for them: names of folders, terminals and readers that go away, signals and
masks that were set before, a folder for caches that is none.

    surroundings_test.py path/to/autotrain
"""
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "ranks"))
from runs import ranks_of, updates_of  # noqa: E402

BINARY = Path(sys.argv[1]).resolve()
HANGS = 600  # seconds that only something that hangs can need
NOBODY = 65534


def environment(**more):
    return {**os.environ, "CI": "1", **more}


class Surroundings(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, os.fsencode(self.folder), True)

    def recipe(self, folder, updates=4, table=b"t.csv"):
        """A recipe and its table in that folder, whose names need be no text."""
        table = os.path.join(os.fsencode(folder), table)
        with open(table, "w") as out:
            out.write("a,b,y\n" + "".join(f"{i % 7},{i % 5},{'odd' if i % 2 else 'even'}\n" for i in range(200)))
        text = f"""
name: small
data:
  train: {{dataset: table, file: "TABLE", target: y}}
  validation: {{dataset: table, file: "TABLE", target: y}}
model: {{name: mlp, depth: 1, width: 8}}
batch: {{effective: 16}}
stop: {{updates: {updates}}}
execution: {{threads: 1, memory: {{budget: 64MiB}}}}
"""
        path = os.path.join(os.fsencode(folder), b"r.yaml")
        with open(path, "wb") as out:
            out.write(text.encode().replace(b"TABLE", table))
        return path

    def autotrain(self, *arguments, code=0, **options):
        options = {"env": environment(), "stdout": subprocess.PIPE, "timeout": HANGS, **options}
        out = subprocess.run([BINARY, *arguments], stderr=subprocess.PIPE, **options)
        self.assertEqual(out.returncode, code, out.stderr.decode(errors="replace"))
        return out

    def test_folders_and_files_whose_names_are_no_utf8(self):
        folder = os.path.join(os.fsencode(self.folder), b"d\xff")
        os.mkdir(folder)
        recipe, run, caches = self.recipe(folder, table=b"t\xfe.csv"), folder + b"/run", folder + b"/caches"
        caching = environment(CI="", XDG_CACHE_HOME=os.fsdecode(caches))
        self.autotrain("--config", recipe, "--output", run, "--quiet", env=caching)
        with open(run + b"/summary.json") as summary:
            self.assertEqual(json.load(summary)["updates"], 4)
        again = self.autotrain("plan", "--config", recipe, "--json", env=caching)
        self.assertTrue(json.loads(again.stdout)["search"]["from_cache"])
        for config, updates in ((recipe, 6), (run + b"/recipe.yaml", 8)):
            resumed = self.autotrain("--config", config, "--output", run, "--resume", "--allow-change", "--set",
                                     f"stop.updates={updates}", "--quiet")
            self.assertIn(f"stop.updates: {updates - 2} → {updates}".encode(), resumed.stderr)
            self.assertNotIn(b"data.", resumed.stderr, "the names of the data have changed")
        self.assertTrue(json.loads(self.autotrain("report", run, "--json").stdout))
        self.assertEqual(json.loads(self.autotrain("evaluate", "--run", run, "--json").stdout)["update"], 8)
        for _ in range(2):  # the second time all is kept
            self.autotrain("compare", recipe, recipe, "--seeds", "2", "--output", folder + b"/compare", "--quiet")
        self.autotrain("--config", recipe, "--output", folder + b"/ranks", "--ranks", "2", "--quiet")
        missing = self.autotrain("--config", recipe, "--set", b"data.train.file=" + folder + b"/none", code=66)
        self.assertIn(b"none: No such file", missing.stderr)

    def test_a_parent_that_ignores_the_ends_of_its_processes(self):
        ignoring = {"preexec_fn": lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)}
        recipe = self.recipe(self.folder)
        self.autotrain("--config", recipe, "--output", self.folder / "run", "--quiet", **ignoring)
        self.autotrain("--config", recipe, "--output", self.folder / "ranks", "--ranks", "2", "--quiet", **ignoring)
        self.autotrain("compare", recipe, "--seeds", "1", "--output", self.folder / "compare", "--quiet", **ignoring)

    def started(self, *arguments, **options):
        process = subprocess.Popen([BINARY, *arguments], env=environment(), **options)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def wait_for_updates(self, process, run):
        while updates_of(run) < 3:
            self.assertIsNone(process.poll())
            time.sleep(0.05)

    def test_a_reader_that_goes_away_neither_ends_a_run_nor_makes_it_fail(self):
        for ranks in ("1", "2"):
            run = self.folder / f"ranks-{ranks}"
            process = self.started("--config", self.recipe(self.folder), "--output", run, "--ranks", ranks,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            process.stdout.close()
            self.assertEqual(process.wait(HANGS), 0)
            self.assertEqual(json.loads((run / "summary.json").read_text())["status"], "completed")

    def test_a_full_disk_behind_standard_output_is_still_told(self):
        with open("/dev/full", "w") as full:
            self.autotrain("config", code=74, stdout=full)

    def test_a_result_that_nobody_got_is_told(self):
        closed = {"preexec_fn": lambda: os.close(1), "stdout": None}
        run = self.folder / "run"
        for arguments in (("--config", self.recipe(self.folder), "--output", run, "--json"), ("config",)):
            out = subprocess.run([BINARY, *arguments], stderr=subprocess.PIPE, env=environment(), timeout=HANGS, **closed)
            self.assertEqual(out.returncode, 74)
            self.assertIn(b"standard output: is closed", out.stderr)
        self.assertFalse(run.exists(), "told before the run begins")
        process = self.started("--config", self.recipe(self.folder), "--output", run, "--json", stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
        process.stdout.close()
        process.stdout = None
        self.assertIn(b"its reader went away", process.communicate(timeout=HANGS)[1])
        self.assertEqual(process.returncode, 74)
        self.assertEqual(json.loads((run / "summary.json").read_text())["status"], "completed")

    def test_a_signal_after_the_terminal_was_closed_ends_with_the_code_of_signals(self):
        ours, theirs = pty.openpty()
        run = self.folder / "run"
        process = self.started("--config", self.recipe(self.folder, 10**6), "--output", run, stdin=theirs, stdout=theirs,
                               stderr=theirs)
        os.close(theirs)
        self.wait_for_updates(process, run)
        os.close(ours)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(HANGS), 75)

    def test_ranks_go_by_the_name_of_the_program(self):
        run = self.folder / "run"
        process = self.started("--config", self.recipe(self.folder, 10**6), "--output", run, "--ranks", "2", "--quiet",
                               stdout=subprocess.DEVNULL)
        self.wait_for_updates(process, run)
        names = [Path(f"/proc/{rank}/comm").read_text().strip() for rank in ranks_of(process.pid)]
        process.send_signal(signal.SIGTERM)
        self.assertEqual(names, ["autotrain"] * 2)
        self.assertEqual(process.wait(HANGS), 75)

    def test_a_relative_folder_for_caches_is_none(self):
        home = self.folder / "home"
        home.mkdir()
        self.autotrain("plan", "--config", self.recipe(self.folder), cwd=home,
                       env=environment(CI="", XDG_CACHE_HOME="caches", HOME=str(home)))
        self.assertFalse((home / "caches").exists())
        self.assertTrue((home / ".cache" / "autotrain" / "plans").exists())

    def test_a_working_folder_that_was_removed_is_named(self):
        recipe, run = self.recipe(self.folder), self.folder / "run"
        for command in (("train", "--config", recipe, "--output", run), ("plan", "--config", recipe)):
            gone = self.folder / "gone"
            gone.mkdir()
            failed = self.autotrain(*command, code=66, cwd=gone, preexec_fn=gone.rmdir)
            self.assertIn(b"the working directory: is not there any more", failed.stderr)
        self.assertFalse(run.exists())

    def test_a_recipe_from_a_pipe_is_none_for_several_ranks(self):
        text = Path(os.fsdecode(self.recipe(self.folder))).read_bytes()
        for command in ("train", "plan"):
            run = self.folder / command
            more = ("--output", run, "--set", "stop.updates=2") if command == "train" else ()
            failed = self.autotrain(command, "--config", "/dev/stdin", "--ranks", "2", *more, code=64, input=text)
            self.assertIn(b"each of several ranks reads the recipe", failed.stderr)
            self.assertFalse(run.exists())
        with open(os.fsdecode(self.recipe(self.folder)), "rb") as file:  # which each of them opens
            self.autotrain("--config", "/dev/stdin", "--ranks", "2", "--output", self.folder / "run", "--quiet", stdin=file)
        self.assertEqual(json.loads((self.folder / "run" / "summary.json").read_text())["updates"], 4)

    def test_a_umask_that_locks_out_its_user_is_named(self):
        recipe = self.recipe(self.folder)
        self.folder.chmod(0o777)

        def masked():
            if os.geteuid() == 0:  # who may do everything
                os.setgroups([])
                os.setuid(NOBODY)
            os.umask(0o777)

        try:
            subprocess.run(["true"], preexec_fn=masked, check=True)
        except subprocess.SubprocessError:
            self.skipTest("this machine lets nobody be nobody")
        failed = self.autotrain("--config", recipe, "--output", self.folder / "a" / "run", code=74, preexec_fn=masked)
        self.assertIn(b"umask 022", failed.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
