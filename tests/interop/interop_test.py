#!/usr/bin/env python3
"""Weights go both ways between this program and Python: Python reads our checkpoints, and a torchvision ResNet-18's
weights give the same logits here.

    interop_test.py path/to/autotrain path/to/autotrain_tests path/to/project
"""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

BINARY, TESTS, PROJECT = (Path(argument).resolve() for argument in sys.argv[1:4])

try:
    import torchvision
except ImportError:
    torchvision = None


def train(folder, recipe, *settings):
    options = [part for setting in settings for part in ("--set", setting)]
    out = subprocess.run([BINARY, "--config", PROJECT / "recipes" / recipe, "--output", folder, "--quiet", *options],
                         capture_output=True, text=True, cwd=PROJECT, env={**os.environ, "CI": "1"})
    if out.returncode != 0:
        raise RuntimeError(out.stderr)
    return max((folder / "checkpoints").glob("update-*"), key=lambda path: int(path.name.split("-")[1]))


class Checkpoints(unittest.TestCase):
    def test_python_reads_a_checkpoint(self):
        with tempfile.TemporaryDirectory() as parent:
            checkpoint = train(Path(parent, "run"), "smoke.yaml", "average.half_life=500")
            model, averaged, optimizer = (load_file(checkpoint / f"{name}.safetensors")
                                          for name in ("model", "averaged", "optimizer"))
        self.assertEqual(set(model), set(averaged))
        for name, weight in model.items():
            self.assertTrue(torch.isfinite(weight).all(), name)
            self.assertEqual(optimizer[f"exp_avg.{name}"].shape, weight.shape)


class Torchvision(unittest.TestCase):
    @unittest.skipIf(torchvision is None, "torchvision is not installed")
    def test_a_resnet18_gives_the_same_logits(self):
        torch.manual_seed(0)
        net = torchvision.models.resnet18(num_classes=10)
        net.train()(torch.randn(8, 3, 64, 64))  # running statistics that are not the initial ones
        net.eval()
        inputs = torch.randn(4, 3, 64, 64)
        with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
            save_file(net.state_dict(), Path(folder, "weights.safetensors"))
            save_file({"inputs": inputs, "logits": net(inputs)}, Path(folder, "expected.safetensors"))
            out = subprocess.run([TESTS, "--gtest_filter=Torchvision.*"], capture_output=True, text=True,
                                 env={**os.environ, "AUTOTRAIN_TORCHVISION": folder})
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)
        self.assertIn("[  PASSED  ] 1 test", out.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
