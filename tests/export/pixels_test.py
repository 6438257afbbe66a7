#!/usr/bin/env python3
"""Modules that predict a class or a label for every pixel learn here as in Python, from masks of the usual shapes.

    pixels_test.py path/to/autotrain path/to/project
"""
import json
import sys
import unittest

import numpy
import torch
from export_test import EFFECTIVE, SAMPLES, Exported, models
from torch.nn import functional as F

IGNORED, WEIGHTS = 255, [1.0, 2.0, 0.5, 3.0]


class Pixels(Exported):
    def setUp(self):
        super().setUp()
        images = self.data["images"][0]
        masks = (images.sum(1) * 2).round().clamp(-1, 3).long()
        masks[masks < 0] = IGNORED
        self.images, self.masks = images, masks

    def recipe_of(self, masks, **sections):
        numpy.save(self.folder / "masks.npy", masks)
        recipe = self.recipe("images", **sections)
        document = json.loads(recipe.read_text())
        data = {**document["data"]["train"], "targets": str(self.folder / "masks.npy")}
        document["data"] = {"shuffle": False, "train": data, "validation": data}
        recipe.write_text(json.dumps(document))
        return recipe

    def follows(self, rows, net, loss_of):
        optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
        for update, row in enumerate(rows):
            here = slice(update * EFFECTIVE % SAMPLES, update * EFFECTIVE % SAMPLES + EFFECTIVE)
            loss = loss_of(net(self.images[here])["out"], here)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            self.assertAlmostEqual(row["loss"], loss.item(), delta=1e-4 * max(1, loss.item()))

    def last_evaluation(self, run):
        rows = [json.loads(line) for line in (self.folder / run / "metrics.jsonl").read_text().splitlines()]
        return [row for row in rows if row["kind"] == "evaluation"][-1]

    def test_classes_of_pixels_with_weights_and_an_ignored_one_follow_python(self):
        def loss_of(logits, here):
            return F.cross_entropy(logits, self.masks[here], torch.tensor(WEIGHTS), ignore_index=IGNORED)

        for name, masks in {"plain": self.masks, "second of one": self.masks.unsqueeze(1), "bytes": self.masks.to(torch.uint8)}.items():
            with self.subTest(masks=name):
                net = self.exported(models.Pixels, "float32[4,3,12,12]", precisions=["fp32"], output_part="out")
                loss = {"name": "cross_entropy", "ignore_index": IGNORED, "class_weights": WEIGHTS}
                # Cut into four, though the parts have other numbers of pixels that count.
                recipe = self.recipe_of(masks.numpy(), loss=loss, stop={"updates": 20}, execution={"micro_batch": EFFECTIVE // 4})
                run = f"run-{name.replace(' ', '-')}"
                self.follows(self.train(recipe, run), net, loss_of)
                self.measures(self.last_evaluation(run), net)

    def measures(self, figures, net):
        with torch.no_grad():
            logits = net.eval()(self.images)["out"]
        counted, chosen = self.masks != IGNORED, logits.argmax(1)
        self.assertAlmostEqual(figures["accuracy"], (chosen == self.masks)[counted].double().mean().item(), delta=1e-3)
        shares = [((chosen == k) & (self.masks == k)).sum() / (((chosen == k) & counted) | (self.masks == k)).sum() for k in range(4)]
        self.assertAlmostEqual(figures["mean_iou"], sum(shares).item() / 4, delta=1e-3)

    def test_a_label_for_every_pixel_follows_python(self):
        labels = (self.images[:, :1] > 0).float().expand(-1, 4, -1, -1)
        net = self.exported(models.Pixels, "float32[4,3,12,12]", precisions=["fp32"], output_part="out")
        rows = self.train(self.recipe_of(labels.numpy(), loss={"name": "binary_cross_entropy"}, stop={"updates": 20}))
        self.follows(rows, net, lambda logits, here: F.binary_cross_entropy_with_logits(logits, labels[here]))
        self.assertIn("macro_f1", self.last_evaluation("run"))

    def test_masks_that_do_not_fit_are_named(self):
        self.exported(models.Pixels, "float32[4,3,12,12]", precisions=["fp32"], output_part="out")
        for masks, message in ((self.masks[:, ::2], "4, 12, 12] and targets [1, 6, 12], which go together in no way"),
                               (torch.where(self.masks == IGNORED, IGNORED, self.masks + 1), "the model predicts 4 classes, counted from 0")):  # fmt: skip
            out = self.autotrain("plan", "--config", self.recipe_of(masks.numpy(), loss={"name": "cross_entropy", "ignore_index": IGNORED}))
            self.assertEqual(out.returncode, 65, out.stderr)
            self.assertIn(message, out.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
