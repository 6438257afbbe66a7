"""What a search found."""

from collections import namedtuple

from .pieces import of_one, pieces

Trial = namedtuple("Trial", "micro_batch outcome fits confirmed peak_bytes fill seconds samples_per_second words")


def in_bytes(count):
    """"1.25 GiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count} B" if unit == "B" else f"{count:.3g} {unit}" if count < 1000 else f"{count:.0f} {unit}"
        count /= 1024


def table(rows):
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in rows)


class Plan:
    """A micro-batch that fits, how many make an update, and the trials that show it. A value; printed it is a table."""

    def __init__(self, answer, minimum=1, ranks=None, known=None):
        plan = answer["plan"]
        self.json = plan
        self.micro_batch, self.window = plan["micro_batch"], plan["window"]
        self.ranks = ranks.count if ranks is not None else 1
        self.effective_batch = plan["effective_batch"] * self.ranks
        self.budget_bytes, self.budget_source = plan["budget_bytes"], plan["budget_source"]
        self.peak_bytes, self.fill, self.confirmed = plan["peak_bytes"], plan["fill"], plan["confirmed"]
        self.capacity = plan["search"]["micro_batch"]
        self.seconds = plan["search"]["seconds"]
        self.samples_per_second = plan["samples_per_second"]
        self.device, self.device_name = plan["device"], plan["device_name"]
        self.reason, self.said, self.cut = answer["reason"], answer["said"], answer["cut_in_words"]
        self.carried_bytes = answer["carried_bytes"]
        self.trail = [Trial(probe["micro_batch"], row["outcome"], probe["fits"], probe["confirmed"], probe["peak_bytes"],
                            probe["fill"], probe["seconds"], probe["samples_per_second"], row["words"])
                      for probe, row in zip(plan["search"]["probes"], answer["trail"])]
        self._minimum, self._known = minimum, known or {}
        self._of_all = ranks.mean if self.ranks > 1 else of_one

    def pieces(self, batch, count=None):
        """Cuts a batch of any size into micro-batches: `for piece, weight in plan.pieces(batch)`, where `weight` times the
        piece's mean loss adds up to that of the batch. Of several ranks each cuts its own share, all at the same time: they
        tell each other how much theirs count, and the mean of their gradients is that of all shares together.
        @param count: of the targets that a loss is the mean of."""
        return pieces(batch, self.micro_batch, count=count, minimum=self._minimum, of_all=self._of_all, known=self._known)

    def of_ranks(self):
        return f", {self.effective_batch // self.ranks} on each of {self.ranks} ranks" if self.ranks > 1 else ""

    def __str__(self):
        band = " to ".join(f"{100 * edge:.0f}" for edge in self.json["target"])
        rows = [("micro-batch", f"{self.micro_batch} samples, the most in one forward and backward pass"),
                ("window", f"{self.window} micro-batch{'es' if self.window > 1 else ''} an update, {self.cut}"),
                ("effective", f"{self.effective_batch} samples an update{self.of_ranks()}"),
                ("peak", f"{in_bytes(self.peak_bytes)} of {in_bytes(self.budget_bytes)}, {100 * self.fill:.1f} % "
                         f"(the band is {band} %)"),
                ("budget", f"{self.budget_source}; {in_bytes(self.carried_bytes)} of it are weights and optimizer state"),
                ("capacity", f"{self.capacity} samples: {self.reason}"),
                ("device", f"{self.device}, {self.device_name}"),
                ("search", f"{len(self.trail)} trials in {self.seconds:.1f} s")]
        if self.said:
            rows.append(("note", self.said))
        rows += [(f"trial {number}", trial.words) for number, trial in enumerate(self.trail, 1)]
        return table(rows)

    def __repr__(self):
        return f"<autotrain.Plan micro_batch={self.micro_batch} window={self.window} effective={self.effective_batch}>"
