"""A callback for Lightning that sets the batch size and how many batches are accumulated together."""

from contextlib import contextmanager

import torch

try:
    from lightning.pytorch.callbacks import Callback
    from lightning.pytorch.utilities.model_helpers import is_overridden
except ImportError:  # the package's older name
    from pytorch_lightning.callbacks import Callback
    from pytorch_lightning.utilities.model_helpers import is_overridden

from .errors import StepError
from .search import find
from .state import Generators


def holder_of(name, *candidates):
    """What has the attribute: an object, or its hyper-parameters."""
    for candidate in candidates:
        if candidate is None:
            continue
        if hasattr(candidate, name):
            return candidate
        parameters = getattr(candidate, "hparams", None)
        if parameters is not None and name in parameters:
            return parameters
    raise StepError(name, "neither the data module nor the module has it, so no loader would follow",
                    f"keep it as self.{name}, and make the loader of it")


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


class BatchSize(Callback):
    """Before a fit: finds the micro-batch, sets the attribute that the training loader is made of, and has as many batches
    accumulated as make `effective` samples. `plan` is what was found.

    @param effective: samples of an update. @param attribute: of the module or the data module. Options: those of find."""

    def __init__(self, effective, budget="80%", attribute="batch_size", **options):
        self.effective, self.budget, self.attribute, self.options = effective, budget, attribute, options
        self.plan = None

    def on_fit_start(self, trainer, pl_module):
        """The module is on its device by now, its optimizers are made, and no loader is."""
        if self.plan is not None:
            return
        if trainer.world_size > 1:
            raise StepError("trainer", f"trains on {trainer.world_size} devices", "search on one, and set the batch size by hand")
        if not pl_module.automatic_optimization:
            raise StepError("module", "makes its updates itself (automatic_optimization = False)",
                            "call autotrain.find with a step of your own")
        if trainer.datamodule is None and not is_overridden("train_dataloader", pl_module):
            raise StepError("fit", "was given a loader, whose batches stay as they are", "give fit a data module, or the module a train_dataloader")
        holder = holder_of(self.attribute, trainer.datamodule, pl_module)
        generators, was_training = Generators(), pl_module.training  # loaders and optimizers may draw when they are made
        pl_module.train()
        try:
            self.plan = self.found(trainer, pl_module)
        finally:
            pl_module.train(was_training)
            generators.put_back()
        if isinstance(holder, dict):
            holder[self.attribute] = self.plan.micro_batch
        else:
            setattr(holder, self.attribute, self.plan.micro_batch)
        trainer.accumulate_grad_batches = self.plan.window

    def found(self, trainer, pl_module):
        loader = (trainer.datamodule or pl_module).train_dataloader()
        dataset, collate = loader.dataset, loader.collate_fn

        def make_batch(samples):
            batch = collate([dataset[index % len(dataset)] for index in range(samples)])
            return pl_module.transfer_batch_to_device(batch, pl_module.device, 0)

        def step(batch):
            with trainer.precision_plugin.forward_context():
                result = pl_module.training_step(batch, 0)
            (result["loss"] if isinstance(result, dict) else result).backward()

        with silent(pl_module):
            return find(step, make_batch, model=pl_module, optimizer=optimizer_of(trainer, pl_module), effective=self.effective,
                        budget=self.budget, cut="divide", **{"most": len(dataset), **self.options})
