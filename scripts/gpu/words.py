"""Figures in words, for tables and progress."""
import place  # which finds measure
import measure

MISSING = "–"


def scaled(value, unit, step=1000, prefixes=("", "k", "M", "G", "T", "P")):
    """1.23e9 → "1.23 G<unit>"."""
    if value is None:
        return MISSING
    for prefix in prefixes:
        if abs(value) < step or prefix == prefixes[-1]:
            return f"{value:.3g} {prefix}{unit}".rstrip() if value < 100 else f"{value:.0f} {prefix}{unit}".rstrip()
        value /= step
    return MISSING


def memory(count):
    return scaled(count, "B", 1024, ("", "Ki", "Mi", "Gi"))


def number(value, digits=3):
    return MISSING if value is None else f"{value:.{digits}g}" if value < 10 ** digits else f"{value:.0f}"


def fraction(value):
    return MISSING if value is None else f"{value:.2f}"


def percent(value):
    return MISSING if value is None else f"{100 * value:.1f} %"


def yes(value):
    return {True: "yes", False: "NO", None: MISSING}[value]


def spread(ratio):
    """Median [least, largest] of a ratio, where there is one."""
    return measure.text(ratio) if ratio else MISSING
