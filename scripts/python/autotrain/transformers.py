"""For transformers' Trainer: micro-batch and accumulation, set together."""

from .errors import StepError
from .search import find


def lengths_of(dataset):
    """Of samples that are sequences; None where they are none, or all alike."""
    try:
        lengths = [len(dataset[index]["input_ids"]) for index in range(len(dataset))]
    except (KeyError, TypeError, IndexError):
        return None
    return lengths if min(lengths) != max(lengths) else None


class AutoBatch:
    """`AutoBatch(trainer, effective=256)`, before `trainer.train()`: finds the micro-batch of its model, data, collator and
    optimizer, and sets `per_device_train_batch_size` and `gradient_accumulation_steps` so that their product is
    `effective`. Where samples differ in length the longest decide. `plan` is what was found. Options: those of find."""

    def __init__(self, trainer, effective, budget="80%", **options):
        arguments, dataset = trainer.args, trainer.train_dataset
        devices = arguments.world_size * max(1, arguments.n_gpu)
        if devices > 1:
            raise StepError("trainer", f"trains on {devices} devices", "search on one, and set the arguments by hand")
        if dataset is None or not hasattr(dataset, "__len__") or len(dataset) == 0:
            raise StepError("train_dataset", "has no length, or no samples, so no batches of any size can be made of it",
                            "call autotrain.find with a make_batch of your own")
        order = list(range(len(dataset)))
        lengths = lengths_of(dataset)
        longest = sorted(order, key=lambda index: -lengths[index]) if lengths else order

        def batch_of(indices):
            def make(samples):
                features = [dataset[indices[position % len(indices)]] for position in range(samples)]
                return trainer._prepare_inputs(trainer.data_collator(features))
            return make

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
            self.plan = find(step, batch_of(order), model=trainer.model, optimizer=optimizer, effective=effective, budget=budget,
                             worst=batch_of(longest) if lengths else None, cut="divide", **{"most": len(dataset), **options})
        finally:
            if checkpointing:
                trainer.model.gradient_checkpointing_disable()
            trainer.model.train(training)
            trainer.optimizer = made_before
        arguments.per_device_train_batch_size = self.plan.micro_batch
        arguments.gradient_accumulation_steps = self.plan.window
        trainer._train_batch_size = self.plan.micro_batch
        trainer.accelerator.gradient_accumulation_steps = self.plan.window
