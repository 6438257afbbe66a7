#!/usr/bin/env python3
"""Detection sets and sizes that hardly anybody tries: trained on, or refused by name. And what a run's page, its last
lines and `autotrain evaluate` say of boxes.

    strange_boxes_test.py path/to/autotrain
"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

BINARY = Path(sys.argv[1]).resolve()


def png(path, height, width, box=None):
    """Grey, with a white box of left, top, right, bottom pixels."""
    rows = b""
    for y in range(height):
        inside = box is not None and box[1] <= y < box[3]
        row = bytearray(b"\x40" * (3 * width))
        if inside:
            row[3 * box[0]:3 * box[2]] = b"\xff" * (3 * (box[2] - box[0]))
        rows += b"\0" + bytes(row)

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class StrangeBoxes(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, True)

    def images(self, count=8, size=lambda i: (40, 40), classes=2, boxes=lambda i: True):
        for kind in ("images", "labels"):
            (self.folder / kind).mkdir()
        for i in range(count):
            height, width = size(i)
            box = (width // 4, height // 4, width // 4 + width // 2, height // 4 + height // 2) if boxes(i) else None
            png(self.folder / "images" / f"{i}.png", height, width, box)
            if box is not None:
                line = f"{i % classes} {(box[0] + box[2]) / 2 / width} {(box[1] + box[3]) / 2 / height} " \
                       f"{(box[2] - box[0]) / width} {(box[3] - box[1]) / height}\n"
                (self.folder / "labels" / f"{i}.txt").write_text(line)

    def recipe(self, size=(64, 64), names=("round thing", "square"), **keys):
        (self.folder / "names").write_text("\n".join(names) + "\n")
        data = {"dataset": "yolo", "images": str(self.folder / "images"), "names": str(self.folder / "names"), "size": list(size)}
        file = self.folder / "r.yaml"
        file.write_text(json.dumps({
            "name": "strange", "seed": 1, "data": {"train": data, "validation": data},
            "model": {"name": "yolo", "size": "p"}, "loss": {"name": "yolo"},
            "optimizer": {"name": "adamw", "lr": 0.002}, "batch": {"effective": 4}, "stop": {"updates": 3},
            "evaluation": {"every": "3 updates", "monitor": "loss"},
            "report": {"html": False, "csv": False, "tensorboard": False},
            "execution": {"device": "cpu", "threads": 1, "micro_batch": 4, "memory": {"budget": "256MiB"}}, **keys}))
        return file

    def autotrain(self, *arguments, code=0):
        run = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, env={**os.environ, "CI": "1"})
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run.stdout if "--json" in arguments else run.stdout + run.stderr

    def train(self, recipe, *more, code=0, output="run"):
        return self.autotrain("--config", recipe, "--output", self.folder / output, *more, code=code)

    def summary(self, output="run"):
        return json.loads((self.folder / output / "summary.json").read_text())

    def assert_learned(self, updates=3):
        summary = self.summary()
        self.assertEqual((summary["status"], summary["updates"], summary["skipped_updates"]), ("completed", updates, 0))
        self.assertEqual(summary["final"]["loss"], summary["final"]["loss"], "it is a number")

    def test_samples_of_any_size_from_one_cell_on_are_learned_from(self):
        self.images()
        for number, size in enumerate([(32, 32), (33, 47), (100, 36)]):
            self.train(self.recipe(size), output=f"run{number}")
            self.assertEqual(self.summary(f"run{number}")["updates"], 3, size)
            self.assertGreater(self.summary(f"run{number}")["final"]["loss"], 0, size)

    def test_samples_that_are_smaller_than_a_cell_are_refused_by_name(self):
        self.images()
        text = self.train(self.recipe((31, 64)), code=78)
        self.assertIn("takes images of at least 32 × 32 pixels", text)
        self.assertIn("set a larger size of data.train", text)

    def test_images_each_of_another_size_some_of_a_few_pixels(self):
        self.images(size=lambda i: (5 + 13 * i, 90 - 9 * i))
        self.train(self.recipe())
        self.assert_learned()

    def coco(self, scale=1, folder="images"):
        """The images of `images` with their boxes as a COCO file, whose sizes are `scale` times theirs."""
        images = sorted((self.folder / "images").iterdir())
        (self.folder / "a.json").write_text(json.dumps({
            "images": [{"id": i, "file_name": path.name, "width": 40 * scale, "height": 40 * scale} for i, path in enumerate(images)],
            "annotations": [{"id": i, "image_id": i, "category_id": 1, "bbox": [10, 10, 20, 20], "area": 400, "iscrowd": 0}
                            for i in range(len(images))],
            "categories": [{"id": 1, "name": "thing"}]}))
        return {"dataset": "coco", "images": str(self.folder / folder), "annotations": str(self.folder / "a.json"), "size": [64, 64]}

    def start(self, train, validation=None):
        recipe = json.loads(self.recipe().read_text())
        recipe["data"] = {"train": train, "validation": validation}
        if validation is None:
            del recipe["evaluation"]
        (self.folder / "r.yaml").write_text(json.dumps(recipe))
        return " ".join(self.autotrain("plan", "--config", self.folder / "r.yaml").split())

    def test_sizes_in_a_coco_file_that_are_not_the_images_are_told(self):
        self.images()
        told = "images of another size than their annotations say, by which boxes are scaled (8), the first"
        self.assertNotIn("another size", self.start(self.coco()))
        text = self.start(self.coco(scale=2))
        self.assertIn(told, text)
        self.assertIn("0.png: 40 × 40, and 80 × 80 there", text)

    def test_boxes_that_are_trained_on_are_told_where_they_validate(self):
        self.images()
        same = "validation data that are the training data"
        data = self.coco()
        self.assertIn(same, self.start(data, data))
        shutil.copytree(self.folder / "images", self.folder / "copy")
        self.assertIn(same, self.start(data, self.coco(folder="copy")))
        # One folder of images for two files of annotations is no fault.
        whole = json.loads((self.folder / "a.json").read_text())
        for name, part in (("first", slice(0, 4)), ("second", slice(4, 8))):
            images = whole["images"][part]
            kept = [each for each in whole["annotations"] if each["image_id"] in {image["id"] for image in images}]
            (self.folder / f"{name}.json").write_text(json.dumps({**whole, "images": images, "annotations": kept}))
        parts = [{**data, "annotations": str(self.folder / f"{name}.json")} for name in ("first", "second")]
        self.assertNotIn("training data", self.start(*parts))

    def test_one_class_alone(self):
        self.images(classes=1)
        self.train(self.recipe(names=("thing",)))
        self.assert_learned()
        cells = self.summary()["tables"]["classes"]["cells"]
        self.assertEqual([row[:2] for row in cells], [[8, 8]])

    def bare(self, *names):
        """Images whose label files are empty: nothing is there."""
        for kind in ("images", "labels"):
            (self.folder / "bare" / kind).mkdir(parents=True)
        for name in names:
            png(self.folder / "bare" / "images" / f"{name}.png", 40, 40)
            (self.folder / "bare" / "labels" / f"{name}.txt").write_text("")
        return self.folder / "bare" / "images"

    def test_a_set_without_any_label_file_is_refused_by_name(self):
        self.images(boxes=lambda i: False)
        self.assertIn("has a label file for none of the images; that of 0.png would be", self.train(self.recipe(), code=66))

    def test_where_no_image_has_a_box_no_update_is_counted_and_the_run_says_why(self):
        self.images()
        text = " ".join(self.train(self.recipe(), "--set", f"data.train.images={self.bare(*'abcdefgh')}", code=65).split())
        self.assertIn("none of the targets of the last 8 samples counts", text)

    def test_a_run_does_not_go_on_with_its_classes_in_another_order(self):
        self.images()
        more = ("--resume", "--set", "stop.updates=4", "--allow-change")
        self.train(self.recipe())
        swapped = self.recipe(names=("square", "round thing"))
        text = " ".join(self.train(swapped, "--resume", code=65).split())
        self.assertIn("are now in another order: class 0 is square, and was round thing", text)
        self.assertEqual((self.folder / "run" / "classes.txt").read_text(), "round thing\nsquare\n")
        self.assertIn("are now in another order", " ".join(self.train(swapped, *more).split()))
        self.assert_learned(4)

    def test_where_validation_images_have_no_box_there_are_no_figures_but_a_run(self):
        self.images()
        self.train(self.recipe(), "--set", f"data.validation.images={self.bare('a', 'b', 'c')}")
        self.assertIsNone(self.summary()["final"]["map50"])
        self.assertEqual(self.summary()["updates"], 3)

    def test_images_that_are_not_read_are_named_where_they_have_no_rows(self):
        self.images()
        self.train(self.recipe())
        (self.folder / "images" / "z.GIF").write_bytes(b"GIF89a")
        (self.folder / "images" / "note.txt").write_text("no image")
        said = self.autotrain("predict", "--run", self.folder / "run", "--data", self.folder / "images", "--output",
                              self.folder / "boxes.csv")
        self.assertIn("1 .gif of images that are not read", " ".join(said.split()))
        self.assertNotIn(".txt", said)

    def test_label_files_are_found_whatever_the_case_of_their_ending(self):
        self.images()
        for i in range(0, 8, 2):
            (self.folder / "labels" / f"{i}.txt").rename(self.folder / "labels" / f"{i}.TXT")
        self.assertNotIn("without a label file", self.train(self.recipe()))
        self.assertEqual(self.summary()["tables"]["classes"]["cells"][0][0], 4)

    def test_names_of_classes_in_utf16_are_refused(self):
        self.images()
        recipe = self.recipe()
        (self.folder / "names").write_bytes("cat\r\ndog\r\n".encode("utf-16"))
        self.assertIn("is text in UTF-16", self.train(recipe, code=65))

    def test_tables_and_pictures_of_what_was_found(self):
        self.images()
        text = self.train(self.recipe(report={"html": True, "csv": False, "tensorboard": False}, stop={"updates": 6}))
        header = r"class +boxes +images +AP +AP50 +AP75 +recall100\n"
        row = r"round thing +4 +4 +[01](\.\d{3})? "
        self.assertRegex(text, header + row)
        found = self.autotrain("evaluate", "--run", self.folder / "run")
        self.assertRegex(found, header + row)
        table = found[found.index("classes\n"):].split("\n\n")[0]
        self.assertLessEqual(max(map(len, table.splitlines())), 80)
        as_json = json.loads(self.autotrain("evaluate", "--run", self.folder / "run", "--json"))
        self.assertEqual(as_json["classes"], ["round thing", "square"])
        self.assertEqual([row[:2] for row in as_json["tables"]["classes"]["cells"]], [[4, 4], [4, 4]])
        pictures = json.loads((self.folder / "run" / "found_boxes" / "found_boxes.json").read_text())["pictures"]
        self.assertEqual(len(pictures), 8)
        self.assertEqual(pictures[0]["image"], "0.png")
        self.assertEqual([each["there"] for each in pictures[:2]], ["1 round thing", "1 square"])
        for each in pictures:
            self.assertTrue((self.folder / "run" / "found_boxes" / each["file"]).read_bytes().startswith(b"\x89PNG"))
            self.assertTrue(each["found"] == "nothing" or re.match(r"1 (round thing|square) [01]\.\d\d", each["found"]), each)
        page = self.folder / "run" / "report.html"
        self.assertIn("Found boxes", page.read_text())
        page.unlink()
        self.autotrain("report", self.folder / "run")  # from what the folder holds
        self.assertIn("Found boxes", page.read_text())
        self.assertIn("there: 1 round thing", page.read_text())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
