#!/usr/bin/env python3
"""Runs under torchrun on two hosts, which are network namespaces, that a fault befalls at a random moment, search, evaluations and
checkpoints included. Whatever happens, every rank that can end does, somebody says what was lost, nothing stays behind, and the run
that is started again, by another number of ranks, ends with the undisturbed run's bytes. Skipped (77) where there are no namespaces or
no torchrun.

    torchrun_test.py path/to/autotrain [FAULTS [SEED]]        60 faults are the long form: some 40 minutes
"""
import os
import random
import re
import shutil
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

from hosts import ADDRESSES, NOT_RUN, Hosts, leave_if_there_can_be_none
from runs import digest, ranks_of

BINARY = Path(sys.argv[1]).resolve()
FAULTS = int(sys.argv[2]) if len(sys.argv) > 2 else 2
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 1
UPDATES, PORT = 120, 29512
# A lane of an update fits at once, so that the search, which runs each time, always comes to the same micro-batch.
RECIPE = f"""data:
  train: {{dataset: synthetic, kind: images, shape: [1, 12, 12], samples: 2000}}
  validation: {{dataset: synthetic, kind: images, shape: [1, 12, 12], samples: 300, first: 100000}}
model: {{name: cnn, width: 8, hidden: 32, dropout: 0.3}}
batch: {{effective: 250}}
stop: {{updates: {UPDATES}}}
evaluation: {{every: 20 updates}}
checkpoint: {{every: 5 updates, keep: 2}}
execution: {{precision: fp32, threads: 1, lanes: 4, telemetry: 0, memory: {{budget: 192MiB}}, search: {{plan_cache: false}}}}
report: {{html: false, csv: false, tensorboard: false}}
"""
FAULTS_OF = {
    "a rank is killed": ("rank", signal.SIGKILL),
    "a rank is frozen": ("rank", signal.SIGSTOP),
    "a rank is told to stop": ("rank", signal.SIGTERM),
    "the cable is cut": ("cable", None),
    "the store's server is killed": ("agent", signal.SIGKILL),
    "the store's server is frozen": ("agent", signal.SIGSTOP),
}
SAID = r"lost rank \d+|the store that ranks meet at|interrupted after|cannot meet at|came to the agreement"


def lives(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition, what, seconds=300):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.02)


class Job:
    """One start of a run: a torchrun on each host, with as many ranks each as are asked for."""

    def __init__(self, hosts, folder, output, local_ranks):
        torchrun = shutil.which("torchrun", path=os.path.dirname(sys.executable)) or shutil.which("torchrun")
        self.logs = [folder / f"log-{host}" for host in range(2)]
        self.output = folder / output
        self.agents = []
        for host in range(2):
            command = [torchrun, "--nnodes", "2", "--node-rank", str(host), "--nproc-per-node", str(local_ranks), "--master-addr",
                       ADDRESSES[0], "--master-port", str(PORT), "--monitor-interval", "0.2", "--no-python", BINARY, "--config",
                       folder / "recipe.yaml", "--output", self.output, "--resume", "--quiet"]
            self.agents.append(hosts.start(host, command, self.logs[host], {}))
        self.local_ranks = local_ranks

    def ranks(self):
        return [rank for agent in self.agents for rank in ranks_of(agent.pid)]

    def wait_until_ranks_have_met(self):
        """Until then one that is missing may be starting, and is waited for. The first thing that they do afterwards is to open the
        run's folder."""
        logs = [self.output / "ranks" / f"rank-{rank}.log" for rank in range(1, 2 * self.local_ranks)]
        wait_until(lambda: all(log.exists() for log in logs) or self.over(), "the ranks")
        return self.ranks()

    def over(self):
        return any(agent.poll() is not None for agent in self.agents)

    def said(self):
        files = [*self.logs, *self.output.glob("ranks/*.log")]
        return "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files)

    def end(self):
        for agent in self.agents:
            if agent.poll() is None:
                agent.kill()
            agent.wait()


def train(hosts, folder, output, local_ranks):
    """Returns the seconds from the ranks' meeting to the end."""
    job = Job(hosts, folder, output, local_ranks)
    job.wait_until_ranks_have_met()
    start = time.monotonic()
    codes = [agent.wait(timeout=900) for agent in job.agents]
    assert codes == [0, 0], f"{output}: torchrun ended with {codes}\n{job.said()}"
    return time.monotonic() - start


def disturb(hosts, folder, output, fault, local_ranks, victim, after):
    """Returns the seconds after which the last rank that could end did."""
    kind, number = FAULTS_OF[fault]
    job = Job(hosts, folder, output, local_ranks)
    try:
        ranks = job.wait_until_ranks_have_met()
        time.sleep(after)
        if not all(lives(rank) for rank in ranks):
            return None  # the run was over before the fault
        start = time.monotonic()
        target = ranks[victim] if kind == "rank" else job.agents[0].pid
        if kind == "cable":
            hosts.cable("down")
        else:
            os.kill(target, number)
        frozen = [target] if number == signal.SIGSTOP else []
        waited_for = [rank for rank in ranks if rank not in frozen]
        wait_until(lambda: not any(lives(rank) for rank in waited_for), f"the ranks to end: {fault}\n{job.said()}")
        seconds = time.monotonic() - start
        for process in frozen:
            os.kill(process, signal.SIGKILL)
        wait_until(lambda: not any(lives(rank) for rank in ranks), "the frozen rank to be gone")
        said = re.search(SAID, job.said())
        if not said and "completed after" in job.said():
            return None
        assert said, f"{fault}: nobody says what was lost\n{job.said()}"
        return seconds
    finally:
        job.end()
        hosts.cable("up")
        wait_until(lambda: not hosts.listening(0) | hosts.listening(1), "all ports to be free")


def main():
    dice = random.Random(SEED)
    took = []
    with tempfile.TemporaryDirectory() as name, Hosts() as hosts:
        folder = Path(name)
        (folder / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
        whole = train(hosts, folder, "straight", 1)
        wanted = digest(folder / "straight", UPDATES)
        for number in range(FAULTS):
            fault = list(FAULTS_OF)[number % len(FAULTS_OF)] if FAULTS > 2 else dice.choice(list(FAULTS_OF))
            local_ranks = dice.choice((1, 2))
            victim, after = dice.randrange(2 * local_ranks), dice.uniform(0, whole)
            output = f"fault-{number}"
            seconds = disturb(hosts, folder, output, fault, local_ranks, victim, after)
            print(f"{number}: {fault}, {2 * local_ranks} ranks, rank {victim}, {after:.1f} s after the start: ",
                  "the run was over" if seconds is None else f"all ended after {seconds:.1f} s", flush=True)
            took += [] if seconds is None else [seconds]
            train(hosts, folder, output, dice.choice((1, 2)))
            assert digest(folder / output, UPDATES) == wanted, f"{fault}: went on to other bytes"
            shutil.rmtree(folder / output)
    if took:
        print(f"{len(took)} faults: the last rank ended after {statistics.median(took):.1f} s in the median, {max(took):.1f} s at most")


if __name__ == "__main__":
    leave_if_there_can_be_none()
    if not (shutil.which("torchrun", path=os.path.dirname(sys.executable)) or shutil.which("torchrun")):
        sys.exit(NOT_RUN)
    main()
