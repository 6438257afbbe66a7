#!/usr/bin/env python3
"""The update step with static buffers (what a recorded step needs: fixed addresses, the learning rate on the device)
beside the ordinary one, in turns: median [least, largest] of the ratio of samples per second.

    scripts/bench/static_buffers.py [mlp:64 gpt:64 …]
"""
import json
import subprocess

from measure import BENCH, measure_cells, middle, ratio, text

CELLS = ["mlp:64", "mlp:256", "cnn:64", "gpt:64"]


def measure(cell):
    workload, batch = cell.split(":")
    out = subprocess.run([str(BENCH), "static_step", "--workload", workload, "--batch", batch], capture_output=True,
                         text=True, check=True)
    rates = json.loads(out.stdout)
    return {"workload": workload, "batch": int(batch), "rates": {key: rates[key] for key in ("ordinary", "static")},
            "static/ordinary": ratio(rates["static"], rates["ordinary"])}


if __name__ == "__main__":
    measure_cells("static_buffers", ("workload", "batch"), CELLS, ("cell", "ordinary samples/s", "static ÷ ordinary"),
                  measure, lambda row: (middle(row["rates"]["ordinary"]), text(row["static/ordinary"])))
