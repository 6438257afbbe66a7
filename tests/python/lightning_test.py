#!/usr/bin/env python3
"""autotrain.lightning.BatchSize in fits by Lightning: what it sets is what is trained with.

    lightning_test.py path/to/libautotrain_python.so path/to/project
"""
import sys
import tempfile
import unittest

from packages import run_with

run_with("lightning")
import lightning  # noqa: E402
from given import assert_same, everything, images_and_classes, mlp, torch  # noqa: E402

from autotrain.errors import StepError  # noqa: E402
from autotrain.lightning import BatchSize  # noqa: E402
from lightning.pytorch.callbacks import GradientAccumulationScheduler  # noqa: E402

EFFECTIVE, BUDGET = 4096, "32MiB"
SMALL = {"effective": 64, "most": 16, "max_trials": 2, "budget": "96MiB"}


class Points(torch.utils.data.Dataset):
    def __init__(self, samples):
        self.inputs, self.targets = images_and_classes(samples)

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return self.inputs[index], self.targets[index]


def loader_of(batch_size, samples=2 * EFFECTIVE):
    return torch.utils.data.DataLoader(Points(samples), batch_size=batch_size)


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net, self.batch_size, self.seen, self.updates = mlp(), 1, set(), 0

    def training_step(self, batch, _):
        loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("loss", loss)
        self.seen.add(len(batch[0]))
        self.last = len(batch[0])
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-3)

    def optimizer_step(self, *arguments, **keywords):
        self.updates += 1
        super().optimizer_step(*arguments, **keywords)

    def train_dataloader(self):
        return loader_of(self.batch_size)


class OfParameters(Module):
    """Has the attribute, and makes its loader of another place that has it."""

    def __init__(self, batch_size=4):
        super().__init__()
        self.save_hyperparameters()

    def train_dataloader(self):
        return loader_of(self.hparams.batch_size)


class Fixed(lightning.LightningDataModule):
    def train_dataloader(self):
        return loader_of(16)


class Own(lightning.LightningDataModule):
    batch_size = 4

    def train_dataloader(self):
        return loader_of(self.batch_size)


class WithoutNumber(Module):
    def training_step(self, batch):
        return super().training_step(batch, 0)


class Bytes(Module):
    """Its batches become floats when they are on the device."""

    def on_after_batch_transfer(self, batch, _):
        return batch[0].float(), batch[1]

    def train_dataloader(self):
        points = Points(256)
        points.inputs = (points.inputs * 10).to(torch.int8)
        return torch.utils.data.DataLoader(points, batch_size=self.batch_size)


class Dictionary(Module):
    def train_dataloader(self):
        return {"one": loader_of(self.batch_size)}


class Endless(Module):
    """Its data set tells a length, and has no sample by its number all the same."""

    def train_dataloader(self):
        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(Points(64))

            def __len__(self):
                return 64
        return torch.utils.data.DataLoader(Stream(), batch_size=self.batch_size)


class Nothing(Module):
    def training_step(self, batch, _):
        return None


class Lightning(unittest.TestCase):
    def trainer(self, *callbacks, **options):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return lightning.Trainer(callbacks=list(callbacks), **{"max_epochs": 1, **options}, accelerator="cpu", logger=False,
                                 default_root_dir=folder.name, enable_checkpointing=False, enable_progress_bar=False,
                                 enable_model_summary=False)

    def trained(self, module, callback=None, data=None, **options):
        """What a fit of two updates trained with: sizes of batches, and how many it accumulated."""
        trainer = self.trainer(callback or BatchSize(**SMALL), max_steps=2, **options)
        trainer.fit(module, datamodule=data)
        return module.last, trainer.accumulate_grad_batches

    def refused(self, said, module, callback=None, data=None):
        with self.assertRaisesRegex(StepError, said):
            self.trained(module, callback, data)

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
        states = []

        class Watched(BatchSize):
            def on_fit_start(self, trainer, module):
                states.append(everything(module))
                super().on_fit_start(trainer, module)
                states.append(everything(module))
        self.trained(Module(), Watched(EFFECTIVE, budget=BUDGET))
        assert_same(self, *states)

    def test_a_loader_of_its_own_is_named(self):
        loader = torch.utils.data.DataLoader(Points(64), batch_size=8)

        class Without(Module):
            train_dataloader = lightning.LightningModule.train_dataloader
        with self.assertRaises(StepError) as raised:
            self.trainer(BatchSize(EFFECTIVE, budget=BUDGET)).fit(Without(), loader)
        self.assertIn("was given a loader", str(raised.exception))

    def test_whatever_the_loader_is_made_of_is_set(self):
        for module, data in ((OfParameters(), None), (Module(), Own())):
            self.assertEqual(self.trained(module, data=data), (16, 4))

    def test_a_loader_that_stays_as_it_is_is_named(self):
        module = Module()
        self.refused("was set to 8, and the loader makes batches of 16", module, BatchSize(**{**SMALL, "most": 8}), Fixed())
        self.assertEqual(module.batch_size, 1)

    def test_every_fit_has_its_plan(self):
        callback = BatchSize(**SMALL)
        for module in (Module(), Module()):
            self.assertEqual(self.trained(module, callback), (16, 4))
            self.assertEqual(module.batch_size, 16)

    def test_another_that_accumulates_is_named(self):
        with self.assertRaisesRegex(StepError, "GradientAccumulationScheduler"):
            self.trainer(BatchSize(**SMALL), GradientAccumulationScheduler({0: 2})).fit(Module())

    def test_steps_batches_and_precisions_as_a_fit_has_them(self):
        for kind, precision in ((WithoutNumber, None), (Bytes, None), (Module, "64-true"), (Module, "bf16-true"), (Module, "bf16-mixed")):
            self.assertEqual(self.trained(kind(), precision=precision), (16, 4), (kind, precision))

    def test_loaders_and_steps_that_cannot_serve_are_named(self):
        self.refused("gives a dict, not one DataLoader", Dictionary())
        self.refused("is made of a Stream", Endless())
        self.refused("returned no loss", Nothing())
        with self.assertRaisesRegex(StepError, "cut: is given"):
            BatchSize(64, cut="even")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
