"""Arrays of a training, written once as files that the program reads."""

from collections.abc import Mapping

import numpy
import torch

from .errors import StepError

PAIRS = "give two arrays, or a Dataset of (input, target)"
NUMBERS = "give numbers, all samples of one shape"
READ_TWICE = 16  # samples: a transform that leaves half of them as they are shows all the same
KINDS_OF_NUMPY = (torch.float16, torch.float32, torch.float64)


def has_numbered_samples(dataset):
    """Whether it can be asked for a sample by its number. PyTorch's Dataset, and with it every stream, has a `__getitem__` that
    only raises."""
    own = getattr(type(dataset), "__getitem__", None)
    return own not in (None, torch.utils.data.Dataset.__getitem__) and hasattr(dataset, "__len__")


def of_tensor(tensor, name, what):
    """@return NumPy's array of it, which may share its memory."""
    if tensor.is_nested or tensor.layout != torch.strided:
        raise StepError(name, f"{what} is a sparse or nested tensor", "give it dense: tensor.to_dense(), or padded")
    if isinstance(tensor, torch.masked.MaskedTensor):
        raise StepError(name, f"{what} is a tensor with masked numbers", "fill them: tensor.to_tensor(…)")
    try:
        tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
        if tensor.is_floating_point() and tensor.dtype not in KINDS_OF_NUMPY:  # those of fewer bits
            tensor = tensor.float()
        return tensor.numpy()
    except (NotImplementedError, RuntimeError, TypeError) as error:
        raise StepError(name, f"{what} is a tensor of {tensor.dtype} on {tensor.device}, which NumPy does not take", NUMBERS) from error


def is_masked(value):
    """Whether numbers of an array, or of arrays in a list, are masked out. NumPy drops the mask without a word."""
    entries = value if isinstance(value, (tuple, list)) else [value]
    return any(isinstance(entry, numpy.ma.MaskedArray) and numpy.ma.is_masked(entry) for entry in entries)


def as_stored(array, name, what):
    """By rows and little endian, of a type that the program reads, with the same numbers."""
    if array.dtype.kind == "u" and array.dtype.itemsize == 8:
        if array.size and array.max() > numpy.iinfo(numpy.int64).max:
            raise StepError(name, f"{what} has {array.max()}, beyond what int64 holds", "give smaller numbers")
        array = array.astype(numpy.int64)
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(numpy.float64)
    return numpy.asarray(array, array.dtype.newbyteorder("<"), order="C")


def as_array(value, name, what):
    """@param what: it is, of the data of that name. @raise StepError for what has no numbers."""
    if is_masked(value):
        raise StepError(name, f"{what} has masked numbers", "fill them: array.filled(…), or leave those samples out")
    if isinstance(value, torch.Tensor):
        value = of_tensor(value, name, what)
    if isinstance(value, (tuple, list)):
        value = [of_tensor(entry, name, what) if isinstance(entry, torch.Tensor) else entry for entry in value]
    try:
        array = numpy.asarray(value)
    except (RuntimeError, TypeError, ValueError):  # lists of several lengths, and of lists of tensors that NumPy does not take
        array = None
    if array is None or array.dtype.kind not in "biuf":
        kind = f"a {type(value).__name__}" if array is None or array.dtype.kind == "O" else f"an array of {array.dtype}"
        raise StepError(name, f"{what} is {kind}, and no array of numbers", NUMBERS)
    return as_stored(array, name, what)


def same_numbers(array, other):
    return array.shape == other.shape and array.tobytes() == other.tobytes()


def pair_of(dataset, index, name):
    pair = dataset[index]
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        kind = f"a {type(pair).__name__}" + (f" of {len(pair)}" if isinstance(pair, (tuple, list)) else "")
        raise StepError(name, f"sample {index} is {kind}, not a pair of an input and a target", PAIRS)
    return [as_array(part, name, f"the {what} of sample {index}") for part, what in zip(pair, ("input", "target"))]


def check_lasting(dataset, name):
    """@raise StepError where a sample is another each time it is read: of all of them, since one part of several may draw some."""
    last = len(dataset) - 1
    for index in sorted({number * last // (READ_TWICE - 1) for number in range(READ_TWICE)}):
        one, other = (pair_of(dataset, index, name) for _ in range(2))
        if not all(map(same_numbers, one, other)):
            raise StepError(name, f"sample {index} is another each time it is read, as a transform makes it that draws random numbers, and "
                                  "a run reads what was written of it once",
                            "give the samples without it, and have a recipe's data.augment draw anew each time; or arrays, which stay as they are")


def write_dataset(dataset, name, inputs, targets):
    """A Dataset of (input, target), sample by sample into files: no more than one sample is in memory twice."""
    if isinstance(dataset, Mapping) or not has_numbered_samples(dataset):
        raise StepError(name, f"is a {type(dataset).__name__}, which has no samples by their number",
                        "give the loader's dataset" if hasattr(dataset, "dataset") else PAIRS)
    if len(dataset) == 0:
        raise StepError(name, "has no samples", "give a Dataset with some, or two arrays")
    check_lasting(dataset, name)
    files = [numpy.lib.format.open_memmap(file, mode="w+", dtype=array.dtype, shape=(len(dataset), *array.shape))
             for file, array in zip((inputs, targets), pair_of(dataset, 0, name))]
    for index in range(len(dataset)):
        for file, array in zip(files, pair_of(dataset, index, name)):
            if array.shape != file.shape[1:] or numpy.result_type(array, file) != file.dtype:
                raise StepError(name, f"sample {index} has a {array.dtype} of {list(array.shape)} where the first has a "
                                      f"{file.dtype} of {list(file.shape[1:])}",
                                "give samples of one kind and shape, or two arrays")
            file[index] = array
    return files


def stacked(arrays, name):
    for index, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            raise StepError(name, f"the input of sample {index} has {list(array.shape)} where the first has {list(arrays[0].shape)}",
                            "give samples of one shape: padded, or cut")
    return numpy.stack(arrays)


def one_input(inputs, targets, name):
    """Inputs as one array: a list may have an entry a sample, or an entry for each of several inputs."""
    has_arrays = isinstance(inputs, (tuple, list)) and any(getattr(entry, "shape", ()) for entry in inputs)
    if isinstance(inputs, Mapping) or (has_arrays and len(inputs) != len(targets)):
        raise StepError(name, f"has several inputs, a {type(inputs).__name__} of {len(inputs)}",
                        "give one array of inputs, or export the module and write a recipe with arrays (docs/exported_models.md)")
    if has_arrays:
        inputs = stacked([as_array(entry, name, f"the input of sample {index}") for index, entry in enumerate(inputs)], name)
    return as_array(inputs, name, "what it has of inputs")


def arrays_of(data, name):
    inputs, targets = data
    if not hasattr(targets, "__len__"):
        raise StepError(name, f"has targets that are a {type(targets).__name__}", "give one target for each input")
    arrays = [one_input(inputs, targets, name), as_array(targets, name, "what it has of targets")]
    counts = [len(array) if array.ndim else 0 for array in arrays]
    if counts[0] != counts[1]:
        raise StepError(name, f"has {counts[0]} inputs and {counts[1]} targets", "give one target for each input")
    if counts[0] == 0:
        raise StepError(name, "has no samples", "give arrays with some")
    return arrays


def files_of(name, folder):
    """Of inputs and targets."""
    return folder / f"{name}-inputs.npy", folder / f"{name}-targets.npy"


def write(name, data, folder):
    """@return the inputs. @param data: (inputs, targets) or a Dataset of such pairs."""
    inputs, targets = files_of(name, folder)
    side_by_side = isinstance(data, tuple) or (isinstance(data, list) and not any(isinstance(part, (tuple, list)) for part in data))
    if isinstance(data, (tuple, list)) and len(data) == 2 and side_by_side:
        arrays = arrays_of(data, name)
        for file, array in zip((inputs, targets), arrays):
            numpy.save(file, array)
        return arrays[0]
    return write_dataset(data, name, inputs, targets)[0]


def section_of(name, inputs, folder):
    """What a recipe says of data. @param folder: where their files are when they are read."""
    file, targets = map(str, files_of(name, folder))
    # Inputs become floats; named arrays keep whole numbers, which are tokens or indices here.
    given = {"arrays": [f"inputs={file}"]} if inputs.dtype.kind in "iub" else {"inputs": file}
    return {"dataset": "npy", **given, "targets": targets}


def example_of(inputs):
    """What the exporter is told of a batch: "float32[4,3,32,32]"; of whole numbers also their bound."""
    shape = ",".join(map(str, (4, *inputs.shape[1:])))
    if inputs.dtype.kind in "iu" and (inputs.ndim == 4 or inputs.dtype == numpy.uint8 and inputs.ndim == 3):  # [n, h, w]
        raise StepError("train", f"its inputs are images of {inputs.dtype}, which a module does not take as they are",
                        "make them floats, as the module is given them: images.float() / 255" + ("" if inputs.ndim == 4 else "; or int64, where they are no images"))
    if inputs.dtype.kind in "iu":
        return f"int64[{shape}]<{int(inputs.max()) + 1}"
    return f"{'bool' if inputs.dtype.kind == 'b' else 'float32'}[{shape}]"
