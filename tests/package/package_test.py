#!/usr/bin/env python3
"""Installs the package, moves it, builds a user's program against it where it lies now, and runs that. Libraries that
are missing are named all at once.

    package_test.py path/to/build path/to/project path/to/torch [path/to/cuda/toolkit]
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def run(*command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stdout[-6000:]}\n{result.stderr[-6000:]}")
    return result.stdout


def check_missing(project, torch, folder, environment):
    """Two libraries that CMake is kept from finding."""
    hidden = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("spdlog", "TIFF")]
    result = subprocess.run(["cmake", "-S", project, "-B", folder, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={torch}", *hidden],
                            capture_output=True, text=True, env=environment)
    said = " ".join(result.stderr.split())
    if result.returncode == 0 or "autotrain needs spdlog, TIFF; on Debian: apt-get install libspdlog-dev libtiff-dev" not in said:
        sys.exit(f"missing libraries are not named together:\n{result.stderr[-3000:]}")


def main():
    build, project, torch = (Path(argument).resolve() for argument in sys.argv[1:4])
    compiler = {"CUDACXX": f"{path}/bin/nvcc" for path in sys.argv[4:]}
    with tempfile.TemporaryDirectory() as temporary:
        first, moved, consumer, own, readme = (Path(temporary, name) for name in ("first", "moved", "consumer", "own", "readme"))
        run("cmake", "--install", build, "--prefix", first)
        shutil.move(first, moved)
        for text in moved.rglob("*.cmake"):
            content = text.read_text().replace(str(torch), "")  # which may be named, and is looked for there
            for path in (str(first), str(project), str(build)):
                if path in content:
                    sys.exit(f"{text} names {path}")
        tests = project / "tests"
        readme.mkdir()
        program = re.search(r"```cpp\n(.*?)```", (project / "README.md").read_text(), re.DOTALL)
        (readme / "readme.cpp").write_text(program[1])
        for source, built in ((tests / "package" / "consumer", consumer), (tests / "own_program", own)):
            run("cmake", "-S", source, "-B", built, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                f"-DCMAKE_PREFIX_PATH={moved}", f"-DREADME_PROGRAM={readme}/readme.cpp", env={**os.environ, **compiler})
            run("cmake", "--build", built)
        output = run(consumer / "consumer", project / "tests" / "package" / "consumer" / "recipe.yaml", consumer / "run",
                     env={**os.environ, "CI": "1"})
        print(output, end="")
        match = re.fullmatch(r"(\d+) x (\d+), 150 updates, callback, accuracy ([\d.]+)\n"
                             r"batch 1 measured\nbatch 16 measured\n", output)
        if not match or int(match[1]) * int(match[2]) < 64 or float(match[3]) < 0.9:
            sys.exit(f"unexpected output: {output!r}")
        if not (consumer / "run" / "checkpoints" / "update-150" / "model.safetensors").exists():
            sys.exit("no checkpoint was written")
        run(own / "own_program", "train", "--config", project / "tests" / "own_program" / "rings.yaml", "--output",
            own / "run", env={**os.environ, "CI": "1"})
        output = run(consumer / "readme", cwd=readme, env={**os.environ, "CI": "1"})
        match = re.search(r"\d+ x \d+, accuracy ([\d.]+)\n$", output)
        if not match or float(match[1]) < 0.9:
            sys.exit(f"README's program says {output!r}")
        print(run(moved / "bin" / "autotrain", "--version"), end="")
        check_missing(project, torch, Path(temporary, "missing"), {**os.environ, **compiler})


if __name__ == "__main__":
    main()
