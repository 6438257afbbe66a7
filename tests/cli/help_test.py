#!/usr/bin/env python3
"""What --help says: five groups of commands, lines that a terminal of 80 columns holds, and examples that can be typed.

    help_test.py path/to/autotrain path/to/project
"""
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BINARY, PROJECT = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
GROUPS = {
    "Train": ["train", "data", "config", "schema"],
    "Plan and find": ["plan", "lr", "advise"],
    "Use a run": ["evaluate", "predict", "export", "compress", "report"],
    "Compare and study": ["compare", "sweep"],
    "Machine": ["doctor", "verify"],
}
COMMANDS = [command for group in GROUPS.values() for command in group]
RECIPE = """name: small
data: {train: {dataset: synthetic, kind: vectors, samples: 64}}
model: {name: mlp, depth: 1, width: 8}
batch: {effective: 32}
stop: {updates: 2}
execution: {precision: fp32, micro_batch: 16, threads: 1, memory: {budget: 64MiB}}
"""


def run(*arguments, cwd=None):
    result = subprocess.run([str(BINARY), *map(str, arguments)], capture_output=True, text=True, cwd=cwd, timeout=1200,
                            env={**os.environ, "CI": "1", "COLUMNS": "80"}, check=False)
    if result.returncode != 0:
        raise AssertionError(f"{arguments}: {result.stderr}")
    return result.stdout


def options(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))


class Help(unittest.TestCase):
    def test_commands_stand_in_five_groups(self):
        text = run("--help")
        for title, commands in GROUPS.items():
            block = re.search(rf"^{title}\n((?:  .*\n)+)", text, flags=re.MULTILINE)
            self.assertIsNotNone(block, title)
            self.assertEqual(re.findall(r"^  ([a-z]+) ", block[1], flags=re.MULTILINE), commands)

    def test_fits_a_terminal(self):
        for command in [[], *([name] for name in COMMANDS)]:
            for line in run(*command, "--help").splitlines():
                self.assertLessEqual(len(line), 80, f"{command}: {line}")

    def test_names_what_must_be_given(self):
        self.assertIn("Usage: autotrain predict --run DIR [OPTIONS]", run("predict", "--help"))
        self.assertIn("Usage: autotrain compare RECIPE… [OPTIONS]", run("compare", "--help"))

    def test_shows_defaults_and_choices(self):
        text = run("advise", "--help") + run("sweep", "--help")
        self.assertRegex(text, r"--updates N +Updates of the short run of --config; default: 128")
        self.assertIn("--mode inference|training", text)

    def test_examples_give_options_that_there_are(self):
        for command in COMMANDS:
            described, examples = run(command, "--help").split("\nExamples:\n")
            typed = [line.strip() for line in examples.splitlines() if line.strip().startswith(("autotrain ", "--"))]
            self.assertTrue(typed, command)
            for line in typed:
                self.assertLessEqual(options(line), options(described), line)

    def test_one_word_stands_for_a_factor(self):
        texts = {command: options(run(command, "--help")) for command in COMMANDS}
        self.assertEqual([name for name in COMMANDS if "--factor" in texts[name]], ["lr", "advise"])
        self.assertFalse(any("--factors" in found for found in texts.values()))

    def test_the_readme_has_every_command(self):
        self.assertEqual(set(COMMANDS), set(re.findall(r"autotrain ([a-z]+)`", (PROJECT / "README.md").read_text())))


class Train(unittest.TestCase):
    def test_is_what_runs_without_a_word(self):
        with tempfile.TemporaryDirectory() as folder:
            recipe = Path(folder) / "small.yaml"
            recipe.write_text(RECIPE)
            weights = []
            for name, word in (("a", ["train"]), ("b", [])):
                run(*word, "--config", recipe, "--output", Path(folder) / name, "--quiet")
                file, = (Path(folder) / name / "checkpoints").glob("update-*/model.safetensors")
                weights.append(hashlib.sha256(file.read_bytes()).hexdigest())
            self.assertEqual(weights[0], weights[1])

class Config(unittest.TestCase):
    def test_prints_what_a_recipe_comes_to(self):
        with tempfile.TemporaryDirectory() as folder:
            recipe = Path(folder) / "small.yaml"
            recipe.write_text(RECIPE.replace("samples: 64}", "samples: 64, noise: 3}, validation: {dataset: synthetic, kind: vectors}"))
            first = run("config", "--config", recipe, "--set", "optimizer.lr=0.25")
            self.assertIn("\n  lr: 0.25\n", first)
            self.assertIn("\n  depth: 1\n", first)
            recipe.write_text(first)
            self.assertEqual(run("config", "--config", recipe), first)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
