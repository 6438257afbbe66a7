"""COCO's mAP, by pycocotools, of the grid of cells that a run of model `detector` gives for validation images: prints one JSON line.
python detector_map.py --grid FILE.npy --folder FOLDER --side 160"""
import argparse
import contextlib
import io
import json

import numpy as np
import torch
from torchvision.ops import batched_nms

from yolo_boxes import CANDIDATES, MOST, OVERLAP, BoxSet


def boxes_of_grid(grid, side):
    """[n, cells, 4] edges in pixels, and [n, cells, classes] scores: objectness times the share of the class."""
    images, rows, columns, _ = grid.shape
    cells = grid.reshape(images, rows * columns, -1)
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    place, size = cells[..., 1:5].sigmoid().split(2, 2)
    centre = (torch.stack([column, row], 2).view(-1, 2) + place) / torch.tensor([columns, rows])
    edges = torch.cat([centre - size / 2, centre + size / 2], 2).clamp(0, 1) * side
    return edges, cells[..., :1].sigmoid() * cells[..., 5:].softmax(2)


def found(grid, side):
    for edges, scores in zip(*boxes_of_grid(grid, side)):
        best, places = scores.flatten().topk(min(CANDIDATES, scores.numel()))
        boxes, category = edges[places // scores.shape[1]], places % scores.shape[1]
        kept = batched_nms(boxes, best, category, OVERLAP)[:MOST]
        yield boxes[kept], best[kept], category[kept]


def truth(data, side):
    """What pycocotools reads in the place of an annotations' file."""
    notes = []
    for image, boxes in enumerate(data.boxes):
        for category, x, y, width, height in boxes.tolist():
            notes.append({"id": len(notes) + 1, "image_id": image, "category_id": int(category), "iscrowd": 0, "area": width * height * side ** 2,
                          "bbox": [(x - width / 2) * side, (y - height / 2) * side, width * side, height * side]})
    classes = sorted({note["category_id"] for note in notes})
    return {"images": [{"id": image} for image in range(len(data))], "annotations": notes, "categories": [{"id": each} for each in classes]}


def mean_precision(notes, results):
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval
    if not results:
        return {"map": 0.0, "map50": 0.0}
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = notes
        coco.createIndex()
        evaluation = COCOeval(coco, coco.loadRes(results), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return {"map": float(evaluation.stats[0]), "map50": float(evaluation.stats[1])}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--grid", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--side", type=int, default=160)
    options = parser.parse_args()
    results = []
    for image, (boxes, scores, categories) in enumerate(found(torch.from_numpy(np.load(options.grid)), options.side)):
        for (left, top, right, bottom), score, category in zip(boxes.tolist(), scores.tolist(), categories.tolist()):
            results.append({"image_id": image, "category_id": category, "score": score, "bbox": [left, top, right - left, bottom - top]})
    data = BoxSet(options.folder, "val")
    print(json.dumps(mean_precision(truth(data, options.side), results)))


if __name__ == "__main__":
    main()
