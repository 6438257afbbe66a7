#!/usr/bin/env python3
"""The drop-ins against the real packages: Lightning, Accelerate and transformers train with what was found.

    integrations_test.py path/to/libautotrain_python.so path/to/project

Where they are not installed, an environment of its own is made that has them beside this Python's PyTorch. 77 where that
cannot be had."""
import importlib.util
import os
import subprocess
import sys
import sysconfig
import tempfile
import unittest
import venv
from pathlib import Path

PACKAGES = ("lightning", "accelerate", "transformers")


def run_in_an_environment_of_its_own():
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        packages = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True,
                                  text=True, check=True).stdout.strip()
        (Path(packages) / "pytorch.pth").write_text(sysconfig.get_path("purelib") + "\n")
        if subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES]).returncode != 0:
            sys.exit(77)
        sys.exit(subprocess.run([python, *sys.argv]).returncode)


if __name__ == "__main__" and not all(map(importlib.util.find_spec, PACKAGES)):
    run_in_an_environment_of_its_own()

os.environ["HF_HUB_OFFLINE"] = "1"
import accelerate  # noqa: E402
import lightning  # noqa: E402
import transformers  # noqa: E402
from given import assert_same, everything, images_and_classes, mlp, torch  # noqa: E402

from autotrain.accelerate import find_executable_batch_size  # noqa: E402
from autotrain.errors import StepError  # noqa: E402
from autotrain.lightning import BatchSize  # noqa: E402
from autotrain.transformers import AutoBatch  # noqa: E402

EFFECTIVE, BUDGET = 4096, "32MiB"


class Points(torch.utils.data.Dataset):
    def __init__(self, samples):
        self.inputs, self.targets = images_and_classes(samples)

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return self.inputs[index], self.targets[index]


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net, self.batch_size, self.seen, self.updates = mlp(), 1, set(), 0

    def training_step(self, batch, _):
        loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("loss", loss)
        self.seen.add(len(batch[0]))
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-3)

    def optimizer_step(self, *arguments, **keywords):
        self.updates += 1
        super().optimizer_step(*arguments, **keywords)

    def train_dataloader(self):
        return torch.utils.data.DataLoader(Points(2 * EFFECTIVE), batch_size=self.batch_size)


class Lightning(unittest.TestCase):
    def trainer(self, callback):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return lightning.Trainer(callbacks=[callback], max_epochs=1, accelerator="cpu", logger=False, default_root_dir=folder.name,
                                 enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)

    def test_a_fit_has_batch_and_accumulation_set_together(self):
        module, callback = Module(), BatchSize(EFFECTIVE, budget=BUDGET)
        trainer = self.trainer(callback)
        sizes, found = module.seen, callback.found
        callback.found = lambda *arguments: (found(*arguments), sizes.clear())[0]
        trainer.fit(module)
        plan = callback.plan
        self.assertEqual(plan.micro_batch * plan.window, EFFECTIVE)
        self.assertGreater(plan.window, 1)
        self.assertEqual((sizes, trainer.accumulate_grad_batches), ({plan.micro_batch}, plan.window))
        self.assertEqual(trainer.global_step, 2)

    def test_the_search_leaves_no_trace(self):
        module, callback = Module(), BatchSize(EFFECTIVE, budget=BUDGET)
        before, module.trainer = everything(module), self.trainer(callback)
        callback.on_fit_start(module.trainer, module)
        assert_same(self, before, everything(module))

    def test_a_loader_of_its_own_is_named(self):
        loader = torch.utils.data.DataLoader(Points(64), batch_size=8)

        class Without(Module):
            train_dataloader = lightning.LightningModule.train_dataloader
        with self.assertRaises(StepError) as raised:
            self.trainer(BatchSize(EFFECTIVE, budget=BUDGET)).fit(Without(), loader)
        self.assertIn("was given a loader", str(raised.exception))


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


class Transformers(unittest.TestCase):
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
