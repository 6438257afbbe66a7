#!/usr/bin/env python3
"""Budgets from 256 MiB to 2 GiB on four models: what the search finds, how, and whether 50 updates and an evaluation
then run inside the budget. The effective batch is whatever fits, so that the band is really filled.

    scripts/bench/budgets.py [mlp:256MiB resnet18:1GiB …]
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import ROOT, options_of, save

BINARY = ROOT / "build/release/autotrain"
MODELS = {"mlp": "fashion_mnist_mlp", "cnn": "fashion_mnist_cnn", "resnet18": "fashion_mnist_resnet18",
          "transformer": "text_transformer"}
BUDGETS = ("256MiB", "512MiB", "1GiB", "2GiB")


def run(recipe, budget, folder):
    settings = ["batch.effective=null", "batch.limits.max_effective=60000", "batch.lr_rule=none", "stop.epochs=null",
                "stop.updates=50", f"execution.memory.budget={budget}", "execution.search.plan_cache=false"]
    if recipe.startswith("fashion"):
        settings.append("data.validation.limit=2000")
    arguments = options_of(settings)
    return subprocess.run([BINARY, "--config", ROOT / f"recipes/{recipe}.yaml", "--output", folder, "--quiet",
                           *arguments], capture_output=True, text=True, cwd=ROOT, env={**os.environ, "CI": "1"})


def row_of(model, budget, folder, result):
    row = {"model": model, "budget": budget, "exit_code": result.returncode}
    if result.returncode != 0:
        return {**row, "error": result.stderr.strip()[-600:]}
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    search = plan["search"]
    return {**row, "precision": plan["precision"], "micro_batch": search["micro_batch"], "fill": search["fill"],
            "probes": len(search["probes"]), "seconds": search["seconds"], "reason": search["reason"],
            "updates": summary["updates"], "evaluated": "loss" in summary["final"],
            "run_peak": summary["peak_bytes"] / plan["budget_bytes"]}


def main():
    rows = []
    print("| model | budget | micro-batch | fill | probes | seconds | reason | peak of 50 updates and an evaluation |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- |")
    for cell in sys.argv[1:] or [f"{model}:{budget}" for model in MODELS for budget in BUDGETS]:
        model, budget = cell.split(":")
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent, "run")
            row = row_of(model, budget, folder, run(MODELS[model], budget, folder))
        rows.append(row)
        if row["exit_code"] != 0:
            print(f"| {model} | {budget} | exit {row['exit_code']} | | | | {row['error'].splitlines()[-1][:80]} | |")
        else:
            print(f"| {model} | {budget} | {row['micro_batch']} | {row['fill']:.3f} | {row['probes']} | "
                  f"{row['seconds']:.1f} | {row['reason']} | {row['run_peak']:.3f} |", flush=True)
        save("budgets", rows, ("model", "budget"))
    return 0 if all(row["exit_code"] in (0, 71) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
