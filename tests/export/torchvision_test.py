#!/usr/bin/env python3
"""torchvision's models are searched, trained, killed and taken back, and compute what they compute in Python.

    torchvision_test.py path/to/autotrain path/to/project

77 where torchvision is missing."""
import copy
import json
import sys
import unittest

try:
    import torchvision.models as vision
except ImportError:
    print("no torchvision in this Python")
    sys.exit(77)

import numpy
import torch
from export_test import EFFECTIVE, SAMPLES, Exported, losses_in_python, made, plain

SIZE = 32
IMAGES = f"float32[4,3,{SIZE},{SIZE}]"
RATE = 1e-3
ROUNDINGS = 30  # as many as one rounding of the weights, since every operator rounds
# Without what draws random numbers: Python's and ours are others. Dropout is compared by the exporter.
MODELS = {
    "resnet18": lambda: vision.resnet18(num_classes=5),
    "mobilenet_v3_small": lambda: vision.mobilenet_v3_small(num_classes=5, dropout=0.0),
    "vit_b_16": lambda: vision.VisionTransformer(image_size=SIZE, patch_size=16, num_layers=12, num_heads=12, hidden_dim=768,
                                                 mlp_dim=3072, num_classes=5),
    "efficientnet_b0": lambda: vision.efficientnet_b0(num_classes=5, dropout=0.0, stochastic_depth_prob=0.0),
}


def rounded_otherwise(net):
    """A copy of a module whose weights differ in their last bit."""
    other = copy.deepcopy(net)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1 + torch.randint(-1, 2, parameter.shape) * 2.0**-23)
    return other


class Vision(Exported):
    def setUp(self):
        super().setUp()
        rng = numpy.random.default_rng(0)
        classes = rng.integers(0, 5, SAMPLES)
        images = rng.normal(size=(SAMPLES, 3, SIZE, SIZE)).astype("float32") + classes[:, None, None, None].astype("float32") / 4
        numpy.save(self.folder / "images.npy", images)
        numpy.save(self.folder / "classes.npy", classes)
        self.images, self.classes = torch.from_numpy(images), torch.from_numpy(classes)

    def of_images(self, **sections):
        memory = {"memory": {"budget": "3GiB"}, "precision": "fp32", "threads": 1}
        return self.recipe("images", **{**sections, "execution": {**memory, **sections.get("execution", {})}})

    def test_a_hundred_updates_follow_the_same_loop_in_python_and_the_weights_go_back(self):
        for name, maker in MODELS.items():
            with self.subTest(model=name):
                self.follow(name, maker)

    def follow(self, name, maker):
        net = self.exported(maker, IMAGES, precisions=["fp32"])
        rows = self.train(self.of_images(optimizer={"lr": RATE}), f"run-{name}")
        self.assertEqual(len(rows), 100)
        # Batch normalisation over so few pixels makes roundings grow. So Python itself says how far a rounding of the
        # first weights takes its losses, and ours may be some times as far from them.
        nudged = self.in_python(rounded_otherwise(net))
        apart = 0
        for row, loss, other in zip(rows, self.in_python(net), nudged):
            apart = max(apart, abs(loss - other))
            self.assertAlmostEqual(row["loss"], loss, delta=1e-4 * max(1, abs(loss)) + ROUNDINGS * apart, msg=f"{name} {row['update']}")
        loaded = made(maker, seed=5)
        loaded.load_state_dict(self.weights(f"run-{name}"))
        with torch.no_grad():
            loss = torch.nn.functional.cross_entropy(loaded.eval()(self.images), self.classes).item()
        ours = json.loads((self.folder / f"run-{name}" / "summary.json").read_text())["final"]["loss"]
        self.assertAlmostEqual(ours, loss, delta=1e-5 * max(1, loss), msg=name)

    def in_python(self, net):
        return losses_in_python(net, (self.images, self.classes), 100, RATE, 0.9, plain)

    def test_the_gradient_of_a_first_window_is_eager_s(self):
        for name, maker in MODELS.items():
            with self.subTest(model=name):
                self.first_gradient(name, maker)

    def first_gradient(self, name, maker):
        net = self.exported(maker, IMAGES, precisions=["fp32"])
        before = {key: value.clone() for key, value in net.state_dict().items()}
        self.train(self.of_images(stop={"updates": 1}, optimizer={"lr": 1.0, "momentum": 0.0}), f"first-{name}")
        nudged = rounded_otherwise(net)
        for each in (net, nudged):
            torch.nn.functional.cross_entropy(each(self.images[:EFFECTIVE]), self.classes[:EFFECTIVE]).backward()
        after = self.weights(f"first-{name}")
        for (key, parameter), (_, other) in zip(net.named_parameters(), nudged.named_parameters()):
            # Beside the gradient's own roundings, that of the weight that moved by it.
            apart = (parameter.grad - other.grad).abs().max().item()
            allowed = 1e-5 * max(1, before[key].abs().max().item()) + ROUNDINGS * apart
            self.assertLess((before[key] - after[key] - parameter.grad).abs().max().item(), allowed, f"{name} {key}")

    def test_searched_killed_and_resumed_to_the_same_bits(self):
        for name, maker in MODELS.items():
            with self.subTest(model=name):
                self.searched_killed(name, maker)

    def searched_killed(self, name, maker):
        self.exported(maker, IMAGES, precisions=["fp32"])
        recipe = self.of_images(execution={"micro_batch": "auto"})
        out = self.autotrain("verify", "--config", recipe, "--updates", "4", "--kills", "1")
        self.assertEqual(out.returncode, 0, f"{name}: {out.stdout}{out.stderr}")
        for line in ("searched, not typed in", "killed and resumed"):
            self.assertRegex(out.stdout, rf"{line}\s+same bits", name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
