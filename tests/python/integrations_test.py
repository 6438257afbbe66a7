#!/usr/bin/env python3
"""The drop-ins against the real packages: Accelerate and transformers train with what was found.

    integrations_test.py path/to/libautotrain_python.so path/to/project
"""
import os
import random
import sys
import tempfile
import unittest

from packages import run_with

run_with("accelerate", "transformers")
os.environ["HF_HUB_OFFLINE"] = "1"
import accelerate  # noqa: E402
import transformers  # noqa: E402
from given import assert_same, everything, images_and_classes, mlp, numpy, torch  # noqa: E402

from autotrain.accelerate import find_executable_batch_size  # noqa: E402
from autotrain.errors import StepError  # noqa: E402
from autotrain.transformers import AutoBatch, lengths_of  # noqa: E402

EFFECTIVE, BUDGET = 4096, "32MiB"


class Accelerate(unittest.TestCase):
    def test_it_takes_the_place_of_theirs(self):
        theirs, ours = [], []
        for finder, sizes in ((accelerate.utils.find_executable_batch_size, theirs), (find_executable_batch_size, ours)):
            @finder(starting_batch_size=200)
            def train(batch_size, more):
                sizes.append(batch_size)
                if batch_size > 50:
                    raise torch.OutOfMemoryError("CUDA out of memory.")
                return batch_size, more
            self.assertEqual(train("x")[1], "x")
        self.assertEqual(ours, theirs)

    def test_a_training_with_an_accelerator(self):
        @find_executable_batch_size(starting_batch_size=EFFECTIVE, effective=EFFECTIVE, budget=BUDGET)
        def train(batch_size, window):
            accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=window)
            model = mlp()
            model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
            for _ in range(2 * window):
                with accelerator.accumulate(model):
                    inputs, targets = images_and_classes(batch_size)
                    accelerator.backward(torch.nn.functional.cross_entropy(model(inputs), targets))
                    optimizer.step()
                    optimizer.zero_grad()
            return batch_size, window
        size, window = train()
        self.assertEqual(size * window, EFFECTIVE)
        self.assertGreater(window, 1)


class Words(torch.utils.data.Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        words = torch.arange(4 + index % 29) % 64
        return {"input_ids": words.tolist(), "labels": words.tolist()}


def padded(features):
    longest = max(len(feature["input_ids"]) for feature in features)
    rows = [feature["input_ids"] + [0] * (longest - len(feature["input_ids"])) for feature in features]
    labels = [feature["labels"] + [-100] * (longest - len(feature["labels"])) for feature in features]
    return {"input_ids": torch.tensor(rows), "labels": torch.tensor(labels)}


class Drawn(torch.utils.data.Dataset):
    """Draws its samples, and has a column that the model does not take."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        words = [random.randrange(64) for _ in range(8)]
        return {"input_ids": words, "labels": torch.randint(0, 64, (8,)).tolist(), "text": f"sample {index}" * (index % 5)}


class Transformers(unittest.TestCase):
    def trainer(self, dataset, **arguments):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        config = transformers.GPT2Config(vocab_size=64, n_positions=64, n_embd=16, n_layer=1, n_head=2)
        options = transformers.TrainingArguments(output_dir=folder.name, max_steps=2, use_cpu=True, report_to=[], save_strategy="no",
                                                 disable_tqdm=True)
        return transformers.Trainer(model=transformers.GPT2LMHeadModel(config), args=options, train_dataset=dataset, **arguments)

    def test_samples_that_are_drawn_leave_no_trace(self):
        trainer = self.trainer(Drawn())
        before = torch.get_rng_state().tolist(), random.getstate()
        plan = AutoBatch(trainer, effective=16, budget="96MiB", max_trials=2).plan
        self.assertEqual(before, (torch.get_rng_state().tolist(), random.getstate()))
        self.assertEqual(plan.micro_batch * plan.window, 16)
        trainer.train()

    def test_a_stream_that_has_a_length_is_refused(self):
        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(Drawn())

            def __len__(self):
                return 64
        with self.assertRaisesRegex(StepError, "train_dataset: has no samples by their number"):
            AutoBatch(self.trainer(Stream()), effective=16)

    def test_all_sequences_of_a_sample_count(self):
        for samples, lengths in (([{"input_values": [0.0] * n} for n in (5, 900)], [5, 900]),
                                 ([{"input_ids": [1, 2], "labels": [1] * n} for n in (2, 90)], [4, 92]),
                                 ([{"x": torch.zeros(n, 2), "y": numpy.zeros(3), "text": "a" * n} for n in (1, 2)], [5, 7]),
                                 ([([1] * n, 0) for n in (3, 4)], [3, 4]), ([{"input_ids": [1, 2], "text": "a" * n} for n in (1, 2)], None),
                                 ([1, 2], None)):
            self.assertEqual(lengths_of(samples), lengths)

    def test_the_longest_decide_whatever_they_are_called(self):
        class Labels(Words):
            def __getitem__(self, index):
                words = super().__getitem__(index)["labels"]
                return {"input_ids": [1] * 4, "labels": words}

        seen = []

        def collated(features):
            seen.append(max(len(feature["labels"]) for feature in features))
            return padded([{"input_ids": feature["labels"], "labels": feature["labels"]} for feature in features])
        AutoBatch(self.trainer(Labels(), data_collator=collated), effective=4, budget="96MiB", max_trials=2)
        self.assertEqual(max(seen), 32)  # four samples as they come have 7 at most

    def test_options_of_find(self):
        trainer = self.trainer(Words(), data_collator=padded)
        with self.assertRaisesRegex(StepError, "cut: is given"):
            AutoBatch(trainer, effective=4, cut="even")
        self.assertEqual(AutoBatch(trainer, effective=4, budget="96MiB", worst=None, cut="divide", max_trials=2).plan.effective_batch, 4)

    def test_micro_batch_and_accumulation_are_set_together(self):
        config = transformers.GPT2Config(vocab_size=64, n_positions=64, n_embd=64, n_layer=2, n_head=2)
        with tempfile.TemporaryDirectory() as folder:
            arguments = transformers.TrainingArguments(output_dir=folder, max_steps=2, use_cpu=True, report_to=[], save_strategy="no",
                                                       disable_tqdm=True, remove_unused_columns=False)
            model = transformers.GPT2LMHeadModel(config)
            trainer = transformers.Trainer(model=model, args=arguments, train_dataset=Words(), data_collator=padded)
            before = everything(model)
            found = AutoBatch(trainer, effective=256, budget="24MiB")
            assert_same(self, before, everything(model))
            self.assertEqual(arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps, 256)
            self.assertEqual(arguments.per_device_train_batch_size, found.plan.micro_batch)
            self.assertGreater(found.plan.window, 1)
            sizes, compute = [], trainer.compute_loss

            def counting(used, inputs, **keywords):
                sizes.append(len(inputs["input_ids"]))
                return compute(used, inputs, **keywords)
            trainer.compute_loss = counting
            trainer.train()
        self.assertEqual(set(sizes), {found.plan.micro_batch})
        self.assertEqual(len(sizes), 2 * found.plan.window)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
