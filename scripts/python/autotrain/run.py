"""A run folder, read."""

import html
import json
import tempfile
from pathlib import Path

from . import program
from .errors import Error, StepError


def as_table(rows):
    """A pandas table where pandas is there, else a dictionary of columns."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    try:
        import pandas
    except ImportError:
        return columns
    return pandas.DataFrame(columns)


def standing(rows):
    """Without updates that a rollback took back."""
    kept = []
    for row in rows:
        if row.get("kind") == "event" and row.get("event") == "rollback":
            kept = [earlier for earlier in kept if earlier["kind"] == "event" or earlier["update"] <= row["update"]]
        kept.append(row)
    return kept


def eager(module):
    """The module that torch.compile wraps."""
    import torch  # which reading a run does without
    module = getattr(module, "_orig_mod", module)
    if not isinstance(module, torch.nn.Module):
        raise StepError("module", f"is a {type(module).__name__}", "give a torch.nn.Module")
    return module


def differing(weights, own):
    """In shape, in words."""
    return [f"{name} of {list(weight.shape)} where this has {list(own[name].shape)}"
            for name, weight in weights.items() if weight.shape != own[name].shape]


def weights_of(module):
    """Parameters and buffers by name; a state has also what modules say of themselves (`get_extra_state`)."""
    return {name: value for name, value in module.state_dict().items()
            if hasattr(value, "data_ptr") and not name.endswith("_extra_state")}


def damaged(place, content):
    start = content[:40].decode(errors="replace")
    return Error(place, f"is damaged: it holds {start!r}", "put the file back from a copy of the run, or resume the run")


def parsed(content, place):
    """An object of JSON. @param place: where the bytes stand."""
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise damaged(place, content)
    return found


class Run:
    """What a run left in its folder, or has left so far: it is read anew each time."""

    def __init__(self, path):
        self.path = Path(path).resolve()
        self._check()

    def _check(self):
        if not (self.path / "recipe.yaml").is_file():
            raise Error(str(self.path), "is no run folder: it has no recipe.yaml", "give the folder that --output named, or runs/NAME-1")

    def _bytes(self, name):
        """Of a file; None where the run has not written it."""
        self._check()
        file = self.path / name
        return file.read_bytes() if file.is_file() else None

    def _json(self, name):
        content = self._bytes(name)
        return None if content is None else parsed(content, str(self.path / name))

    @property
    def summary(self):
        """How it ended; None while it runs."""
        return self._json("summary.json")

    @property
    def plan(self):
        return self._json("plan.json")

    @property
    def recipe(self):
        """Its text, every key spelled out."""
        content = self._bytes("recipe.yaml")
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise damaged(str(self.path / "recipe.yaml"), content[error.start:]) from error

    @property
    def page(self):
        """The page with its plots; None before its end."""
        file = self.path / "report.html"
        return file if file.is_file() else None

    def rows(self, kind):
        """Rows of metrics.jsonl as dictionaries. The last line may still be being written."""
        lines = (self._bytes("metrics.jsonl") or b"").split(b"\n")[:-1]
        rows = [parsed(line, f"{self.path / 'metrics.jsonl'}:{number}") for number, line in enumerate(lines, 1)]
        return [row for row in standing(rows) if row["kind"] == kind]

    @property
    def metrics(self):
        """A row for each update."""
        return as_table(self.rows("update"))

    @property
    def evaluations(self):
        return as_table(self.rows("evaluation"))

    @property
    def events(self):
        return as_table(self.rows("event"))

    def load_into(self, module):
        """Gives the module the weights that were trained, by name. @return the module."""
        from safetensors.torch import load_file
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "weights.safetensors"
            program.call("export", "--run", self.path, "--output", file)
            weights = load_file(file)
        plain = eager(module)
        own = weights_of(plain)
        strange = sorted(set(weights) - set(own))
        given = {own[name].data_ptr() for name in weights if name in own}
        missing = sorted(name for name in set(own) - set(weights) if own[name].data_ptr() not in given)
        if strange or missing:
            raise Error(str(self.path), f"its weights are not this module's: it has {', '.join(strange[:3]) or 'nothing more'}, "
                        f"and lacks {', '.join(missing[:3]) or 'nothing'}", "give the module that was trained")
        if others := differing(weights, own):
            raise Error(str(self.path), f"its weights are not this module's: it has {', '.join(others[:3])}",
                        "give the module that was trained")
        plain.load_state_dict(weights, strict=False)
        return module

    def __repr__(self):
        summary = self.summary or {}
        figures = ", ".join(f"{name} {value:.4g}" for name, value in (summary.get("final") or {}).items() if value is not None)
        return f"<autotrain.Run {self.path}: {summary.get('status', 'running')}, {summary.get('updates', '?')} updates, {figures}>"

    def _repr_html_(self):
        if self.page is None:
            return f"<code>{html.escape(repr(self))}</code>"
        return f'<iframe srcdoc="{html.escape(self.page.read_text(encoding="utf-8"))}" width="100%" height="700" frameborder="0"></iframe>'
