"""A file of tensors beside a document, in the format of safetensors, written without a copy of the tensors."""

import json
import os
import zlib

import torch

TYPES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64", torch.int32: "I32",
         torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL"}  # fmt: skip
SPARE = 256  # bytes of the header that a later document may be longer


def _bytes(tensor):
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()


class ModelFile:
    """Written next to its place and put there when it is finished: a file that is left unfinished leaves nothing.

    path      where the file shall be
    tensors   by name; they are read once, when the file is begun
    document  what describes them; the checksums of the tensors are added"""

    def __init__(self, path, tensors, document):
        self.path, self.partial = path, path.with_name(path.name + ".part")
        self.document = document
        self.places, end = {}, 0
        ordered = sorted(tensors, key=lambda name: -tensors[name].element_size())
        for name in ordered:
            self.places[name] = (end, tensors[name])
            end += tensors[name].numel() * tensors[name].element_size()
        document["crc32"] = {name: zlib.crc32(_bytes(tensors[name])) for name in ordered}
        header = self._header()
        self.room = (len(header) + SPARE + 7) // 8 * 8
        with open(self.partial, "wb") as file:
            file.write(self.room.to_bytes(8, "little") + header.ljust(self.room))
            for name in ordered:
                file.write(_bytes(tensors[name]))

    def _header(self):
        text = json.dumps(self.document, separators=(",", ":"), allow_nan=False)
        header = {"__metadata__": {"autotrain_model": text, "autotrain_model_crc32": str(zlib.crc32(text.encode()))}}
        for name, (begin, tensor) in self.places.items():
            header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, begin + tensor.numel() * tensor.element_size()]}
        return json.dumps(header, separators=(",", ":")).encode()

    def put_back(self, names):
        """Gives these tensors the values that the file has."""
        with open(self.partial, "rb") as file, torch.no_grad():
            for name in names:
                begin, tensor = self.places[name]
                file.seek(8 + self.room + begin)
                if tensor.is_contiguous() and tensor.device.type == "cpu":
                    file.readinto(memoryview(tensor.detach().reshape(-1).view(torch.uint8).numpy()))
                else:
                    values = torch.empty(tensor.shape, dtype=tensor.dtype)
                    file.readinto(memoryview(values.reshape(-1).view(torch.uint8).numpy()))
                    tensor.copy_(values)

    def finish(self):
        """Writes the document as it is now, and puts the file in its place."""
        header = self._header()
        if len(header) > self.room:
            raise AssertionError("the document has become longer than its room")
        with open(self.partial, "r+b") as file:
            file.seek(8)
            file.write(header.ljust(self.room))
        self.partial.chmod(0o666 & ~_umask())
        self.partial.replace(self.path)

    def remove(self):
        self.partial.unlink(missing_ok=True)


def _umask():
    umask = os.umask(0)
    os.umask(umask)
    return umask
