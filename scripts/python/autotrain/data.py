"""Arrays of a training, written once as files that the program reads."""

import numpy
import torch

from .errors import StepError


def as_array(value):
    if isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16:
        value = value.float()  # NumPy has none
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else numpy.asarray(value)


def write_dataset(dataset, inputs, targets):
    """A Dataset of (input, target), sample by sample into files: no more than one sample is in memory twice."""
    if len(dataset) == 0:
        raise StepError("train", "has no samples", "give a Dataset with some, or two arrays")
    first = dataset[0]
    if not isinstance(first, (tuple, list)) or len(first) != 2:
        raise StepError("train", f"its samples are {type(first).__name__}s, not pairs of an input and a target",
                        "give a Dataset of (input, target), or two arrays")
    files = [numpy.lib.format.open_memmap(file, mode="w+", dtype=array.dtype, shape=(len(dataset), *array.shape))
             for file, array in zip((inputs, targets), map(as_array, first))]
    for index in range(len(dataset)):
        for file, part in zip(files, dataset[index]):
            array = as_array(part)
            if array.shape != file.shape[1:] or numpy.result_type(array, file) != file.dtype:
                raise StepError("train", f"sample {index} has a {array.dtype} of {list(array.shape)} where the first has a "
                                         f"{file.dtype} of {list(file.shape[1:])}",
                                "give samples of one kind and shape, or two arrays")
            file[index] = array
    return files


def write(name, data, folder):
    """@return what a recipe says of them, and the inputs. @param data: (inputs, targets) or a Dataset of such pairs."""
    if isinstance(data, tuple) and data and isinstance(data[0], (tuple, list, dict)):
        raise StepError(name, f"has several inputs, a {type(data[0]).__name__} of {len(data[0])}",
                        "give one array of inputs, or export the module and write a recipe with arrays (docs/exported_models.md)")
    inputs, targets = folder / f"{name}-inputs.npy", folder / f"{name}-targets.npy"
    if isinstance(data, (tuple, list)) and len(data) == 2 and not isinstance(data[0], (tuple, list)):
        arrays = [as_array(part) for part in data]
        if len(arrays[0]) != len(arrays[1]):
            raise StepError(name, f"has {len(arrays[0])} inputs and {len(arrays[1])} targets", "give one target for each input")
        for file, array in zip((inputs, targets), arrays):
            numpy.save(file, array)
    else:
        arrays = write_dataset(data, inputs, targets)
    # Inputs become floats; named arrays keep whole numbers, which are tokens or indices here.
    given = {"arrays": [f"inputs={inputs}"]} if arrays[0].dtype.kind in "iub" else {"inputs": str(inputs)}
    return {"dataset": "npy", **given, "targets": str(targets)}, arrays[0]


def example_of(inputs):
    """What the exporter is told of a batch: "float32[4,3,32,32]"; of whole numbers also their bound."""
    shape = ",".join(map(str, (4, *inputs.shape[1:])))
    if inputs.dtype.kind in "iu" and inputs.ndim == 4:
        raise StepError("train", f"its inputs are images of {inputs.dtype}, which a module does not take as they are",
                        "make them floats, as the module is given them: images.float() / 255")
    if inputs.dtype.kind in "iu":
        return f"int64[{shape}]<{int(inputs.max()) + 1}"
    return f"float32[{shape}]"
