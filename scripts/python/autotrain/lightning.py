"""A callback for Lightning that sets the batch size and how many batches are accumulated together."""

from collections.abc import Mapping
from contextlib import contextmanager

import torch

try:
    from lightning.pytorch.callbacks import Callback, GradientAccumulationScheduler
    from lightning.pytorch.utilities.model_helpers import is_overridden
    from lightning.pytorch.utilities.signature_utils import is_param_in_hook_signature
except ImportError:  # the package's older name
    from pytorch_lightning.callbacks import Callback, GradientAccumulationScheduler
    from pytorch_lightning.utilities.model_helpers import is_overridden
    from pytorch_lightning.utilities.signature_utils import is_param_in_hook_signature

from .checks import check_divides
from .data import has_numbered_samples
from .errors import StepError
from .search import find
from .state import Generators

BY_HAND = "call autotrain.find with a step and a make_batch of your own, and set the sizes by hand"


class Attribute:
    """An attribute wherever it is: of the module, the data module, and their hyper-parameters."""

    def __init__(self, name, *owners):
        self.name = name
        self.objects = [owner for owner in owners if hasattr(owner, name)]
        self.tables = [table for table in (getattr(owner, "hparams", None) for owner in owners) if table is not None and name in table]
        self.before = [getattr(owner, name) for owner in self.objects], [table[name] for table in self.tables]
        if not (self.objects or self.tables):
            raise StepError(name, "neither the data module nor the module has it, so no loader would follow",
                            f"keep it as self.{name}, and make the loader of it")

    def put(self, objects, tables):
        for owner, value in zip(self.objects, objects):
            try:
                setattr(owner, self.name, value)
            except AttributeError:  # a property, which follows something else
                pass
        for table, value in zip(self.tables, tables):
            table[self.name] = value

    def set(self, value):
        self.put([value] * len(self.objects), [value] * len(self.tables))

    def put_back(self):
        self.put(*self.before)


@contextmanager
def silent(module):
    """A step logs figures; in a search nobody listens."""
    for name in ("log", "log_dict"):
        module.__dict__[name] = lambda *_, **__: None
    try:
        yield
    finally:
        for name in ("log", "log_dict"):
            module.__dict__.pop(name)


def optimizer_of(trainer, module):
    made = trainer.optimizers or module.configure_optimizers()
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], (list, tuple)):
        made = made[0]  # the other are schedules
    if isinstance(made, (list, tuple)) and len(made) == 1:
        made = made[0]
    optimizer = made["optimizer"] if isinstance(made, dict) else made
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise StepError("configure_optimizers", f"gives a {type(optimizer).__name__}, not one optimizer",
                        "call autotrain.find with a step of your own")
    return optimizer


def loader_of(trainer, module):
    """The training loader as the fit will make it."""
    loader = (trainer.datamodule or module).train_dataloader()
    if not (hasattr(loader, "dataset") and hasattr(loader, "collate_fn")):
        raise StepError("train_dataloader", f"gives a {type(loader).__name__}, not one DataLoader", BY_HAND)
    if not has_numbered_samples(loader.dataset) or len(loader.dataset) == 0:
        raise StepError("train_dataloader", f"is made of a {type(loader.dataset).__name__}, which has no samples by their number, so no "
                        "batch of any size can be made", BY_HAND)
    return loader


def size_of(loader):
    return loader.batch_size or getattr(loader.batch_sampler, "batch_size", None)


def loss_of(result):
    loss = result.get("loss") if isinstance(result, Mapping) else result
    if not isinstance(loss, torch.Tensor):
        raise StepError("training_step", f"returned {'no loss' if loss is None else f'a {type(loss).__name__}'}",
                        "return the loss, or a dictionary with it as \"loss\"")
    return loss


def check_trainer(trainer, module):
    if trainer.world_size > 1:
        raise StepError("trainer", f"trains on {trainer.world_size} devices", "search on one, and set the batch size by hand")
    if any(isinstance(callback, GradientAccumulationScheduler) for callback in trainer.callbacks):
        raise StepError("callbacks", "have a GradientAccumulationScheduler, which sets how many batches are accumulated too",
                        "leave it out: BatchSize sets it, so that an update has `effective` samples")
    if not module.automatic_optimization:
        raise StepError("module", "makes its updates itself (automatic_optimization = False)",
                        "call autotrain.find with a step of your own")
    if trainer.datamodule is None and not is_overridden("train_dataloader", module):
        raise StepError("fit", "was given a loader, whose batches stay as they are", "give fit a data module, or the module a train_dataloader")


class BatchSize(Callback):
    """Before every fit: finds the micro-batch, sets the attribute that the training loader is made of, and has as many batches
    accumulated as make `effective` samples. `plan` is what was found.

    @param effective: samples of an update. @param attribute: of the module or the data module. Options: those of find, but for cut."""

    def __init__(self, effective, budget="80%", attribute="batch_size", **options):
        check_divides(options)
        self.effective, self.budget, self.attribute, self.options = effective, budget, attribute, options
        self.plan = None

    def on_fit_start(self, trainer, pl_module):
        """The module is on its device by now, its optimizers are made, and no loader is."""
        check_trainer(trainer, pl_module)
        attribute = Attribute(self.attribute, *filter(None, (trainer.datamodule, pl_module)))
        generators, was_training = Generators(), pl_module.training  # loaders and optimizers may draw when they are made
        pl_module.train()
        try:
            self.plan = self.found(trainer, pl_module)
            attribute.set(self.plan.micro_batch)
            made = size_of(loader_of(trainer, pl_module))
            if made != self.plan.micro_batch:
                attribute.put_back()
                raise StepError(self.attribute, f"was set to {self.plan.micro_batch}, and the loader makes batches of {made or 'no fixed size'}",
                                f"make it with batch_size=self.{self.attribute}, or name what it is made of: BatchSize(…, attribute=…)")
        finally:
            pl_module.train(was_training)
            generators.put_back()
        trainer.accumulate_grad_batches = self.plan.window

    def found(self, trainer, pl_module):
        loader = loader_of(trainer, pl_module)
        dataset, collate = loader.dataset, loader.collate_fn
        numbered = is_param_in_hook_signature(pl_module.training_step, "batch_idx", min_args=2)

        def make_batch(samples):  # as the loop of a fit does
            batch = trainer.precision_plugin.convert_input(collate([dataset[index % len(dataset)] for index in range(samples)]))
            return trainer.strategy.batch_to_device(pl_module._on_before_batch_transfer(batch), dataloader_idx=0)

        def step(batch):
            with trainer.precision_plugin.train_step_context():
                result = pl_module.training_step(batch, 0) if numbered else pl_module.training_step(batch)
            loss_of(result).backward()

        with silent(pl_module):
            return find(step, make_batch, model=pl_module, optimizer=optimizer_of(trainer, pl_module), effective=self.effective,
                        budget=self.budget, cut="divide", **{"most": len(dataset), **self.options})
