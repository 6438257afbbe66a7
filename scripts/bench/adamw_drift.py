#!/usr/bin/env python3
"""Where runs with AdamW come apart that should be the same: PyTorch's loops over tensors (single-tensor, foreach), its fused kernel,
the class torch::optim::AdamW of LibTorch, and this program's AdamW. First all are given the gradients of one run, and their
parameters and moments are compared bit by bit, and with the same updates in float64. Then each learns from its own gradients, beside
a run in which one bias begins one unit in its last place higher. One thread, fp32, Fashion-MNIST in its order.

    scripts/bench/adamw_drift.py [resnet mlp]
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
from measure import HERE, PROGRAM, ROOT, save

sys.path[:0] = [str(HERE / "peers"), str(ROOT / "scripts/python")]

import torch  # noqa: E402
from autotrain_export import export  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from torch.utils.cpp_extension import load_inline  # noqa: E402
from workloads import Workload  # noqa: E402

UPDATES, GIVEN, BATCH, RATE, DECAY = 50, 10, 16, 1e-3, 0.01  # a power of two: dividing by it rounds nothing
SHOWN = (1, 2, 5, 10, 20, 50)
VECTOR = 16  # floats of the widest registers: what is left beyond whole ones is computed by other instructions

LIBTORCH_CLASS = """
#include <torch/custom_class.h>
#include <torch/optim/adamw.h>

struct AdamW : torch::CustomClassHolder {
  AdamW(std::vector<at::Tensor> parameters, double rate, double decay)
      : optimizer(std::move(parameters), torch::optim::AdamWOptions(rate).weight_decay(decay)) {}

  std::vector<at::Tensor> moments(bool second) {
    std::vector<at::Tensor> all;
    for (const at::Tensor& parameter : optimizer.param_groups()[0].params()) {
      auto& state = static_cast<torch::optim::AdamWParamState&>(*optimizer.state().at(parameter.unsafeGetTensorImpl()));
      all.push_back(second ? state.exp_avg_sq() : state.exp_avg());
    }
    return all;
  }

  torch::optim::AdamW optimizer;
};

TORCH_LIBRARY(drift, library) {
  library.class_<AdamW>("AdamW")
      .def(torch::init<std::vector<at::Tensor>, double, double>())
      .def("step", [](const c10::intrusive_ptr<AdamW>& self) { self->optimizer.step(); })
      .def("moments", [](const c10::intrusive_ptr<AdamW>& self, bool second) { return self->moments(second); });
}
"""


class Python:
    """torch.optim.AdamW in one of its ways."""

    def __init__(self, parameters, **way):
        self.parameters, self.optimizer = parameters, torch.optim.AdamW(parameters, RATE, weight_decay=DECAY, **way)

    def step(self):
        self.optimizer.step()

    def moments(self, second):
        return [self.optimizer.state[parameter]["exp_avg_sq" if second else "exp_avg"] for parameter in self.parameters]


class ByHand:
    """The operations of torch.optim.AdamW(foreach=False), with square roots as IEEE 754 rounds them: torch.sqrt asks MKL for those of
    many numbers, and some are off by a unit in the last place. The first moment moves in one operation, lerp, or decays and is added to."""

    def __init__(self, parameters, lerps):
        self.parameters, self.lerps, self.updates = parameters, lerps, 0
        self.first, self.second = ([torch.zeros_like(parameter) for parameter in parameters] for _ in range(2))

    @torch.no_grad()
    def step(self):
        self.updates += 1
        beta1, beta2 = 0.9, 0.999
        for parameter, first, second in zip(self.parameters, self.first, self.second, strict=True):
            parameter.mul_(1 - RATE * DECAY)
            if self.lerps:
                first.lerp_(parameter.grad, 1 - beta1)
            else:
                first.mul_(beta1).add_(parameter.grad, alpha=1 - beta1)
            second.mul_(beta2).addcmul_(parameter.grad, parameter.grad, value=1 - beta2)
            root = second.double().sqrt().float()  # rounding twice rounds square roots right: Figueroa 1995
            divisor = (root / (1 - beta2**self.updates) ** 0.5).add_(1e-8)
            parameter.addcdiv_(first, divisor, value=-RATE / (1 - beta1**self.updates))

    def moments(self, second):
        return self.second if second else self.first


FUSED = "torch.optim.AdamW(fused=True)"
WAYS = {
    FUSED: lambda parameters: Python(parameters, fused=True),
    "torch.optim.AdamW(foreach=False)": lambda parameters: Python(parameters, foreach=False),
    "torch.optim.AdamW(foreach=True)": lambda parameters: Python(parameters, foreach=True),
    "torch::optim::AdamW": lambda parameters: torch.classes.drift.AdamW(parameters, RATE, DECAY),
}
EXPLAINED = {
    "foreach=False by hand, square roots rounded right": lambda parameters: ByHand(parameters, lerps=True),
    "the same, first moment × 0.9 + gradient × 0.1": lambda parameters: ByHand(parameters, lerps=False),
}


def data_of(workload):
    return workload.train.batch(torch.arange(UPDATES * BATCH))


def learn(workload, make_optimizer, after_backward=None, change=None):
    """The losses of a plain loop, and what it leaves: model and optimizer."""
    model, (inputs, targets) = workload.model().train(), data_of(workload)
    if change:
        change(model)
    optimizer, losses = make_optimizer(list(model.parameters())), []
    for update in range(UPDATES):
        batch = slice(update * BATCH, (update + 1) * BATCH)
        model.zero_grad()
        loss = workload.loss(model(inputs[batch]), targets[batch])
        loss.backward()
        if after_backward:
            after_backward(update, model)
        optimizer.step()
        losses.append(loss.item())
    return losses, model, optimizer


def gradients_of(workload):
    """Those of the first updates with the fused kernel."""
    kept = []

    def keep(update, model):
        if update < GIVEN:
            kept.append([parameter.grad.clone() for parameter in model.parameters()])

    learn(workload, WAYS[FUSED], keep)
    return kept


def given(workload, make_optimizer, gradients, dtype=torch.float32):
    """Parameters, first and second moments after each update with these gradients."""
    parameters = [parameter.detach().to(dtype).clone().requires_grad_() for parameter in workload.model().parameters()]
    optimizer, states = make_optimizer(parameters), []
    for each in gradients:
        for parameter, gradient in zip(parameters, each, strict=True):
            parameter.grad = gradient.to(dtype).clone()
        optimizer.step()
        states.append([[tensor.detach().clone() for tensor in tensors]
                       for tensors in (parameters, optimizer.moments(False), optimizer.moments(True))])
    return states


def share(ours, theirs):
    """Of elements whose bits differ."""
    different = sum((a != b).sum().item() for a, b in zip(ours, theirs, strict=True))
    return different / sum(tensor.numel() for tensor in ours)


def beyond_whole_vectors(ours, theirs):
    """Whether all that differs lies there."""
    return all((a != b).flatten()[:a.numel() // VECTOR * VECTOR].sum().item() == 0 for a, b in zip(ours, theirs, strict=True))


def root_mean_square(tensors, exact):
    total = sum((tensor - true).square().sum().item() for tensor, true in zip(tensors, exact, strict=True))
    return (total / sum(tensor.numel() for tensor in tensors)) ** 0.5


def compare_given(workload):
    gradients = gradients_of(workload)
    exact = given(workload, WAYS["torch.optim.AdamW(foreach=False)"], gradients, torch.float64)[-1]
    runs = {name: given(workload, way, gradients) for name, way in {**WAYS, **EXPLAINED}.items()}
    rows = []
    for name, states in runs.items():
        pairs = [list(zip(state, fused, strict=True)) for state, fused in zip(states, runs[FUSED], strict=True)]
        apart = [update + 1 for update, kinds in enumerate(pairs) if any(share(*kind) for kind in kinds)]
        rows.append({"way": name, "apart_from_update": apart[0] if apart else None,
                     "beyond_whole_vectors_only": all(beyond_whole_vectors(*kind) for kinds in pairs for kind in kinds),
                     "shares": dict(zip(("parameters", "exp_avg", "exp_avg_sq"), (share(*kind) for kind in pairs[-1]), strict=True)),
                     "largest_difference_in_rates": max((a - b).abs().max().item() for a, b in zip(*pairs[-1][0], strict=True)) / RATE,
                     "error_in_rates": root_mean_square(states[-1][0], exact[0]) / RATE})
    return rows


def one_unit_higher(model):
    bias = list(model.parameters())[-1].data
    bias[0] = torch.nextafter(bias[0], torch.tensor(torch.inf))


def stochastic(parameters):
    return torch.optim.SGD(parameters, RATE * 10, momentum=0.9)


def run_of_program(workload, folder):
    """Losses and weights of the program on the exported model, with the same data."""
    inputs, targets = data_of(workload)
    numpy.save(folder / "inputs.npy", inputs.numpy())
    numpy.save(folder / "targets.npy", targets.numpy())
    export(workload.model(), f"float32[2,{','.join(map(str, inputs.shape[1:]))}]", folder / "m.autotrain", precisions=["fp32"])
    data = {"dataset": "npy", "inputs": str(folder / "inputs.npy"), "targets": str(folder / "targets.npy")}
    recipe = {"data": {"shuffle": False, "train": data}, "model": {"name": "exported", "file": str(folder / "m.autotrain")},
              "optimizer": {"name": "adamw", "lr": RATE, "reference_batch": BATCH, "weight_decay": DECAY, "decay_all": True},
              "batch": {"effective": BATCH}, "stop": {"updates": UPDATES}, "checkpoint": {"every": f"{UPDATES} updates"},
              "execution": {"precision": "fp32", "micro_batch": BATCH, "threads": 1, "memory_format": "contiguous"}}
    (folder / "recipe.yaml").write_text(json.dumps(recipe), encoding="utf-8")
    subprocess.run([PROGRAM, "--config", folder / "recipe.yaml", "--output", folder / "run", "--quiet"], check=True, stdout=sys.stderr)
    rows = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    weights = load_file(folder / f"run/checkpoints/update-{UPDATES}/model.safetensors")
    return [row["loss"] for row in rows if row["kind"] == "update"], weights


def compare_learned(workload):
    """Losses beside those of the fused kernel; those of SGD beside SGD's own."""
    reference, model, _ = learn(workload, WAYS[FUSED])
    runs = {name: learn(workload, way)[0] for name, way in WAYS.items() if name != FUSED}
    runs[f"{FUSED}, one bias a unit in the last place higher"] = learn(workload, WAYS[FUSED], change=one_unit_higher)[0]
    with tempfile.TemporaryDirectory() as folder:
        runs["this program"], weights = run_of_program(workload, Path(folder))
    same = all(torch.equal(weights[name], tensor) for name, tensor in model.state_dict().items())
    rows = [{"way": name, "loss_differences": [abs(a - b) for a, b in zip(losses, reference, strict=True)]}
            for name, losses in runs.items()]
    plain, changed = (learn(workload, stochastic, change=change)[0] for change in (None, one_unit_higher))
    rows.append({"way": "SGD, one bias a unit in the last place higher",
                 "loss_differences": [abs(a - b) for a, b in zip(changed, plain, strict=True)]})
    return rows, same


def show(row):
    print(f"\n{row['workload']}: {GIVEN} updates with the same gradients, beside {FUSED}\n")
    print("| | apart from update | parameters, exp_avg, exp_avg_sq that differ | only beyond whole vectors | farthest ÷ rate | error ÷ rate |")
    print("|" + " --- |" * 6)
    for each in row["given"]:
        shares = ", ".join(f"{value:.2%}" for value in each["shares"].values())
        tail = "–" if each["apart_from_update"] is None else "yes" if each["beyond_whole_vectors_only"] else "no"
        print(f"| {each['way']} | {each['apart_from_update'] or 'never'} | {shares} | {tail} | "
              f"{each['largest_difference_in_rates']:.1e} | {each['error_in_rates']:.1e} |")
    print(f"\n{row['workload']}: |loss − loss with {FUSED}|, each from its own gradients, at update\n")
    print(f"| | {' | '.join(map(str, SHOWN))} |\n|{' --- |' * (len(SHOWN) + 1)}")
    for each in row["learned"]:
        print(f"| {each['way']} | {' | '.join(format(each['loss_differences'][update - 1], '.0e') for update in SHOWN)} |")
    print(f"\nthis program's weights and buffers after {UPDATES} updates have the bits of {FUSED}: {row['program_has_fused_bits']}", flush=True)


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        load_inline("drift", LIBTORCH_CLASS, no_implicit_headers=True, is_python_module=False, build_directory=folder)
        rows = []
        for name in sys.argv[1:] or ["resnet", "mlp"]:
            workload = Workload(name)
            learned, same = compare_learned(workload)
            rows.append({"workload": name, "batch": BATCH, "given": compare_given(workload), "learned": learned, "program_has_fused_bits": same})
            show(rows[-1])
    save("adamw_drift", rows, ("workload",))


if __name__ == "__main__":
    main()
