"""For transformers' Trainer: micro-batch and accumulation, set together."""

from collections.abc import Mapping

from .checks import check_divides
from .data import has_numbered_samples
from .errors import StepError
from .search import find
from .state import Generators


def length_of(value):
    """Of a sequence; texts are no entries of a batch, and numbers are no sequences."""
    if isinstance(value, (str, bytes)):
        return 0
    for name in ("numel", "size"):  # of PyTorch's arrays, and of NumPy's
        size = getattr(value, name, None)
        if size is not None:
            return int(size() if callable(size) else size)
    return len(value) if hasattr(value, "__len__") else 0


def lengths_of(dataset):
    """Of samples, all their sequences together: tokens, sounds, labels. None where all are alike, or samples have no parts."""
    try:
        samples = (dataset[index] for index in range(len(dataset)))
        lengths = [sum(map(length_of, sample.values() if isinstance(sample, Mapping) else sample)) for sample in samples]
    except (KeyError, TypeError, IndexError):
        return None
    return lengths if min(lengths) != max(lengths) else None


def without_unused(trainer, dataset):
    """The data set and collator of the training, which leave out columns that the model does not take."""
    if hasattr(dataset, "remove_columns"):  # of the package datasets
        return trainer._remove_unused_columns(dataset, description="training"), trainer.data_collator
    return dataset, trainer._get_collator_with_removed_columns(trainer.data_collator, description="training")


class AutoBatch:
    """`AutoBatch(trainer, effective=256)`, before `trainer.train()`: finds the micro-batch of its model, data, collator and
    optimizer, and sets `per_device_train_batch_size` and `gradient_accumulation_steps` so that their product is
    `effective`. Where samples differ in length the longest decide. `plan` is what was found. Options: those of find, but for cut."""

    def __init__(self, trainer, effective, budget="80%", **options):
        check_divides(options)
        arguments, dataset = trainer.args, trainer.train_dataset
        devices = arguments.world_size * max(1, arguments.n_gpu)
        if devices > 1:
            raise StepError("trainer", f"trains on {devices} devices", "search on one, and set the arguments by hand")
        if dataset is None or not has_numbered_samples(dataset) or len(dataset) == 0:
            raise StepError("train_dataset", "has no samples by their number, so no batches of any size can be made of it",
                            "call autotrain.find with a make_batch of your own")
        generators = Generators()  # samples may be drawn, and optimizers may draw
        try:
            self.plan = found(trainer, effective, budget, options)
        finally:
            generators.put_back()
        arguments.per_device_train_batch_size = self.plan.micro_batch
        arguments.gradient_accumulation_steps = self.plan.window
        trainer._train_batch_size = self.plan.micro_batch
        trainer.accelerator.gradient_accumulation_steps = self.plan.window


def found(trainer, effective, budget, options):
    """Searches with the trainer as it is in a training."""
    arguments, (dataset, collate) = trainer.args, without_unused(trainer, trainer.train_dataset)
    order = list(range(len(dataset)))
    lengths = lengths_of(dataset)
    longest = sorted(order, key=lambda index: -lengths[index]) if lengths else order

    def batch_of(indices):
        return lambda samples: trainer._prepare_inputs(collate([dataset[indices[position % len(indices)]] for position in range(samples)]))

    def step(batch):
        with trainer.compute_loss_context_manager():
            loss = trainer.compute_loss(trainer.model, batch)
        trainer.accelerator.backward(loss)

    made_before = trainer.optimizer
    optimizer = made_before or trainer.create_optimizer()
    training = trainer.model.training
    trainer.model.train()
    checkpointing = arguments.gradient_checkpointing and not getattr(trainer.model, "is_gradient_checkpointing", False)
    if checkpointing:  # as train() will
        trainer.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=arguments.gradient_checkpointing_kwargs)
    try:
        worst = batch_of(longest) if lengths else None
        return find(step, batch_of(order), model=trainer.model, optimizer=optimizer, effective=effective, budget=budget, cut="divide",
                    **{"most": len(dataset), "worst": worst, **options})
    finally:
        if checkpointing:
            trainer.model.gradient_checkpointing_disable()
        trainer.model.train(training)
        trainer.optimizer = made_before
