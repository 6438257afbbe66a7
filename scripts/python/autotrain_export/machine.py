"""What goes wrong with the machine, and says nothing of a module."""

import torch

NO_MEMORY = "can't allocate memory"  # as PyTorch's allocator of a CPU says it


def out_of_memory(error):
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or (isinstance(error, RuntimeError) and NO_MEMORY in str(error))


def of_machine(error):
    """Whether it is for its own words, and nothing is to be tried once more: memory is used up, a disk is full, a file cannot be read."""
    return out_of_memory(error) or (isinstance(error, OSError) and error.errno is not None)
