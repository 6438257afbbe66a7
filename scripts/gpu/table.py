"""All that a campaign's folder holds, as Markdown."""
import json


def stage_table(stage, results):
    """A table of the rows that have figures, and the rows that say why they have none."""
    lines = [f"## {results['stage']}", "", stage.sentence[0].upper() + stage.sentence[1:] + ".", ""]
    good = [row for row in results["rows"] if "error" not in row]
    header = None
    for row in good:
        cells = {"cell": row["cell"], **stage.columns(row)}
        if header is None:
            header = list(cells)
            lines += [line_of(header), line_of(["---"] * len(header))]
        lines.append(line_of(cells.values()))
    failed = [row for row in results["rows"] if "error" in row]
    lines += ["Nothing yet."] if not results["rows"] else [""] if good and failed else []
    lines += [f"- {row['cell']}: {row['error']}" for row in failed]
    return lines


def line_of(values):
    return "| " + " | ".join(str(value).replace("|", "\\|") for value in values) + " |"


def missing_of(results):
    """What has no figure yet, of one stage, in words."""
    failed = [row["cell"] for row in results["rows"] if "error" in row]
    parts = [f"{len(failed)} failed ({', '.join(failed)})"] if failed else []
    parts += [f"{len(results['left'])} not measured ({', '.join(results['left'])})"] if results["left"] else []
    return f"{results['stage']}: {', '.join(parts)}" if parts else ""


def markdown(folder, stages):
    paths = [folder / f"{name}.json" for name in stages]
    found = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]
    if not found:
        return "Nothing was measured.\n"
    first = found[0]
    name = first["machine"].get("gpu") or first["machine"]["cpu"]
    rehearsal = ", tiny sizes for a rehearsal" if first["quick"] else ""
    lines = [f"# Campaign on {name}", "", f"Device {first['device']}, {first['machine']['cores']} cores, "
             f"{first['machine']['date']}, commit {first['commit']}{rehearsal}."]
    for results in found:
        lines += ["", *stage_table(stages[results["stage"]], results)]
    missing = [words for words in map(missing_of, found) if words]
    missing += [f"{name}: not begun" for name in stages if name not in {results["stage"] for results in found}]
    lines += ["", "Without figures: " + "; ".join(missing) + "." if missing else "Every cell has figures.", ""]
    return "\n".join(lines)


PROMISED = ("right", "both_confirmed", "within_budget", "same_bits", "no_trace")


def fault_of(row):
    """What is wrong with a row that has figures, in a word; empty: nothing."""
    if row.get("failed"):
        return "WRONG"
    ours = row.get("side", "autotrain") == "autotrain"  # what a peer does is its own affair
    broken = [key for key in (*PROMISED, "survived") if ours and row.get(key) is False]
    return f"WRONG ({', '.join(broken)})" if broken else ""


def outcome(cells, results, folder):
    """A line for each cell of a preset: how it ended and how long it took."""
    lines, seconds = [], 0.0
    for stage, cell in cells:
        row = results[stage].rows.get(cell.name)
        word = "left" if row is None else "FAILED" if "error" in row else fault_of(row) or "ok"
        spent = row["cell_seconds"] if row else 0
        seconds += spent
        lines.append(f"{word:8} {spent:5.0f} s  {stage}: {cell.name}")
    return "\n".join([*lines, f"{len(cells)} cells, {seconds:.0f} s; tables in {folder}/table.md"])
