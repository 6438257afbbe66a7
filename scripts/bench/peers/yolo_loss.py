"""The twin of loss `yolo` in PyTorch, written from src/model/yolo_loss.cpp, task_aligned.cpp and boxes.cpp; docs/detection.md names the
papers. Images are assigned together, as many at a time as there is memory set aside for, and no loop goes over boxes or points."""
import math

import torch
import torch.nn.functional as F

from yolo import BINS

TINY = 1e-9
ALPHA, BETA, POINTS_OF_A_BOX, ELEMENTS_AT_ONCE = 1, 6, 13, 1 << 20  # the defaults of the loss
CLASS_WEIGHT, BOX_WEIGHT, DISTRIBUTION_WEIGHT = 1, 2, 1


def boxes_of(said, points):
    """Edges left, top, right, bottom in pixels: [n, points, 4]."""
    bins = said[..., :4 * BINS].unflatten(-1, (4, BINS))
    distances = (bins.softmax(-1) * torch.arange(BINS, device=said.device)).sum(-1) * points[:, 2:3]
    return torch.cat([points[:, :2] - distances[..., :2], points[:, :2] + distances[..., 2:]], -1)


def edges_of(centred):
    return torch.cat([centred[..., :2] - centred[..., 2:] / 2, centred[..., :2] + centred[..., 2:] / 2], -1)


def area(boxes):
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def overlap_of(a, b):
    sides = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp_min(0)
    both = sides[..., 0] * sides[..., 1]
    return both / (area(a) + area(b) - both + TINY)


def complete_overlap(a, b):
    overlap = overlap_of(a, b)
    hull = torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])
    apart = (a[..., :2] + a[..., 2:] - b[..., :2] - b[..., 2:]) / 2
    distance = apart.square().sum(-1) / (hull.square().sum(-1) + TINY)
    turned = [torch.atan((box[..., 2] - box[..., 0]) / (box[..., 3] - box[..., 1] + TINY)) for box in (a, b)]
    unlike = 4 / math.pi ** 2 * (turned[1] - turned[0]).square()
    weight = (unlike / (1 - overlap + unlike + TINY)).detach()
    return overlap - distance - weight * unlike


def wanted(scores, boxes, points, targets):
    """Of each box the points that it wants most, [c, boxes, k]: their places, metrics and overlaps, and which of them it may have."""
    centred = targets[..., 1:5] * points[0, 3:5].repeat(2)
    overlap = overlap_of(edges_of(centred)[:, :, None], boxes[:, None])
    number = targets[..., 0].clamp_min(0).long()
    score = scores.gather(1, number[:, :, None].expand(-1, -1, boxes.shape[1]))
    reach = torch.maximum(centred[:, :, None, 2:] / 2, points[:, 2:3] / 2)
    near = ((points[:, :2] - centred[:, :, None, :2]).abs() <= reach).all(-1) & (targets[..., 0] >= 0)[:, :, None]
    metric = (score ** ALPHA * overlap ** BETA).masked_fill(~near, -1)
    best, places = metric.topk(min(POINTS_OF_A_BOX, boxes.shape[1]), 2, sorted=False)
    return places, best.clamp_min(0), overlap.gather(2, places), near.gather(2, places)


def assigned(scores, boxes, points, targets, boxes_at_once):
    """Target scores [c, points, classes], true boxes [c, points, 4] and weights [c, points]."""
    parts = [wanted(scores, boxes, points, part) for part in targets.split(boxes_at_once, 1)]
    places, metric, overlap, may = (torch.cat(part, 1) for part in zip(*parts))
    images, count, _ = places.shape
    flat = places.flatten(1)
    claim = overlap.masked_fill(~may, -1).flatten(1)
    most = claim.new_full((images, boxes.shape[1]), -1).scatter_reduce(1, flat, claim, "amax")
    wins = may.flatten(1) & (claim == most.gather(1, flat))
    number = torch.arange(count, device=flat.device)[None, :, None].expand_as(places).flatten(1)
    owner = flat.new_full((images, boxes.shape[1]), count).scatter_reduce(1, flat, number.masked_fill(~wins, count), "amin")
    own = (may.flatten(1) & (owner.gather(1, flat) == number)).view_as(places)
    metric = metric * own
    aligned = metric / metric.amax(2, True).clamp_min(1e-30) * (overlap * own).amax(2, True)
    weight = aligned.new_zeros(images, boxes.shape[1]).scatter_reduce(1, flat, aligned.flatten(1), "amax")
    box = owner.masked_fill(owner == count, 0)
    true = edges_of(targets[..., 1:5] * points[0, 3:5].repeat(2)).gather(1, box[..., None].expand(-1, -1, 4))
    category = targets[..., 0].clamp_min(0).long().gather(1, box)
    given = torch.zeros_like(scores.transpose(1, 2)).scatter_(2, category[..., None], weight[..., None])
    return given, true, weight


@torch.no_grad()
def assignment(logits, boxes, points, targets):
    of_image = max(1, targets.shape[1] * boxes.shape[1])
    at_once = min(len(boxes), max(1, ELEMENTS_AT_ONCE // of_image))
    boxes_at_once = max(1, ELEMENTS_AT_ONCE // (at_once * boxes.shape[1]))
    scores = logits.sigmoid().transpose(1, 2)
    chunks = [assigned(*part, boxes_at_once) for part in zip(scores.split(at_once), boxes.split(at_once), [points] * len(boxes),
                                                             targets.split(at_once))]
    return [torch.cat(part) for part in zip(*chunks)]


def distribution_focal(bins, distances):
    distances = distances.clamp(0, BINS - 1)
    below = distances.floor().clamp_max(BINS - 2)
    share = distances - below
    logs, index = bins.log_softmax(-1), below.long()[..., None]
    at_below, at_above = logs.gather(-1, index)[..., 0], logs.gather(-1, index + 1)[..., 0]
    return -((1 - share) * at_below + share * at_above).sum(-1)


def yolo_terms(prediction, targets):
    """The loss's sum over the samples, and its weight: their quotient over a whole update is what is minimised."""
    said, points = prediction
    bins, logits = said[..., :4 * BINS].unflatten(-1, (4, BINS)), said[..., 4 * BINS:]
    boxes = boxes_of(said, points)
    scores, true, weight = assignment(logits.detach(), boxes.detach(), points, targets)
    classes = F.binary_cross_entropy_with_logits(logits, scores, reduction="sum")
    overlap = (weight * (1 - complete_overlap(boxes, true))).sum()
    distances = torch.cat([points[:, :2] - true[..., :2], true[..., 2:] - points[:, :2]], -1) / points[:, 2:3]
    distribution = (weight * distribution_focal(bins, distances)).sum() / 4
    return CLASS_WEIGHT * classes + BOX_WEIGHT * overlap + DISTRIBUTION_WEIGHT * distribution, weight.sum(dtype=torch.float64)


def yolo_loss(prediction, targets):
    total, weight = yolo_terms(prediction, targets)
    return total / weight.clamp_min(1e-9).float()
