"""Processes that train one model together: each searches alone, and all take the smallest size that one of them found."""

import socket
from contextlib import ExitStack, contextmanager

from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from .errors import DoesNotFit, Error, StepError

SPEAKS = {  # of these, what needs every other rank to do the same at the same time
    "FullyShardedDataParallel": "its weights lie on several ranks, which exchange them in every pass",
    "FSDPModule": "its weights lie on several ranks, which exchange them in every pass",
    "SyncBatchNorm": "it takes its statistics over all ranks in every pass",
    "ZeroRedundancyOptimizer": "its state lies on several ranks, which exchange weights at every update",
}


def check_apart(parts):
    """Ranks try different sizes, so that no pass of theirs may wait for others."""
    for part in parts:
        for kind in type(part).__mro__:
            if kind.__name__ in SPEAKS:
                raise StepError(kind.__name__, f"{SPEAKS[kind.__name__]}, and ranks that search try different sizes",
                                "search with DistributedDataParallel or the plain module, or set the size by hand")
        if type(part).__name__ == "DataParallel" and len(part.device_ids) > 1:
            raise StepError("DataParallel", f"it spreads a batch over {len(part.device_ids)} devices, and one is measured",
                            "use DistributedDataParallel, a process for each device")


class Ranks:
    """Those of DistributedDataParallel, or this process alone."""

    def __init__(self, modules, optimizers):
        parts = [part for module in modules for part in module.modules()]
        self.replicas = [part for part in parts if isinstance(part, DistributedDataParallel)]
        several = distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
        if several or self.replicas:
            check_apart([*parts, *optimizers, *(getattr(optimizer, "optimizer", None) for optimizer in optimizers)])
        self.group = self.replicas[0].process_group if self.replicas else None
        self.count = self.group.size() if self.replicas else 1

    def exchange(self, value):
        """@return what every rank has, in their order."""
        values = [value]
        if self.count > 1:
            values = [None] * self.count
            distributed.all_gather_object(values, value, group=self.group)
        return values

    def share(self, effective):
        """A rank's part of an update of all ranks."""
        if effective is not None and effective % self.count:
            raise StepError("effective", f"is {effective}, which {self.count} ranks cannot share evenly",
                            f"give a multiple of {self.count}: {effective // self.count * self.count or self.count}")
        return effective and effective // self.count

    def budget(self, text, device):
        """A rank's part of a budget that is a part of the machine's memory. One in bytes is each rank's own."""
        hosts = self.exchange(socket.gethostname())
        beside = hosts.count(socket.gethostname())
        if device.type != "cpu" or beside == 1 or not (text == "auto" or text.endswith("%")):
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
        """@param attempt: searches for at most so many samples. @return this rank's plan, of the size that all have.
        @raise what this rank's attempt raised, or that another's failed."""
        plan = None
        while True:
            error = None
            try:
                if plan is None or plan.micro_batch > most:
                    plan = attempt(most)
            except BaseException as caught:
                error = caught
            told = self.exchange(plan.micro_batch if error is None else (isinstance(error, DoesNotFit), f"{error or type(error).__name__}"))
            if error is not None:
                raise error
            for rank, (does_not_fit, words) in ((rank, one) for rank, one in enumerate(told) if isinstance(one, tuple)):
                raise (DoesNotFit if does_not_fit else Error)(f"rank {rank}", f"ended its search: {words}")
            if len(set(told)) == 1:
                return plan
            most = min(told)
