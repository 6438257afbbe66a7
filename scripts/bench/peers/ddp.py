"""Trains under DistributedDataParallel with gloo, one thread each, preloaded data and the fused optimizer, and prints as
JSON the median samples/s over all ranks of the updates after the first third.

    torchrun --nproc-per-node 2 ddp.py WORKLOAD EFFECTIVE UPDATES
"""
import json
import os
import statistics
import sys
import time

import torch
from torch.nn.parallel import DistributedDataParallel
from workloads import Workload


def main():
    name, effective, updates = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    workload = Workload(name)
    # DDP's best settings: gradients as views of the buckets spare it a copy, and images with their channels last are
    # what convolutions are fastest with.
    layout = torch.channels_last if name in ("cnn", "resnet", "resnet50") else torch.preserve_format
    model = DistributedDataParallel(workload.model().to(memory_format=layout), gradient_as_bucket_view=True)
    optimizer = workload.optimizer(model)
    batches, seconds = iter(()), []
    loader = workload.loader(effective // world)
    for _ in range(updates):
        batch = next(batches, None)
        if batch is None:
            batches = iter(loader)
            batch = next(batches)
        start = time.perf_counter()
        loss = workload.loss(model(batch[0].to(memory_format=layout)), batch[1])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - start)
    if rank == 0:
        print(json.dumps({"samples_per_second": effective / statistics.median(seconds[updates // 3:])}), flush=True)
    torch.distributed.destroy_process_group()
    # gloo's threads may still hold tensors of Python's, and freeing one while the interpreter ends aborts the process.
    os._exit(0)


main()
