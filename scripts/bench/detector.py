#!/usr/bin/env python3
"""The detector beside its twin in PyTorch (peers/yolo.py, peers/yolo_loss.py), on images of 160 × 160 pixels.

    scripts/bench/detector.py agree        outputs, loss and gradients of both from the same weights and boxes, every size
    scripts/bench/detector.py speed        samples/s in turns: training, forward passes, and from files to boxes that are found
    scripts/bench/detector.py accumulate   losses of SGD's first ten updates in 1, 2, 4 and 8 micro-batches
    scripts/bench/detector.py search       what is found at four budgets on a sparse and a crowded set, and whether 100 updates then live
    scripts/bench/detector.py learn        mAP of yolo and of the single-scale detector after equal time, three seeds; yolo accumulated

--quick: tiny, to see that all of it runs; nothing is kept. --data: a set of make_fashion_boxes.py; one is made without it.
Needs .deps/peers (README.md), or PEERS_PYTHON with torch, torchvision, safetensors, Pillow; search lightning and accelerate, learn pycocotools.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from detector_runs import THREADS, PausedRun, Predictions, autotrain, made_set, part_of, peer, recipe, under_limit
from measure import HERE, PEERS_PYTHON, PROGRAM, Worker, instructions, middle, ratio, save, take_turns, text

CLOSE = {"outputs": 1e-5, "loss": 1e-4, "gradients": 1e-4}
RATE = 1024  # of the step that gradients are read from: a power of two, and so large that weights are lost beside it
MICRO_LOSSES = 1e-4
SIDES = ("autotrain", "lightning power", "accelerate")


def progress(*words):
    print(*words, file=sys.stderr, flush=True)


def keep(options, rows):
    if not options.quick:
        save("detector", rows, ("part", "cell"))


def run(file, output, *words):
    """A run to its end: its folder, summary and losses."""
    autotrain("train", "--config", file, "--output", output, *words)
    lines = (output / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["kind"] == "update"]
    return json.loads((output / "summary.json").read_text(encoding="utf-8")), rows


def newest_weights(output):
    return max((output / "checkpoints").iterdir(), key=lambda path: int(path.name.rpartition("-")[2])) / "model.safetensors"


# --- agree


def agreement(folder, data, size, weights, samples):
    """One step of plain SGD tells the gradient; a prediction as an array, the outputs."""
    model = {"name": "yolo", "size": size, "weights": str(weights)}
    file = recipe(folder, f"agree_{size}", data, model=model, optimizer={"name": "sgd", "lr": RATE}, stop={"updates": 1}, evaluation={"every": "never"},
                  data={"shuffle": False}, batch={"effective": samples, "lr_rule": "none"}, execution={"micro_batch": samples})
    output = folder / f"agree_{size}"
    _, rows = run(file, output)
    outputs = folder / f"agree_{size}.npy"
    autotrain("predict", "--run", output, "--weights", weights, "--data", "train", "--batch", samples, "--output", outputs)
    return peer("detector_check.py", "compare", "--size", size, "--weights", weights, "--after", newest_weights(output), "--rate", RATE,
                "--loss", rows[0]["loss"], "--outputs", outputs, "--folder", data, "--samples", samples)


def agree(options, folder, source):
    sizes, samples = (("p",), 2) if options.quick else (("p", "n", "s", "m"), 8)
    data, rows = part_of(source, folder / "few", samples, 1), []
    cases = [(size, None) for size in sizes] + ([(options.trained_size, options.trained)] if options.trained else [])
    print("| size | outputs | loss | gradients | worst tensor |\n| --- | --- | --- | --- | --- |")
    for size, trained in cases:
        weights = Path(trained).resolve() if trained else folder / f"first_{size}.safetensors"
        if not trained:
            peer("detector_check.py", "first", "--size", size, "--seed", 1, "--weights", weights)
        (place := folder / ("trained" if trained else "untrained")).mkdir(exist_ok=True)
        apart = agreement(place, data, size, weights, samples)
        cell = f"{size}{', trained' if trained else ''}"
        rows.append({"part": "agree", "cell": cell, "samples": samples, **apart})
        print(f"| {cell} | {apart['outputs']:.1e} | {apart['loss']:.1e} | {apart['gradients']:.1e} | {apart['worst_tensor'][0]:.1e} |", flush=True)
    keep(options, rows)
    wrong = [f"{row['cell']}: {key} differ by {row[key]:.1e}, and {most:.0e} is allowed" for row in rows for key, most in CLOSE.items()
             if not row[key] <= most]
    if wrong:
        sys.exit("\n".join(wrong))


# --- speed


def trained_run(folder, data, size, updates):
    """A run of some updates, whose weights find boxes of many sizes."""
    output = folder / f"run_{size}"
    run(recipe(folder, f"speed_{size}", data, model={"name": "yolo", "size": size}, stop={"updates": updates},
               optimizer={"name": "adamw", "lr": 0.002, "reference_batch": 16}, batch={"effective": 16}, evaluation={"every": "never"}), output)
    return output


def same_weights(folder, data, size, weights, precision):
    """A run in a precision, for predictions are computed in that of their run; its own weights are not used."""
    output = folder / f"run_{size}_{precision}"
    run(recipe(folder, f"run_{size}_{precision}", data, model={"name": "yolo", "size": size, "weights": str(weights)}, stop={"updates": 1},
               optimizer={"name": "sgd", "lr": 1e-6}, batch={"effective": 1, "lr_rule": "none"}, evaluation={"every": "never"},
               execution={"precision": precision, "micro_batch": 1}), output)
    return output


def best_layout(rates, name):
    """Of each round the better of PyTorch's layouts of images."""
    return [max(pair) for pair in zip(rates[name], rates[f"{name}_last"])]


def cell_row(kind, size, batch, precision, rates, *extra):
    row = {"part": f"speed {kind}", "cell": f"{size}:{batch}:{precision}", "rates": rates, "ratio": ratio(rates["harness"], best_layout(rates, kind))}
    row |= {f"ratio {name}": ratio(rates["harness"], rates[name]) for name in extra}
    more = "".join(f" · {name} {text(row[f'ratio {name}'])}" for name in extra)
    print(f"| {kind} | {size} | {batch} | {precision} | {middle(rates['harness'])} | {middle(best_layout(rates, kind))} | {text(row['ratio'])}{more} |",
          flush=True)
    return row


def peer_sides(python, kind, batch, precision):
    return {name: (python, f"{name}:{batch}:{precision}") for name in (kind, f"{kind}_last")}


def training_cell(options, folder, data, python, cell):
    size, batch, precision = cell
    file = recipe(folder, f"train_{size}_{batch}_{precision}", data, model={"name": "yolo", "size": size}, stop={"updates": 1 << 40},
                  optimizer={"name": "adamw", "lr": 0.001}, batch={"effective": batch, "lr_rule": "none"}, evaluation={"every": "never"},
                  checkpoint={"every": "never"}, execution={"precision": precision, "micro_batch": batch, "loader": {"preload": "ram"}})
    harness = PausedRun(file, folder / f"train_{size}_{batch}_{precision}")
    sides = {"harness": (harness, ""), **peer_sides(python, "train", batch, precision)}
    if options.compiled:
        sides["compiled"] = (python, f"compiled:{batch}:{precision}")
    try:
        rates = take_turns(sides, options.rounds, options.seconds)
    finally:
        harness.close()
    return cell_row("train", size, batch, precision, rates, *(["compiled"] if options.compiled else []))


def forward_cells(options, folder, data, python, size, precision):
    """A sweep measures all batches at a time; PyTorch follows, batch by batch."""
    file = recipe(folder, f"forward_{size}_{precision}", data, model={"name": "yolo", "size": size}, stop={"updates": 1},
                  execution={"precision": precision})
    sides = ("harness", "forward", "forward_last")
    rates = {batch: {side: [] for side in sides} for batch in options.batches}
    for number in range(options.rounds):
        for side in sides if number % 2 == 0 else sides[::-1]:
            if side == "harness":
                sweep = autotrain("sweep", "--config", file, "--batches", ",".join(map(str, options.batches)), "--rounds", 1, "--seconds",
                                  options.seconds, "--output", folder / f"sweep_{size}_{precision}_{number}")
                for point in sweep["variants"][0]["points"]:
                    rates[point["batch"]][side].append(point["samples_per_second"])
            else:
                for batch in options.batches:
                    rates[batch][side].append(python.ask(f"{side}:{batch}:{precision}", options.seconds)["samples_per_second"])
    return [cell_row("forward", size, batch, precision, rates[batch]) for batch in options.batches]


def found_cell(options, folder, python, run_folder, weights, files, cell):
    size, batch, precision = cell
    sides = {"harness": (Predictions(run_folder, weights, files, batch, folder), ""), **peer_sides(python, "found", batch, precision)}
    return cell_row("found", size, batch, precision, take_turns(sides, options.rounds, options.seconds))


def lengths(options, precision):
    """The options of a precision, and how many files are read for boxes. Where bf16 is emulated it is ten times slower than fp32, and little of
    it tells as much."""
    if options.quick:
        return argparse.Namespace(**{**vars(options), "batches": (1, 2), "rounds": 1, "seconds": 0.1}), 8
    if precision == "bf16" and "bf16" not in instructions():
        return argparse.Namespace(**{**vars(options), "batches": (8,), "rounds": 1}), 24
    return argparse.Namespace(**{**vars(options), "batches": (1, 8, 32)}), 128


def speed(options, folder, source):
    count, sizes, rows = (16, ["p"], []) if options.quick else (256, options.sizes, [])
    data = part_of(source, folder / "part", count, count // 4)
    print("| what | size | batch | precision | harness samples/s | PyTorch | ratio |\n| --- | --- | --- | --- | --- | --- | --- |")
    for size in sizes:
        progress(f"training size {size} for a few updates")
        weights = newest_weights(trained_run(folder, data, size, 2 if options.quick else 30))
        for precision in options.precisions:
            for row in speed_of(*lengths(options, precision), folder, data, weights, size, precision):
                rows.append(row)
                keep(options, rows)


def speed_of(plan, count, folder, data, weights, size, precision):
    """The rows of a size in a precision, one by one."""
    files = part_of(data, folder / f"files_{size}_{precision}", count, 1) / "images/train"
    python = Worker([PEERS_PYTHON, HERE / "peers/detector_turns.py", "--folder", data, "--size", size, "--weights", weights, "--files", files])
    cells = [(size, batch, precision) for batch in plan.batches]
    for part in plan.what:
        progress(f"{part}, size {size}, {precision}")
        if part == "train":
            yield from (training_cell(plan, folder, data, python, cell) for cell in cells)
        elif part == "forward":
            yield from forward_cells(plan, folder, data, python, size, precision)
        else:
            of_precision = same_weights(folder, data, size, weights, precision)
            yield from (found_cell(plan, folder, python, of_precision, weights, files, cell) for cell in cells)
    python.close()


# --- accumulate


def accumulated_losses(folder, data, weights, settings, pieces):
    file = recipe(folder, f"pieces_{pieces}", data, model={"name": "yolo", "size": settings["size"], "weights": str(weights)},
                  data={"shuffle": False}, optimizer={"name": "sgd", "lr": settings["rate"]}, stop={"updates": settings["updates"]}, evaluation={"every": "never"},
                  batch={"effective": settings["effective"], "lr_rule": "none"}, execution={"micro_batch": settings["effective"] // pieces})
    return [row["loss"] for row in run(file, folder / f"pieces_{pieces}")[1]]


def accumulate(options, folder, source):
    settings = {"size": "p" if options.quick else "n", "effective": 8 if options.quick else 16, "updates": 3 if options.quick else 10, "rate": 0.002}
    data = part_of(source, folder / "part", settings["effective"] * settings["updates"], 1)
    weights = folder / "first.safetensors"
    peer("detector_check.py", "first", "--size", settings["size"], "--seed", 1, "--weights", weights)
    losses = {f"harness, {pieces} a window": accumulated_losses(folder, data, weights, settings, pieces) for pieces in (1, 2, 4, 8)}
    asked = [word for key, value in settings.items() for word in (f"--{key}", value)]
    for name, more in (("PyTorch, whole", ["--pieces", 1]), ("PyTorch, mean of 8 losses", ["--pieces", 8, "--naive"])):
        progress(name)
        losses[name] = peer("detector_check.py", "updates", "--weights", weights, "--folder", data, *asked, *more)["losses"]
    whole, rows = losses["harness, 1 a window"], []
    print(f"| losses of {settings['updates']} updates of {settings['effective']} | first | last | largest difference to the whole batch's |\n"
          "| --- | --- | --- | --- |")
    for name, each in losses.items():
        apart = max(abs(a - b) / abs(b) for a, b in zip(each, whole))
        rows.append({"part": "accumulate", "cell": name, **settings, "losses": each, "apart": apart})
        print(f"| {name} | {each[0]:.5f} | {each[-1]:.5f} | {apart:.1e} |", flush=True)
    keep(options, rows)
    if wrong := [row["cell"] for row in rows if row["cell"].startswith("harness") and not row["apart"] <= MICRO_LOSSES]:
        sys.exit(f"further than {MICRO_LOSSES:.0e} apart: {', '.join(wrong)}")


# --- search


def idle_bytes(folder):
    """What the limit counts of a run with next to nothing to train, at most."""
    data = {"train": {"dataset": "synthetic", "kind": "vectors", "samples": 64}}
    content = {"name": "idle", "data": data, "model": {"name": "mlp", "width": 8}, "batch": {"effective": 4}, "stop": {"updates": 8},
               "execution": {"precision": "fp32", "threads": THREADS, "search": {"plan_cache": False}}}
    file = folder / "idle.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    code, said, peak = under_limit([PROGRAM, "train", "--config", file, "--output", folder / "idle", "--quiet"])
    if code != 0:
        sys.exit(f"the idle run ended with {code}: {said}")
    return peak


def searched_here(options, folder, data, budget, idle):
    """A run that takes what fits at once as its batch, under the limit from its first instruction on."""
    name = f"{data.name}_{budget}"
    file = recipe(folder, name, data, model={"name": "yolo", "size": "p"}, stop={"updates": options.updates}, checkpoint={"every": "never"},
                  optimizer={"name": "adamw", "lr": 0.001}, batch={"limits": {"max_effective": options.most}, "lr_rule": "none"},
                  evaluation={"every": f"{options.updates} updates"})
    output = folder / name
    code, said, peak = under_limit([PROGRAM, "train", "--config", file, "--output", output, "--quiet"], idle + (budget << 20))
    result = {"peak_fill": (peak - idle) / (budget << 20), "error": None if code == 0 else f"exit {code}: {said[-200:]}"}
    if not (output / "plan.json").exists():
        return result
    plan = json.loads((output / "plan.json").read_text(encoding="utf-8"))
    result |= {"chosen": plan["micro_batch"], "fill": plan["fill"], "own_budget_mib": plan["budget_bytes"] >> 20, "trials": len(plan["search"]["probes"]),
               "samples": plan["search"]["samples"], "seconds": plan["search"]["seconds"]}
    summary = json.loads((output / "summary.json").read_text(encoding="utf-8")) if (output / "summary.json").exists() else {}
    return result | {"updates": summary.get("updates"), "recoveries": summary.get("oom_recoveries"),
                     "alive": code == 0 and summary.get("updates") == options.updates and "loss" in summary.get("final", {})}


def searched_by_peer(options, side, data, budget):
    script, *more = {"lightning power": ["search_lightning.py", "--mode", "power", "--max-val", options.most],
                     "accelerate": ["search_accelerate.py", "--start", options.most]}[side]
    command = [PEERS_PYTHON, script, "--workload", f"yolo:p:{data}", "--budget-mib", budget, "--after-steps", options.updates, "--threads", THREADS,
               *more]
    try:
        done = subprocess.run([str(word) for word in command], cwd=HERE / "peers", capture_output=True, text=True, timeout=options.patience,
                              env={**os.environ, "OUT": str(data / "out")})
    except subprocess.TimeoutExpired:
        return {"error": f"took more than {options.patience} s"}
    lines = done.stdout.strip().splitlines()
    if not lines or not lines[-1].startswith("{"):
        return {"error": f"exit {done.returncode}: {done.stderr.strip()[-200:]}"}
    said = json.loads(lines[-1])
    after = said.get("survival") or {}
    return {"chosen": said["chosen"], "trials": said["trials"], "samples": said["samples"], "seconds": said["wall_s"], "updates": after.get("steps"),
            "alive": bool(after.get("ok")), "peak_fill": after.get("peak_vmdata_fraction"), "error": said["error"] or after.get("error")}


def show_search(row):
    def told(key, form):
        return format(row[key], form) if row.get(key) is not None else "-"
    alive = "yes" if row.get("alive") else f"NO: {str(row.get('error'))[:90]}"
    if row.get("recoveries"):
        alive += f", {row['recoveries']} recoveries"
    print(f"| {row['cell']} | {told('chosen', 'd')} | {told('fill', '.3f')} | {told('peak_fill', '.3f')} | {told('trials', 'd')} | "
          f"{told('samples', 'd')} | {told('seconds', '.1f')} | {told('updates', 'd')} | {' '.join(alive.split())} |", flush=True)


def search(options, folder, source):
    if options.quick:
        options.budgets, options.updates, options.most = options.budgets[:1], 2, 32
    count, validation = (64, 8) if options.quick else (512, 64)
    sets = [part_of(source, folder / "sparse", count, validation, most_boxes=2),
            part_of(source, folder / "crowded", count, validation, most_boxes=3, crowded_every=count // 4)]
    idle, rows = idle_bytes(folder), []
    progress(f"idle: {idle / 2 ** 20:.0f} MiB under the limit's count")
    print("| set, MiB, search | size | planned fill | peak of the limit's count | trials | samples | seconds | updates | alive |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for data in sets:
        for budget in options.budgets:
            for side in SIDES:
                progress(f"{data.name}, {budget} MiB, {side}")
                result = searched_here(options, folder, data, budget, idle) if side == "autotrain" else searched_by_peer(options, side, data, budget)
                rows.append({"part": "search", "cell": f"{data.name} {budget} {side}", **result})
                show_search(rows[-1])
                keep(options, rows)


# --- learn


def learning_recipe(folder, data, name, model, loss, stop, more):
    return recipe(folder, name, data, model=model, loss={"name": loss}, stop=stop, batch={"effective": 16}, average={"half_life": 1000},
                  data={"augment": {"flip": True, "brightness": 0.2, "scale": 0.2, "translate": 0.1}}, checkpoint={"every": "never"},
                  optimizer={"name": "adamw", "lr": 0.002, "reference_batch": 16, "weight_decay": 0.01, "clip_norm": 10},
                  schedule={"name": "cosine", "warmup": "5%"}, evaluation={"every": "never"}, **more)


def learned(folder, data, name, seed, model, loss, stop, **more):
    """A run's row; its mAP is what COCO's evaluation says of its last weights on the validation images."""
    output = folder / f"{name}_{seed}"
    file = learning_recipe(folder, data, f"{name}_{seed}", model, loss, stop, {"seed": seed, **more})
    summary, rows = run(file, output)
    row = {"part": "learn", "cell": f"{name} {seed}", "seed": seed, "updates": summary["updates"], "seconds": rows[-1]["training_seconds"]}
    if loss == "yolo":
        figures = autotrain("evaluate", "--run", output)["figures"]
    else:
        grid = folder / f"{name}_{seed}.npy"
        autotrain("predict", "--run", output, "--output", grid)
        figures = peer("detector_map.py", "--grid", grid, "--folder", data)
    row |= {"map": figures["map"], "map50": figures["map50"]}
    print(f"| {name} | {seed} | {row['updates']} | {row['seconds']:.0f} | {row['map']:.4f} | {row['map50']:.4f} |", flush=True)
    return row


def updates_in(folder, data, seconds, pilot):
    """How many updates the single-scale detector makes in a time, by a short run; its schedule has to know their number."""
    file = learning_recipe(folder, data, "pilot", {"name": "detector"}, "detection", {"updates": pilot}, {})
    _, rows = run(file, folder / "pilot")
    first, last = rows[len(rows) // 4], rows[-1]
    return max(1, round(seconds * (last["update"] - first["update"]) / (last["training_seconds"] - first["training_seconds"])))


def learn(options, folder, source):
    updates, count, validation, seeds = (4, 64, 8, (1,)) if options.quick else (options.updates_learned, 4000, 200, (1, 2, 3))
    data, yolo, rows, equal = part_of(source, folder / "part", count, validation), {"name": "yolo", "size": "p"}, {}, None
    print("| model | seed | updates | seconds of training | mAP | mAP50 |\n| --- | --- | --- | --- | --- | --- |")
    for seed in seeds:
        whole = learned(folder, data, "yolo", seed, yolo, "yolo", {"updates": updates})
        pieces = learned(folder, data, "yolo_in_4_pieces", seed, yolo, "yolo", {"updates": updates}, execution={"micro_batch": 4})
        equal = equal or updates_in(folder, data, whole["seconds"], 8 if options.quick else 60)
        single = learned(folder, data, "detector", seed, {"name": "detector"}, "detection", {"updates": equal})
        for name, row in (("whole", whole), ("pieces", pieces), ("single", single)):
            rows.setdefault(name, []).append(row)
        keep(options, [row for of_name in rows.values() for row in of_name])
    figures = {name: [row["map"] for row in of_name] for name, of_name in rows.items()}
    spread = max(figures["whole"]) - min(figures["whole"])
    apart = abs(statistics.mean(figures["pieces"]) - statistics.mean(figures["whole"]))
    print(f"means: yolo {statistics.mean(figures['whole']):.4f}, in 4 pieces {statistics.mean(figures['pieces']):.4f}, "
          f"detector {statistics.mean(figures['single']):.4f}; accumulation moves yolo's mean by {apart:.4f}, its seeds spread over {spread:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["agree", "speed", "accumulate", "search", "learn"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", help="a folder that make_fashion_boxes.py made")
    parser.add_argument("--trained", help="agree: also by these weights, a safetensors file of a run of model yolo with ten classes")
    parser.add_argument("--trained-size", default="p", help="agree: their size")
    parser.add_argument("--sizes", nargs="+", default=["n"], help="speed")
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"], help="speed")
    parser.add_argument("--what", nargs="+", default=["train", "forward", "found"], choices=["train", "forward", "found"], help="speed")
    parser.add_argument("--rounds", type=int, default=3, help="speed")
    parser.add_argument("--seconds", type=float, default=2, help="speed: of a segment")
    parser.add_argument("--compiled", action="store_true", help="speed: also training through torch.compile, which takes long to compile")
    parser.add_argument("--budgets", nargs="+", type=int, default=[128, 160, 224, 320], help="search: MiB above an idle process")
    parser.add_argument("--updates", type=int, default=100, help="search: after it")
    parser.add_argument("--most", type=int, default=128, help="search: the largest size, and Accelerate's first")
    parser.add_argument("--patience", type=int, default=150, help="search: seconds for a peer's run")
    parser.add_argument("--updates-learned", type=int, default=300, help="learn")
    options = parser.parse_args()
    if not Path(PROGRAM).exists() or not Path(PEERS_PYTHON).exists():
        sys.exit("build first (CONTRIBUTING.md), and make .deps/peers by scripts/bench/setup_peers.sh or set PEERS_PYTHON")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a run that stands still would stay so
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = made_set(folder, options.data, 64 if options.quick else 4000, 8 if options.quick else 400)
        {"agree": agree, "speed": speed, "accumulate": accumulate, "search": search, "learn": learn}[options.part](options, folder, source)


if __name__ == "__main__":
    main()
