"""A recipe as a program in Python has it: a dictionary, or a file, with keys of ours in it."""

import copy
import json
from pathlib import Path, PurePath

from .errors import Error, StepError


def read(recipe):
    """@return its keys, with the files that it extends by their whole paths: it is written to another folder."""
    if isinstance(recipe, dict):
        return at(recipe, Path.cwd())
    if not isinstance(recipe, (str, PurePath)):
        raise StepError("recipe", f"is a {type(recipe).__name__}", "give a dictionary of keys, or the path of a file with them")
    import yaml
    found = yaml.safe_load(Path(recipe).read_text())
    if not isinstance(found, dict):
        raise Error(str(recipe), "is no recipe: it has no keys", "see configs/reference.yaml")
    return at(found, Path(recipe).resolve().parent)


def at(recipe, folder):
    """@param folder: that files are relative to."""
    named = recipe.get("extends")
    if isinstance(named, (str, PurePath)):
        return {**recipe, "extends": str(folder / named)}
    return {**recipe, "extends": [str(folder / name) for name in named]} if isinstance(named, (list, tuple)) else recipe


def merged(recipe, own, within=""):
    """The recipe with these keys of ours in it, section by section."""
    result = copy.deepcopy(recipe)
    for key, value in own.items():
        if not isinstance(value, dict):
            result[key] = value
            continue
        section = result.get(key) or {}
        if not isinstance(section, dict):
            raise StepError(f"{within}{key}", f"is {section!r} in the recipe, and has keys there, which train gives itself", "leave it out")
        result[key] = merged(section, value, f"{within}{key}.")
    return result


def simple(value):
    """What JSON has no word for: numbers of NumPy and PyTorch, arrays of them, and paths."""
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise StepError("recipe", f"has a {type(value).__name__} in it, {value!r}", "give numbers, texts, lists and dictionaries")


def written(recipe):
    return json.dumps(recipe, default=simple)
