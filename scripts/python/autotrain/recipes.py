"""A recipe as a program in Python has it: a dictionary, or a file, with keys of ours in it.

A file is read by the program alone, whose rules are its own: what is written here extends it."""

import copy
import json
import os
import re
from pathlib import Path, PurePath

from .errors import Error, StepError


def read(recipe):
    """@return its keys, with the files that it extends as a list of whole paths: it is written to another folder."""
    if isinstance(recipe, dict):
        return {**recipe, "extends": extended(recipe.get("extends"), Path.cwd())}
    if not isinstance(recipe, (str, PurePath)):
        raise StepError("recipe", f"is a {type(recipe).__name__}", "give a dictionary of keys, or the path of a file with them")
    if not Path(recipe).is_file():
        raise Error(str(recipe), "is not a file", "give the path of a recipe, or a dictionary of its keys")
    return {"extends": [literal(str(Path.cwd() / recipe))]}


def extended(named, folder):
    """@param folder: that files are relative to, unless a variable says where they are."""
    names = [named] if isinstance(named, (str, PurePath)) else list(named) if isinstance(named, (list, tuple)) else [named]
    return [os.path.join(literal(str(folder)), name) if isinstance(name, (str, PurePath)) and not str(name).startswith("${") else name
            for name in names if name is not None]


def literal(value):
    """What the program reads as these texts: a dollar sign stands for a variable there."""
    if isinstance(value, dict):
        return {key: literal(part) for key, part in value.items()}
    if isinstance(value, list):
        return [literal(part) for part in value]
    return value.replace("$", "$$") if isinstance(value, str) else value


def name_of(recipe, module):
    """What its run is called where no name is written in a file."""
    if not isinstance(recipe, dict):
        return Path(recipe).stem
    name = recipe.get("name")
    return type(module).__name__.lower() if name is None else str(name)


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
    try:
        return json.dumps(recipe, default=simple, ensure_ascii=False)
    except (TypeError, ValueError) as error:  # keys that are no texts, and what holds itself
        raise StepError("recipe", f"cannot be written: {error}", "give numbers, texts, lists and dictionaries, by texts as keys") from error


def write(recipe, own, name, folder):
    """The file that the program is given. @param recipe: as `read` gives it. @param own: keys that win over the recipe's, and over
    those of files that it extends. @param name: of the run, where none of them has one."""
    defaults, file = folder / "defaults.json", folder / "recipe.json"
    whole = {**merged(recipe, literal(own)), "extends": [literal(str(defaults)), *recipe["extends"]]}
    for place, keys in ((defaults, {"name": literal(name)}), (file, whole)):
        place.write_text(written(keys), encoding="utf-8", errors="surrogateescape")
    return file


def with_places(said, file):
    """What the program said of the file that was written, which is gone afterwards, as of the dictionary that it was made of."""
    return re.sub(re.escape(str(file)) + r"(:\d+:\d+)?", "the recipe", said)
