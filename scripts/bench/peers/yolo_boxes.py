"""Images with boxes in YOLO's format, held in memory, and boxes found by an output of the twin."""
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from yolo import BINS
from yolo_loss import boxes_of

CANDIDATES, OVERLAP, MOST = 1000, 0.7, 100  # as autotrain suppresses boxes


def read_boxes(path):
    """[boxes, 5]: class, then centre, width and height as parts of the image."""
    words = path.read_text(encoding="utf-8").split() if path.exists() else []
    return torch.tensor([float(word) for word in words], dtype=torch.float64).view(-1, 5).float()


def padded(boxes):
    """Boxes of several images, [n, most boxes, 5]; class −1 fills up."""
    most = max(1, *(len(of_image) for of_image in boxes))
    rows = torch.zeros(len(boxes), most, 5)
    rows[:, :, 0] = -1
    for row, of_image in zip(rows, boxes):
        row[:len(of_image)] = of_image
    return rows


class BoxSet(torch.utils.data.Dataset):
    """One item = (float32 CxHxW in [0, 1], its boxes), in the order of the files' names."""

    def __init__(self, folder, part, limit=None):
        self.files = sorted(Path(folder, "images", part).glob("*.png"))[:limit]
        self.images = torch.stack([torch.from_numpy(np.array(Image.open(file).convert("RGB"))).permute(2, 0, 1) for file in self.files])
        self.boxes = [read_boxes(Path(folder, "labels", part, file.stem + ".txt")) for file in self.files]

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        return self.images[i].float().div_(255), self.boxes[i]

    def batch(self, indices):
        return self.images[indices].float().div_(255), padded([self.boxes[i] for i in indices.tolist()])

    def to(self, _):
        return self

    @staticmethod
    def collate(items):
        return torch.stack([image for image, _ in items]), padded([boxes for _, boxes in items])


def found_boxes(prediction, least_score):
    """Of each image (boxes [k, 4] in pixels, scores, classes): the best pairs of point and class, suppressed by class."""
    from torchvision.ops import batched_nms
    said, points = prediction
    classes = said.shape[2] - 4 * BINS
    scores, places = said[..., 4 * BINS:].flatten(1).topk(min(CANDIDATES, said.shape[1] * classes), 1)
    scores, point, number = scores.sigmoid(), places // classes, places % classes
    edges = torch.minimum(boxes_of(said, points).clamp_min(0), points[0, 3:5].repeat(2))
    edges = edges.gather(1, point[..., None].expand(-1, -1, 4))
    found = []
    for boxes, score, category in zip(edges, scores, number):
        sure = score >= least_score
        boxes, score, category = boxes[sure], score[sure], category[sure]
        kept = batched_nms(boxes, score, category, OVERLAP)[:MOST]
        found.append((boxes[kept], score[kept], category[kept]))
    return found
