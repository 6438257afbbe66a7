"""Processes that train one model together: each searches alone, and all take the smallest size that one of them found."""

import socket
from contextlib import ExitStack, contextmanager, nullcontext

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from .errors import DoesNotFit, Error, StepError
from .state import interrupts_wait
from .tensors import parameters_of, parts_of, replicas_of

SPEAKS = {  # of these, what needs every other rank to do the same at the same time
    "FullyShardedDataParallel": "its weights lie on several ranks, which exchange them in every pass",
    "FSDPModule": "its weights lie on several ranks, which exchange them in every pass",
    "DeepSpeedEngine": "it makes updates of several ranks itself",
    "SyncBatchNorm": "it takes its statistics over all ranks in every pass",
    "ZeroRedundancyOptimizer": "its state lies on several ranks, which exchange weights at every update",
    "PostLocalSGDOptimizer": "it averages weights over all ranks at updates",
}
INSTEAD = "search with DistributedDataParallel, before it is wrapped in more, or set the size by hand"


def why_not_apart(part):
    """Ranks try different sizes, so that no pass of theirs may wait for others."""
    for kind in type(part).__mro__:
        if kind.__name__ in SPEAKS:
            return kind.__name__, SPEAKS[kind.__name__]
    if type(part).__name__ == "DistributedDataParallel" and not isinstance(part, DistributedDataParallel):
        return type(part).__module__, "its DistributedDataParallel is not PyTorch's, whose exchange can be put off"
    if isinstance(part, DistributedDataParallel) and part.static_graph and not part._static_graph_delay_allreduce_enqueued:
        return "static_graph", "it exchanges gradients in its first pass, whatever no_sync() says"
    return None


def check_apart(modules, optimizers):
    for part in [*parts_of(modules), *optimizers, *(getattr(optimizer, "optimizer", None) for optimizer in optimizers)]:
        reason = why_not_apart(part)
        if reason:
            raise StepError(reason[0], f"{reason[1]}, and ranks that search try different sizes", INSTEAD)
    for parameter in parameters_of(modules, []):
        if type(parameter).__name__ == "DTensor" or hasattr(parameter, "ds_id"):
            raise StepError("model", "its weights lie on several ranks, and ranks that search try different sizes", INSTEAD)


def check_one_device(modules):
    for part in parts_of(modules):
        if isinstance(part, torch.nn.DataParallel) and len(part.device_ids) > 1:
            raise StepError("DataParallel", f"it spreads a batch over {len(part.device_ids)} devices, and one is measured",
                            "use DistributedDataParallel, a process for each device")


def words_of(error):
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


class Ranks:
    """Those of DistributedDataParallel, or this process alone."""

    def __init__(self, modules):
        self.replicas = replicas_of(modules)
        self.group = self.replicas[0].process_group if self.replicas else None
        self.count = self.group.size() if self.replicas else 1
        device = next((parameter.device for parameter in parameters_of(self.replicas, [])), None)
        self.device = device if device is not None and device.type == "cuda" else None  # by which NCCL exchanges

    def check(self, modules, optimizers):
        check_one_device(modules)
        if self.replicas or (distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1):
            check_apart(modules, optimizers)

    def exchange(self, value):
        """@return what every rank has, in their order."""
        if self.count == 1:
            return [value]
        values = [None] * self.count
        with interrupts_wait(), torch.cuda.device(self.device) if self.device else nullcontext():
            distributed.all_gather_object(values, value, group=self.group)
        return values

    def together(self, work, telling):
        """What all ranks do, each alone. @param telling: what the others are to know of this rank's result.
        @return the result here, and what all told. @raise the error of the work here, or that another rank's ended so."""
        if self.count == 1:
            result = work()
            return result, [telling(result)]
        result = error = None
        try:
            result = work()
        except BaseException as caught:
            error = caught
        failure = None if error is None else (isinstance(error, DoesNotFit), words_of(error))
        try:
            told = self.exchange((failure, telling(result) if error is None else None))
        except Exception as lost:  # another rank's end is no reason to keep this one's error back
            raise lost if error is None else error from lost
        try:
            if error is not None:
                raise error
        finally:
            del error  # whose frames keep tensors of the step
        for rank, (failure, _) in enumerate(told):
            if failure is not None:
                raise (DoesNotFit if failure[0] else Error)(f"rank {rank}", f"ended its search: {failure[1]}")
        return result, [one for _, one in told]

    def mean(self, count):
        """Of what the ranks' shares of an update count."""
        counts = self.exchange(count)
        if min(counts) == 0:
            raise StepError("pieces", f"rank {counts.index(0)} has nothing that counts in its share of this update, and the others "
                            "would wait for it", "deal samples so that every rank has some")
        return sum(counts) / len(counts)

    def share(self, effective):
        """A rank's part of an update of all ranks."""
        if effective is not None and effective % self.count:
            raise StepError("effective", f"is {effective}, which {self.count} ranks cannot share evenly",
                            f"give a multiple of {self.count}: {effective // self.count * self.count or self.count}")
        return effective and effective // self.count

    def budget(self, text, device, hosts):
        """A rank's part of a budget that is a part of the machine's memory. One in bytes is each rank's own."""
        beside = hosts.count(socket.gethostname())
        if device.type != "cpu" or beside < 2 or not (text == "auto" or text.endswith("%")):
            return text
        try:
            return f"{(100 if text == 'auto' else float(text[:-1])) / beside:.6f}%"
        except ValueError:
            return text  # whose words are refused where it is read

    @contextmanager
    def apart(self):
        """Passes exchange neither gradients nor buffers meanwhile."""
        exchanged = [replica.require_forward_param_sync for replica in self.replicas]
        with ExitStack() as stack:
            for replica in self.replicas:
                stack.enter_context(replica.no_sync())
                replica.require_forward_param_sync = False
            try:
                yield
            finally:
                for replica, before in zip(self.replicas, exchanged):
                    replica.require_forward_param_sync = before

    def agree(self, attempt, most):
        """@param attempt: searches for at most so many samples. @return this rank's plan, of the size that all have."""
        plan = None
        while True:
            plan, sizes = self.together(lambda: attempt(most) if plan is None or plan.micro_batch > most else plan,
                                        lambda plan: plan.micro_batch)
            if len(set(sizes)) == 1:
                return plan
            most = min(sizes)
