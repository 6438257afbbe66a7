#!/usr/bin/env python3
"""Runs of the program as shared machines have them: closed descriptors, hang-ups, signals of schedulers, few open files, and
environments and users of which the system knows nothing.

    shared_machine_test.py path/to/autotrain
"""
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

BINARY = Path(sys.argv[1]).resolve()
DONE, IO, INTERRUPTED = 0, 74, 75
ENDLESS = 10**9


def recipe(updates):
    return {"data": {"train": {"dataset": "synthetic", "kind": "vectors", "samples": 256}},
            "model": {"name": "mlp", "depth": 1, "width": 8}, "batch": {"effective": 32}, "stop": {"updates": updates},
            "checkpoint": {"every": "never"},
            "execution": {"threads": 1, "precision": "fp32", "telemetry": 0.05, "memory": {"budget": "64MiB"},
                          "search": {"plan_cache": False}}}


def rows_of(run):
    """Rows of metrics.jsonl that are whole."""
    path = run / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


class SharedMachine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.run_folder = self.folder / "run"

    def arguments(self, updates, *more):
        (self.folder / "r.yaml").write_text(json.dumps(recipe(updates)))
        return [str(BINARY), "--config", str(self.folder / "r.yaml"), "--output", str(self.run_folder), *more]

    def train(self, updates=3, *more, code=DONE, **how):
        result = subprocess.run(self.arguments(updates, *more), capture_output=True, text=True, cwd=self.folder, **how)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def start_endless(self, *more, **how):
        """A run that is in the middle of its training."""
        log = open(self.folder / "log", "w")
        self.addCleanup(log.close)
        process = subprocess.Popen(self.arguments(ENDLESS, *more), stdout=log, stderr=log, **how)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        self.wait_for_rows(process, 1)
        return process

    def wait_for_rows(self, process, more):
        end = rows_of(self.run_folder) + more
        while rows_of(self.run_folder) < end:
            self.assertIsNone(process.poll(), (self.folder / "log").read_text())
            time.sleep(0.01)

    def expect_saved(self, process):
        self.assertEqual(process.wait(), INTERRUPTED, (self.folder / "log").read_text())
        summary = json.loads((self.run_folder / "summary.json").read_text())
        self.assertEqual((summary["status"], summary["stopped_by"]), ("interrupted", "signal"))
        self.assertTrue((self.run_folder / "checkpoints" / f"update-{summary['updates']}" / "manifest.json").exists())

    def test_what_is_printed_to_closed_descriptors_lands_in_no_file(self):
        for closing in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            with self.subTest(closing=closing), tempfile.TemporaryDirectory() as folder:
                self.run_folder = Path(folder) / "run"
                arguments = self.arguments(40, "--verbose")
                command = ["sh", "-c", f'exec "$@" {closing}', "sh", *arguments]
                self.assertEqual(subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                                stderr=subprocess.DEVNULL).returncode, DONE)
                for name in ("metrics.jsonl", "telemetry.jsonl"):
                    for line in (self.run_folder / name).read_text().splitlines():
                        self.assertIsInstance(json.loads(line), dict)
                self.assertRegex((self.run_folder / ".lock").read_text(), r"^\d+\n$")

    def test_signals_of_terminals_and_schedulers_save_and_end(self):
        for number in (signal.SIGHUP, signal.SIGXCPU):
            with self.subTest(signal=number.name), tempfile.TemporaryDirectory() as folder:
                self.run_folder = Path(folder) / "run"
                process = self.start_endless()
                process.send_signal(number)
                process.send_signal(number)  # as shells and the kernel do
                self.expect_saved(process)

    def test_a_hang_up_that_is_ignored_at_the_start_stays_ignored(self):
        process = self.start_endless(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        process.send_signal(signal.SIGHUP)
        self.wait_for_rows(process, 200)
        process.send_signal(signal.SIGTERM)
        self.expect_saved(process)

    def test_the_signal_that_the_recipe_names_saves_and_ends(self):
        for name, ranks in (("SIGUSR1", "1"), ("SIGUSR2", "1"), ("SIGUSR2", "2")):
            with self.subTest(signal=name, ranks=ranks), tempfile.TemporaryDirectory() as folder:
                self.run_folder = Path(folder) / "run"
                process = self.start_endless("--set", f"execution.requeue_signal={name}", "--ranks", ranks)
                process.send_signal(getattr(signal, name))
                self.expect_saved(process)

    def test_without_it_the_same_signal_asks_for_a_checkpoint(self):
        process = self.start_endless()
        process.send_signal(signal.SIGUSR1)
        while not list(self.run_folder.glob("checkpoints/update-*")):
            self.wait_for_rows(process, 1)
        process.send_signal(signal.SIGTERM)
        self.expect_saved(process)

    def test_many_files_are_opened_where_the_hard_limit_allows_it(self):
        texts = self.folder / "texts"
        texts.mkdir()
        for i in range(200):
            (texts / f"{i}.txt").write_text("some words " * 20)
        more = ["--set", f"data.train={{dataset: text, files: ['{texts}/*.txt'], context: 16}}",
                "--set", "model={name: transformer, layers: 1, width: 8}"]
        self.train(1, *more, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 1000)))
        self.run_folder = self.folder / "other"
        failed = self.train(1, *more, code=IO, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)))
        self.assertIn("Too many open files", failed.stderr)
        self.assertIn("ulimit -n", failed.stderr)

    def test_ranks_that_may_open_too_few_files_do_not_begin(self):
        for files in (10, 16, 40):
            failed = self.train(1, "--ranks", "2", code=IO, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
            self.assertIn("ulimit -n", failed.stderr)

    def test_nothing_of_the_environment_is_needed(self):
        libraries = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        odd = {"HOME": "", "TZ": "Nowhere/Odd", "TERM": "unheard-of", "LANG": "xx_YY.bad", "LC_ALL": "xx_YY.bad"}
        for environment in ({}, odd, {"HOME": "/nonexistent"}, {"HOME": "relative", "TZ": ":", "TERM": ""}):
            with self.subTest(environment=environment), tempfile.TemporaryDirectory() as folder:
                self.run_folder = Path(folder) / "run"
                self.train(env=libraries | environment)

    @unittest.skipUnless(os.geteuid() == 0, "only root may take another user's number")
    def test_a_user_whom_the_system_does_not_know(self):
        stranger = 54321
        for folder in BINARY.parents:
            if not folder.stat().st_mode & stat.S_IXOTH:
                self.skipTest(f"{folder} is closed to others")
        os.chown(self.folder, stranger, stranger)

        def leave():
            os.setgroups([])
            os.setgid(stranger)
            os.setuid(stranger)

        self.train(env={k: v for k, v in os.environ.items() if k not in ("HOME", "USER", "LOGNAME")}, preexec_fn=leave)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
