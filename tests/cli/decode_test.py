#!/usr/bin/env python3
"""`autotrain predict --prompt` and `autotrain sweep --decode`: decode_test.py path/to/autotrain"""
import csv
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BINARY = Path(sys.argv[1]).resolve()
TEXT = "the quick brown fox jumps over the lazy dog and back again. " * 60


def recipe(positions, files, dataset="text"):
    return {"name": "letters", "data": {"train": {"dataset": dataset, "files": [str(files)], "context": 32}},
            "model": {"name": "transformer", "layers": 1, "width": 32, "heads": 4, "kv_heads": 2, "positions": positions},
            "optimizer": {"name": "adamw", "lr": 0.01}, "batch": {"effective": 16}, "stop": {"updates": 40},
            "execution": {"threads": 1, "precision": "fp32", "memory": {"budget": "256MiB"},
                          "search": {"plan_cache": False}}}


class Decode(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.parent = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.parent.name)
        (cls.folder / "text.txt").write_text(TEXT)
        for positions in ("learned", "rotary"):
            cls.train(positions, recipe(positions, cls.folder / "text.txt"))

    @classmethod
    def tearDownClass(cls):
        cls.parent.cleanup()

    @classmethod
    def train(cls, name, values):
        (cls.folder / f"{name}.yaml").write_text(json.dumps(values))
        done = cls.command("train", "--config", f"{name}.yaml", "--output", name, "--quiet")
        assert done.returncode == 0, done.stderr

    @classmethod
    def command(cls, *arguments):
        return subprocess.run([BINARY, *map(str, arguments)], cwd=cls.folder, capture_output=True, text=True,
                              env={**os.environ, "OMP_WAIT_POLICY": "passive"})

    def generate(self, run, *arguments):
        done = self.command("predict", "--run", run, "--json", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def refused(self, part, *arguments):
        done = self.command(*arguments)
        self.assertEqual(done.returncode, 64, done.stdout)
        self.assertIn(part, done.stderr)

    def test_numbers_are_read_as_in_recipes(self):
        made = self.generate("learned", "--prompt", "the quick br", "--generate", "010")
        self.assertEqual(made["tokens"], 10)

    def test_the_folder_of_the_texts_is_made_and_told_of_before_they_are(self):
        done = self.command("predict", "--run", "learned", "--prompt", "the", "--generate", 2, "--output", "new/deep/made.jsonl")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([path.name for path in (self.folder / "new" / "deep").iterdir()], ["made.jsonl"])
        done = self.command("predict", "--run", "nothing", "--prompt", "the", "--output", "text.txt/made.jsonl")
        self.assertEqual(done.returncode, 74, "no run was looked for")

    def test_keys_that_make_another_model_of_the_weights_are_told(self):
        other = ("--set", "model.heads=2", "--set", "model.kv_heads=1")
        done = self.command("evaluate", "--run", "learned", "--set", "data.validation.dataset=text", "--set",
                            f"data.validation.files=[{self.folder / 'text.txt'}]", *other)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("in which its weights meant something else", done.stderr)
        self.assertIn("model.heads: 4 → 2", done.stderr)

    def test_what_was_learned_is_gone_on_with(self):
        for run in ("learned", "rotary"):
            made = self.generate(run, "--prompt", "the quick br", "--generate", 12)
            self.assertEqual(len(made["texts"][0]["tokens"]), 12)
            self.assertTrue(set(made["texts"][0]["text"]) <= set(TEXT))

    def test_a_sequence_draws_the_same_in_any_batch(self):
        prompts = [word for i in range(5) for word in ("--prompt", TEXT[i * 3:i * 3 + 8])]
        drawn = [self.generate("rotary", *prompts, "--generate", 20, "--temperature", 1.5, "--seed", 7, "--batch", batch)
                 for batch in (1, 2, 5)]
        self.assertEqual([[t["tokens"] for t in d["texts"]] for d in drawn[1:]],
                         [[t["tokens"] for t in drawn[0]["texts"]]] * 2)
        other = self.generate("rotary", *prompts, "--generate", 20, "--temperature", 1.5, "--seed", 8)
        self.assertNotEqual(other["texts"][0]["tokens"], drawn[0]["texts"][0]["tokens"])

    def test_top_k_of_one_is_greedy(self):
        greedy = self.generate("rotary", "--prompt", "lazy", "--generate", 20)
        one = self.generate("rotary", "--prompt", "lazy", "--generate", 20, "--top-k", 1, "--temperature", 3)
        self.assertEqual(one["texts"], greedy["texts"])

    def test_texts_are_written_as_lines(self):
        (self.folder / "prompt.txt").write_text("over the\n")
        done = self.command("predict", "--run", "learned", "--prompt", "@prompt.txt", "--prompt", "dog", "--generate", 5,
                            "--output", "made.jsonl")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in (self.folder / "made.jsonl").read_text().splitlines()]
        self.assertEqual([line["prompt"] for line in lines], ["over the", "dog"])
        self.assertEqual([len(line["tokens"]) for line in lines], [5, 5])
        self.refused("is there already", "predict", "--run", "learned", "--prompt", "a", "--output", "made.jsonl")

    def test_weights_of_a_file_are_said_to_have_made_the_text(self):
        done = self.command("export", "--run", "learned", "--output", "w.safetensors")
        self.assertEqual(done.returncode, 0, done.stderr)
        asked = ("predict", "--run", "learned", "--prompt", "a", "--generate", 2)
        self.assertRegex(self.command(*asked).stdout, r" · by update 40 \(newest\)\n$")
        self.assertRegex(self.command(*asked, "--weights", "w.safetensors").stdout, r" · by w\.safetensors\n$")
        self.assertEqual(self.generate("learned", *asked[3:], "--weights", "w.safetensors")["weights"], "w.safetensors")

    def test_a_model_without_blocks_to_compute_again_says_which_have_some(self):
        experts = recipe("learned", self.folder / "text.txt")
        experts["model"] |= {"experts": 4}
        experts["execution"] |= {"recompute": "on"}
        (self.folder / "experts.yaml").write_text(json.dumps(experts))
        done = self.command("plan", "--config", "experts.yaml")
        self.assertEqual(done.returncode, 78, done.stderr)
        self.assertIn("transformers with experts", done.stderr)

    def test_what_cannot_be_generated_is_refused(self):
        run = ("predict", "--run", "learned")
        self.refused("longer than the 32 positions", *run, "--prompt", "over the lazy dog", "--generate", 30)
        self.refused("--generate 15", *run, "--prompt", "over the lazy dog", "--generate", 30)
        self.refused("is empty", *run, "--prompt", "")
        self.refused("--prompt", *run, "--generate", 3, "--output", "x.csv")
        self.refused("--output", *run)
        self.refused("takes the likeliest token always", *run, "--prompt", "a", "--temperature", 0, "--top-k", 3)
        self.refused(".jsonl", *run, "--prompt", "a", "--output", "x.csv")
        self.refused("--data", *run, "--prompt", "a", "--data", "train")

    def test_rotary_positions_go_beyond_what_was_trained_and_say_so(self):
        done = self.command("predict", "--run", "rotary", "--prompt", "over the", "--generate", 40)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("longer than the 32 that the run was trained with", done.stderr)

    def test_documents_end_where_the_model_ends_them(self):
        (self.folder / "lines.txt").write_text("ab\n" * 400)
        self.train("documents", recipe("rotary", self.folder / "lines.txt", "documents") | {"stop": {"updates": 80}})
        made = self.generate("documents", "--prompt", "a", "--generate", 20)["texts"][0]
        self.assertEqual((made["text"], made["ended"]), ("b", True))

    def test_a_sweep_of_decoding_has_every_point_and_what_is_refused(self):
        sweep = ("sweep", "--config", "learned.yaml", "--decode", "--batches", "1,3", "--contexts", "16,64", "--rounds",
                 "1", "--seconds", "0.05", "--requests", "6", "--output", "decode")
        done = self.command(*sweep, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        variant = json.loads(done.stdout)["variants"][0]
        points = {(p["batch"], p["context"]): p for p in variant["points"]}
        self.assertEqual(set(points), {(1, 16), (3, 16), (1, 64), (3, 64)})
        self.assertIn("positions for 32 tokens", points[1, 64]["failure"])
        self.assertEqual(variant["cache_bytes_per_token"], 2 * 1 * 2 * 8 * 4)  # layers, kv heads, head size, bytes
        self.assertEqual(points[3, 16]["cache_bytes"], 3 * 16 * variant["cache_bytes_per_token"])
        p = points[3, 16]
        self.assertAlmostEqual(p["reading_seconds"], (p["weight_bytes"] + p["cache_bytes"]) / p["bytes_per_second"])
        self.assertIn("positions for 32 tokens", variant["batching"]["failure"])
        with open(self.folder / "decode/decode.csv", newline="") as file:
            self.assertEqual(len(list(csv.DictReader(file))), 4)
        again = self.command(*sweep)  # all is kept
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(self.command("report", "decode").returncode, 0)

    def test_requests_get_the_tokens_that_they_get_alone(self):
        done = self.command("sweep", "--config", "rotary.yaml", "--weights", "rotary", "--decode", "--batches", "3",
                            "--contexts", "48", "--rounds", "1", "--seconds", "0.05", "--requests", "9", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        batching = json.loads(done.stdout)["variants"][0]["batching"]
        self.assertEqual(batching["same_alone"], batching["alone"])
        self.assertLess(batching["continuous_steps"], batching["static_steps"])
        self.assertGreater(batching["continuous_use"], batching["static_use"])

    def test_models_and_options_that_do_not_go_together_are_refused(self):
        config = ("sweep", "--config", "rotary.yaml")
        self.refused("--decode", *config, "--contexts", "16")
        self.refused("--largest", *config, "--decode", "--largest")
        self.refused("no sizes", *config, "--decode", "--contexts", "auto")
        values = {"data": {"train": {"dataset": "synthetic", "kind": "vectors", "samples": 64}}, "model": {"name": "mlp"},
                  "stop": {"updates": 1}}
        (self.folder / "mlp.yaml").write_text(json.dumps(values))
        done = self.command("sweep", "--config", "mlp.yaml", "--decode")
        self.assertEqual(done.returncode, 78)
        self.assertIn("has no tokens", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
