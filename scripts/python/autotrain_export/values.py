"""The numbers of tensors, put back bit for bit in the same memory."""

from functools import partial

import torch


def storage_of(tensor):
    """The memory of a tensor; none for those that have no strides."""
    if tensor.layout != torch.strided or tensor.is_meta:
        return None
    return tensor.untyped_storage()


def call_all(calls):
    """Calls each of them, whichever fail; then raises what the first of those raised."""
    failed = []
    for call in calls:
        try:
            call()
        except Exception as error:
            failed.append(error)
    if failed:
        raise failed[0]


class Values:
    """The bytes of tensors, each piece of memory once, and where they were."""

    def __init__(self, tensors):
        self.places, self.copies = [], {}
        for tensor in tensors:
            storage = storage_of(tensor)
            if storage is None:
                continue
            self.places.append((tensor, tensor.detach()))
            key = storage.data_ptr() or -storage._cdata  # those without memory have no address
            known = self.copies.get(key)
            if known is None or known[0].nbytes() < storage.nbytes():  # views of arrays may end before them
                kept = storage.cpu() if storage.device.type != "cpu" else storage.clone()
                self.copies[key] = (storage, kept)

    def put_back(self):
        """All of it; what cannot be put back keeps nothing else from it."""
        with torch.no_grad():
            call_all([*(partial(_to_its_place, *pair) for pair in self.places), *(partial(_refill, *pair) for pair in self.copies.values())])


def _to_its_place(tensor, place):
    same = tensor.untyped_storage().data_ptr() == place.untyped_storage().data_ptr()
    if not (same and tensor.shape == place.shape and tensor.stride() == place.stride()):
        tensor.data = place  # somebody gave it other memory, or another shape


def _refill(storage, kept):
    """What is as it was is not written to: a file that is mapped to be read may not be."""
    if storage.nbytes() != kept.nbytes():
        storage.resize_(kept.nbytes())
    if storage.device.type != "cpu" or not torch.equal(_bytes(storage), _bytes(kept)):
        storage.copy_(kept)


def _bytes(storage):
    return torch.empty(0, dtype=torch.uint8).set_(storage)
