#!/usr/bin/env python3
"""Which modules that nobody here wrote the exporter takes, in what time and memory, what it says of the others, and how they train: the
rows of the table in docs/exported_models.md.

    scripts/bench/modules.py [--results FILE] [--again] [--threads 1] [--seconds 600] [--precision fp32] [part of a name …]
    scripts/bench/modules.py --table [--results FILE]

Each module is exported in a process of its own. What is accepted is trained for ten updates by the program, with plain SGD on random
samples, and the same is done in PyTorch; a third time with weights that differ in their last bit, which says how far roundings go.
A line of JSON for each module is added to the results when it is known, and modules that have one are left out the next time.
The Python that runs it has torch, torchvision, timm and transformers."""
import argparse
import copy
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/release/autotrain"
UPDATES, SAMPLES, RATE = 10, 8, 1e-3
PATIENCE = 30  # seconds by the clock for one of a processor
ROUNDINGS = 30  # as many as one rounding of the weights, since every operator rounds
MIB = 2**20


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def note(folder, **values):
    """What is known so far, should this process end."""
    file = folder / "known.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**known, **values}))


def export_one(case, folder, precisions):
    from autotrain_export import ExportError, export

    before, began, said = peak(), time.process_time(), []
    try:
        export(case.module, case.examples, folder / "m.autotrain", precisions=precisions, say=said.append, **case.options)
        accepted = True
    except ExportError as error:
        accepted, said = False, str(error).splitlines()
    note(folder, accepted=accepted, said=said, seconds=time.process_time() - began, memory=peak() - before,
         weights=sum(parameter.nbytes for parameter in case.module.parameters()))
    return accepted


def targets_of(case, torch):
    """The targets of all samples, or None; the kind is a word and a shape."""
    kind, *shape = case.targets.split()
    shape = (UPDATES * SAMPLES, *map(int, shape))
    generator = torch.Generator().manual_seed(2)
    if kind == "none":
        return None
    if kind == "values":
        return torch.randn(shape, generator=generator)
    return torch.randint(case.classes, shape, generator=generator)


def write_data(case, folder, torch, numpy):
    """Inputs and targets in files, as a recipe's data, and as tensors."""
    from autotrain_export.example import Examples

    examples = Examples.parse(case.examples, case.options.get("targets"))
    inputs = examples.batch(UPDATES * SAMPLES, seed=1)
    targets = inputs[-1] if examples.targets is not None else targets_of(case, torch)
    inputs = inputs[: len(examples.inputs)]
    names = [f"input{place}" for place in range(len(inputs))]
    data = {"dataset": "npy", "arrays": [f"{name}={folder}/{name}.npy" for name in names]}
    for name, tensor in zip(names, inputs):
        numpy.save(folder / f"{name}.npy", tensor.numpy())
    if targets is not None:
        numpy.save(folder / "targets.npy", targets.numpy())
        data["targets"] = f"{folder}/targets.npy"
    return data, names, inputs, targets


def losses_in_python(module, case, inputs, targets, torch):
    """Plain SGD over the samples in order."""
    from autotrain_export.example import Examples
    from torch.nn import functional as F

    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], RATE)
    names = [each.name for each in Examples.parse(case.examples, case.options.get("targets")).all]
    losses = []
    for update in range(UPDATES):
        here = slice(update * SAMPLES, (update + 1) * SAMPLES)
        given = [tensor[here].clone() for tensor in inputs]
        own = case.options.get("loss")
        if case.options.get("targets"):
            given.append(targets[here])
        named = {name: tensor for name, tensor in zip(names, given) if name}
        output = module(*given[: len(given) - len(named)], **named)
        part = case.options.get("output_part") if own is None else (None if own is True else own)
        if part is not None:
            output = output[int(part)] if part.isdigit() else output[part] if isinstance(output, dict) else getattr(output, part)
        if own is not None:
            loss = output / (SAMPLES if case.sums else 1)
        elif case.loss == "cross_entropy":
            dense = output.dim() > 2 and output.shape[1:-1] != targets.shape[1:]
            loss = F.cross_entropy(output, targets[here]) if dense else F.cross_entropy(output.flatten(0, -2), targets[here].flatten())
        else:
            loss = F.mse_loss(output, targets[here])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def one(name, folder, precisions, threads):
    """In a process of its own: exports, and writes data, a recipe and the losses of PyTorch to the folder."""
    sys.path.insert(0, str(ROOT / "scripts/python"))
    import numpy
    import torch
    from module_papers import ZOO

    warnings.filterwarnings("ignore")
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    case = ZOO[name]()
    if not export_one(case, folder, precisions) or "fp32" not in precisions:
        return
    data, names, inputs, targets = write_data(case, folder, torch, numpy)
    loss = {"cross_entropy": "cross_entropy", "mse": "mean_squared_error", "model": "model"}[case.loss]
    (folder / "recipe.yaml").write_text(json.dumps({
        "seed": 1,
        "data": {"shuffle": False, "train": data},
        "model": {"name": "exported", "file": str(folder / "m.autotrain"), "inputs": names},
        "loss": {"name": loss},
        "optimizer": {"name": "sgd", "lr": RATE, "momentum": 0.0, "reference_batch": SAMPLES},
        "batch": {"effective": SAMPLES},
        "stop": {"updates": UPDATES},
        "execution": {"precision": "fp32", "micro_batch": SAMPLES, "threads": threads, "memory": {"budget": "6GiB"}},
    }))  # fmt: skip
    note(folder, prepared=True)
    train = case.module.train()
    torch.manual_seed(0)
    nudged = ZOO[name]().module.train()  # the same again; not all can be copied
    nudged.load_state_dict(train.state_dict())
    with torch.no_grad():
        for parameter in nudged.parameters():
            if parameter.dtype.is_floating_point:
                parameter.mul_(1 + torch.randint(-1, 2, parameter.shape) * 2.0**-23)
    torch.manual_seed(5)
    note(folder, eager=losses_in_python(train, case, inputs, targets, torch))
    torch.manual_seed(5)
    first = copy.deepcopy(nudged.state_dict())  # with what its versions are
    note(folder, nudged=losses_in_python(nudged, case, inputs, targets, torch))
    nudged.load_state_dict(first)
    torch.manual_seed(6)
    note(folder, reseeded=losses_in_python(nudged, case, inputs, targets, torch))


def run(command, seconds, **options):
    """What a command that takes at most so many seconds of a processor ends with, or None: others may be using the machine, so that its
    clock says little."""
    command = ["sh", "-c", f'ulimit -S -t {seconds}; exec "$@"', "sh", *map(str, command)]
    try:
        out = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE * seconds, **options)
    except subprocess.TimeoutExpired:
        return None
    return None if out.returncode == -signal.SIGXCPU else out


def trained(folder, seconds):
    """The losses of ten updates by the program, or what it says."""
    out = run([PROGRAM, "--config", folder / "recipe.yaml", "--output", folder / "run", "--quiet"], seconds, env={**os.environ, "CI": "1"})
    if out is None:
        return {"trained": f"not finished in {seconds} s"}
    if out.returncode != 0:
        return {"trained": f"exit {out.returncode}: " + " ".join(out.stderr.strip().split())[-600:]}
    rows = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
    return {"losses": [row["loss"] for row in rows if row["kind"] == "update"]}


def found_out(name, options):
    command = [sys.executable, __file__, "--one", name, "--threads", str(options.threads), "--precision", *options.precision]
    with tempfile.TemporaryDirectory(prefix="modules-") as folder:
        folder = Path(folder)
        out = run([*command, "--folder", folder], options.seconds)
        failed = f"not finished in {options.seconds} s" if out is None else ""
        if out is not None and out.returncode != 0:
            failed = f"exit {out.returncode}: {(out.stderr.strip() or '?')[-1500:]}"
        known = json.loads((folder / "known.json").read_text()) if (folder / "known.json").exists() else {}
        if known.get("prepared"):
            known |= trained(folder, options.seconds)
        return {"name": name, "precisions": options.precision, **known, **({"failed": failed} if failed else {})}


def apart(row):
    """How far the program's losses are from PyTorch's, in parts of the loss, and how far one rounding of the first weights and other random
    numbers take them."""

    def far(one, other):
        return max(abs(a - b) / max(1.0, abs(b)) for a, b in zip(one, other))

    return far(row["losses"], row["eager"]), far(row["nudged"], row["eager"]), far(row["reseeded"], row["nudged"])


def verdict(row):
    if "accepted" not in row:
        failed = row.get("failed", "").splitlines()[-1]
        return failed if failed.startswith("not finished") else "crash: " + failed
    if not row["accepted"]:
        return "refused: " + " ".join(line.strip() for line in row["said"])
    if "losses" not in row or "reseeded" not in row:
        return "accepted; " + (row.get("trained") or row.get("failed", "not trained").splitlines()[-1])
    ours, rounding, drawn = apart(row)
    if ours <= 1e-5 + ROUNDINGS * rounding:
        return f"trains as in PyTorch, {ours:.0e} ({rounding:.0e})"
    if drawn > 10 * rounding and ours <= 5 * drawn:
        return f"trains as in PyTorch, {ours:.0e} (other random numbers: {drawn:.0e})"
    return f"TRAINS OTHERWISE, {ours:.0e} ({rounding:.0e})"


def line_of(row):
    numbers = (f"{row['seconds']:.1f}", f"{row['weights'] / MIB:.1f}", f"{row['memory'] / MIB:.0f}") if "seconds" in row else ("", "", "")
    return f"| {row['name']} | {verdict(row)} | {' | '.join(numbers)} |"


def rows_in(results):
    rows = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    return {row["name"]: row for row in rows}  # the newest of each


def table(rows):
    print("| module | | processor seconds | weights, MiB | memory beside them, MiB |\n| --- | --- | --- | --- | --- |")
    for row in rows.values():
        print(line_of(row))
    accepted = [row for row in rows.values() if row.get("accepted")]
    print(f"\n{len(rows)} modules, {len(accepted)} accepted, {sum('trains as' in verdict(row) for row in accepted)} train as in PyTorch")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of names (default: all)")
    parser.add_argument("--results", type=Path, default=ROOT / "build/modules.jsonl")
    parser.add_argument("--again", action="store_true", help="also modules that have a result")
    parser.add_argument("--table", action="store_true", help="print the results as a table, and do nothing else")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=600, help="of a processor for one module, each of exporting and training")
    parser.add_argument("--precision", nargs="+", default=["fp32"])
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return one(options.one, options.folder, options.precision, options.threads)
    known = rows_in(options.results)
    if options.table:
        return table(known)
    from module_papers import ZOO

    for name in ZOO:
        if (options.names and not any(part in name for part in options.names)) or (name in known and not options.again):
            continue
        row = found_out(name, options)
        with options.results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(line_of(row), flush=True)
    return None


if __name__ == "__main__":
    sys.exit(main())
