"""The numbers of tensors, put back bit for bit in the same memory."""

import torch


def storage_of(tensor):
    """The memory of a tensor; none for those that have no strides."""
    if tensor.layout != torch.strided or tensor.is_meta:
        return None
    return tensor.untyped_storage()


class Values:
    """The bytes of tensors, each piece of memory once, and where they were."""

    def __init__(self, tensors):
        self.places, self.copies = [], {}
        for tensor in tensors:
            storage = storage_of(tensor)
            if storage is None:
                continue
            self.places.append((tensor, tensor.detach()))
            known = self.copies.get(storage.data_ptr())
            if known is None or known[0].nbytes() < storage.nbytes():  # views of arrays may end before them
                kept = storage.cpu() if storage.device.type != "cpu" else storage.clone()
                self.copies[storage.data_ptr()] = (storage, kept)

    def put_back(self):
        with torch.no_grad():
            for tensor, place in self.places:
                same = tensor.untyped_storage().data_ptr() == place.untyped_storage().data_ptr()
                if not (same and tensor.shape == place.shape and tensor.stride() == place.stride()):
                    tensor.data = place  # somebody gave it other memory
            for storage, kept in self.copies.values():
                storage.copy_(kept)
