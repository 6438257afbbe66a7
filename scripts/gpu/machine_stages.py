"""The stages that say what the machine is and whether the tests of its device pass."""
import functools
import json
import shutil
import subprocess

import disturbed_runs
import place
import whole_runs
import words
from cells import Cell, Ended, Failed, Stage, json_of, read_json, why

NVIDIA_SMI = ("name", "driver_version", "pstate", "clocks.sm", "clocks.max.sm", "clocks.mem", "clocks.max.mem",
              "memory.total", "memory.used", "power.limit", "temperature.gpu")
SECONDS_OF_A_START, SECONDS_OF_A_TEST = 2, 0.5
PEERS = ("torch", "lightning", "pytorch_lightning", "accelerate", "torchvision", "triton")


def bench(setting, name):
    """The words that start a program of autotrain_bench on the campaign's device."""
    return [*place.program("autotrain_bench"), name, "--device", setting.device]


def device_facts(setting):
    return json_of(setting.run(bench(setting, "facts"), 180))


def nvidia_smi(setting):
    query = ["nvidia-smi", "--query-gpu=" + ",".join(NVIDIA_SMI), "--format=csv,noheader,nounits",
             "--id=" + (setting.device.partition(":")[2] or "0")]
    ended = setting.run(query, 60)
    if ended.code != 0:
        raise Failed(why(ended))
    values = [value.strip() for value in ended.output.splitlines()[0].split(",")]
    return dict(zip(NVIDIA_SMI, values))


def peers(_):
    return {"python": place.python(), **{module: not place.lacks(module) for module in PEERS}}


def facts_cells(setting):
    cells = [Cell("device", lambda: device_facts(setting), 5), Cell("peers", lambda: peers(setting), 2)]
    if setting.on_gpu or shutil.which("nvidia-smi"):
        cells.insert(1, Cell("nvidia-smi", lambda: nvidia_smi(setting), 1))
    return cells


def facts_columns(row):
    if row["cell"] == "nvidia-smi":
        return {"figures": " · ".join(f"{key} {row[key]}" for key in NVIDIA_SMI)}
    if row["cell"] == "peers":
        there = [module for module in PEERS if row[module]]
        return {"figures": f"{row['python']} with {', '.join(there) or 'none of them'}"}
    rates = " · ".join(f"{precision} {words.scaled(rate, 'FLOP/s')}" for precision, rate in row["flops"].items())
    upload = row.get("upload") or {}
    per_second = {kind: words.scaled(upload.get(f"{kind}_bytes_per_second"), "B/s") for kind in ("pageable", "pinned")}
    budget = f"budget {words.memory(row['budget_bytes'])} ({row['budget_source']})"
    copies = f"copies {words.scaled(row['copy_bytes_per_second'], 'B/s')}"
    uploads = f"upload {per_second['pageable']}, pinned {per_second['pinned']}"
    return {"figures": " · ".join([row["name"], row["software"], budget, copies, rates, uploads])}


def peak_rate(setting, precision):
    """Operations a second that the facts know of, or None."""
    try:
        rows = read_json(setting.output / "facts.json")["rows"]
        return next(row["flops"][precision] for row in rows if row["cell"] == "device")
    except (Failed, StopIteration, KeyError):
        return None


def test_environment(setting):
    return {"AUTOTRAIN_TEST_DEVICE": setting.device, "CI": "1"}  # CI: no plans that an earlier run kept


@functools.cache
def tests_of_a_gpu(device):
    """Suite → the names of its tests. @raises Failed"""
    wanted = "Cuda*" if device.startswith("cuda") else "CudaTraining*"  # the others use what only CUDA has
    try:
        ended = subprocess.run([*place.program("autotrain_tests"), "--gtest_list_tests", f"--gtest_filter={wanted}"],
                               capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        raise Failed("autotrain_tests did not list its tests in 60 s") from None
    if ended.returncode != 0:
        raise Failed(why(Ended(ended.returncode, ended.stdout, ended.stderr)))
    found, suite = {}, ""
    for line in ended.stdout.splitlines():
        name = line.partition("#")[0].strip()
        if line.startswith("Cuda"):
            suite = name.rstrip(".")
        elif suite and name:
            found.setdefault(suite, []).append(name)
    return found


def counts_of(tests):
    failures = {test["name"]: test["failures"][0]["failure"] for test in tests if test.get("failures")}
    skipped = sum(test.get("result") == "SKIPPED" for test in tests)
    return {"passed": len(tests) - len(failures) - skipped, "failed": len(failures), "skipped": skipped,
            "failures": {name: " ".join(said.split())[:400] for name, said in failures.items()},
            "test_seconds": {test["name"]: float(test["time"].rstrip("s")) for test in tests}}


def run_tests(setting, wanted):
    """What came of the tests that a filter of GoogleTest names, in one process."""
    report = setting.folder("tests") / "report.json"
    command = [*place.program("autotrain_tests"), f"--gtest_filter={wanted}", f"--gtest_output=json:{report}"]
    ended = setting.run(command, 300, test_environment(setting))
    if not report.exists():
        raise Failed(why(ended))
    suites = json.loads(report.read_text(encoding="utf-8"))["testsuites"]
    return counts_of([test for suite in suites for test in suite["testsuite"]])


def test_cells(setting):
    """A process for each suite, and one for each test: what passes beside others must pass alone."""
    try:
        found = tests_of_a_gpu(setting.device)
    except Failed as failed:
        said = str(failed)  # the exception is gone when the cell is measured

        def fail():
            raise Failed(said)

        return [Cell("Cuda*", fail)], []

    def cell(name, wanted, count):
        return Cell(name, lambda: run_tests(setting, wanted), SECONDS_OF_A_START + SECONDS_OF_A_TEST * count)

    suites = [cell(suite, f"{suite}.*", len(tests)) for suite, tests in found.items()]
    names = [f"{suite}.{test}" for suite, tests in found.items() for test in tests]
    alone = [cell(f"alone: {name}", name, 1) for name in names]
    return suites, alone if setting.on_gpu else []


def tests_cells(setting):
    suites, alone = test_cells(setting)
    return suites + disturbed_runs.cells(setting) + whole_runs.cells(setting) + alone


def tests_columns(row):
    failures = "; ".join(f"{name}: {said[:160]}" for name, said in row["failures"].items())
    return {**{key: str(row[key]) for key in ("passed", "failed", "skipped")}, "failures": failures,
            "figures": " · ".join(f"{name} {value}" for name, value in row.get("figures", {}).items())}


STAGES = {
    "facts": Stage("what the device is and reaches at most, driver and clocks, which peers are installed",
                   facts_cells, facts_columns),
    "tests": Stage("the tests that need a GPU, by suites and alone; whole runs, also beside others, killed and resumed",
                   tests_cells, tests_columns),
}
