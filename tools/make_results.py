#!/usr/bin/env python3
"""make_results.py [--check]: docs/RESULTS.md and the charts in docs/images, from the rows of bench/results/*.jsonl.

bench/results/README.md says what a row holds. Of each case, machine and variant the newest row counts (the last of its
file). --check writes nothing and fails where a file is older than the rows. Standard library only."""
import argparse
import html
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
UNITS = {"ms": "ms", "gib": "GiB", "ops": "ops", "per_s": "samples/s"}
HEAD = """# Results

The newest figure of each case that has a bar, from [rows](../bench/results/README.md) with command and spread, in turns
with the opponent; "faster" is its time divided by Lathe's. What limits a device: [performance](performance.md).
"""


def load(root):
    """(machine → row, rows of all other files in their order)"""
    machines, rows = {}, []
    for path in sorted((root / "bench" / "results").glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            row = json.loads(line)
            if path.stem == "machines":
                machines[row["machine"]] = row
            else:
                rows.append(dict(row, place=f"{path.name}:{number}"))
    return machines, rows


def newest(rows):
    found = {}
    for row in rows:
        found[row["case"], row["machine"], row.get("variant", "")] = row
    return list(found.values())


def both_sides(row):
    """(unit, Lathe's, the opponent's) of a row that has both."""
    for unit in UNITS:
        if f"lathe_{unit}" in row and f"torch_{unit}" in row:
            return unit, row[f"lathe_{unit}"], row[f"torch_{unit}"]
    return None


def met(row):
    """Whether the row is at its bar; None without one. A range counts by its worse end."""
    sides = both_sides(row)
    ratio = row.get("ratio", row.get("ratio_low"))
    if "bar_ratio" in row:
        return ratio >= row["bar_ratio"]
    if "bar_share" in row:
        share = row["share_of_torch"] if "share_of_torch" in row else sides[1] / sides[2] if sides else 1 / ratio
        return share <= row["bar_share"]
    if "bar_min" in row:
        return row.get("value", row.get("value_low")) >= row["bar_min"]
    if "bar_max" in row:
        return row.get("value", row.get("value_high")) <= row["bar_max"]
    return None


def number(value):
    if isinstance(value, int) or value >= 1000:
        return f"{value:,.0f}"
    return f"{value:g}" if value >= 1 else f"{value:.3f}".rstrip("0").rstrip(".")


def spread(low, high):
    return number(low) if low == high else f"{number(low)} to {number(high)}"


def times(row):
    if "ratio" in row:
        return f"{number(row['ratio'])}×"
    return spread(row["ratio_low"], row["ratio_high"]) + "×"


def value(row):
    return number(row["value"]) if "value" in row else spread(row["value_low"], row["value_high"])


def bar(row):
    if "share_of_torch" in row:
        return f"≤ {number(row['bar_share'])}" if "bar_share" in row else ""
    if "bar_ratio" in row:
        return f"{number(row['bar_ratio'])}×"
    if "bar_share" in row:
        return f"{number(round(1 / row['bar_share'], 2))}×"
    if "bar_min" in row:
        return f"≥ {number(row['bar_min'])}"
    return f"≤ {number(row['bar_max'])}" if "bar_max" in row else ""


def joined(parts):
    """Variants next to each other; once where all are alike."""
    parts = list(parts)
    return parts[0] if len(set(parts)) == 1 else " / ".join(part or "–" for part in parts)


def verdict(rows):
    states = [met(row) for row in rows]
    if all(state is None for state in states):
        return ""
    short = [row.get("variant") for row, state in zip(rows, states) if state is False]
    return "yes" if not short else "no" if len(short) == len(states) else "no: " + ", ".join(short)


def grouped(rows):
    """Rows of one case and machine together, in their order."""
    groups = {}
    for row in rows:
        groups.setdefault((row["case"], row["machine"]), []).append(row)
    return groups.values()


def case(rows):
    variants = [row["variant"] for row in rows if "variant" in row]
    return rows[0]["case"] + (": " + " / ".join(variants) if variants else "")


def table(head, lines):
    rule = "|" + " --- |" * len(head)
    return "\n".join(["| " + " | ".join(head) + " |", rule, *("| " + " | ".join(line) + " |" for line in lines)]) + "\n"


def opponents(rows, name):
    """Both sides of a group, with the unit once."""
    sides = [both_sides(row) for row in rows]
    if not all(sides):
        return ""
    return " / ".join(number(side[name]) for side in sides) + " " + UNITS[sides[0][0]]


def over_hosts(row, rows):
    """Least and most ratio of the case on all hosts of this kind, where several rows tell."""
    ratios = [other["ratio"] for other in rows if "ratio" in other and
              all(other.get(key) == row.get(key) for key in ("case", "machine", "variant"))]
    return f" ({spread(min(ratios), max(ratios))} on {len(ratios)} hosts)" if len(ratios) > 3 else ""


def against(machines, rows, every):
    order = list(machines)
    groups = sorted(grouped(rows), key=lambda group: order.index(group[0]["machine"]))
    return table(("machine", "case", "Lathe", "opponent", "its figure", "faster", "bar", "met"), [
        (machines[group[0]["machine"]]["name"], case(group), opponents(group, 1), group[0]["opponent"], opponents(group, 2),
         " / ".join(times(row) + over_hosts(row, every) for row in group), joined(bar(row) for row in group), verdict(group))
        for group in groups])


def alone(machines, rows):
    """A line for each case, with all machines."""
    def figure(group):
        figures = " / ".join(number(row["share_of_torch"]) if "share_of_torch" in row else value(row) for row in group)
        variants = " / ".join(row["variant"] for row in group if "variant" in row)
        return (f"{machines[group[0]['machine']]['name']} {figures} {group[0].get('unit', '')}".rstrip()
                + (f" ({variants})" if variants else ""))

    cases = {}
    for group in grouped(rows):
        cases.setdefault(group[0]["case"], []).append(group)
    lines = []
    for name, groups in cases.items():
        short = [machines[group[0]["machine"]]["name"] for group in groups if verdict(group) not in ("", "yes")]
        lines.append((name, "; ".join(figure(group) for group in groups),
                      " / ".join(dict.fromkeys(bar(row) for group in groups for row in group)),
                      "no: " + ", ".join(short) if short else "yes"))
    return table(("what", "measured", "bar", "met"), lines)


def right(machines, rows):
    def found(row):
        return "holds" if row.get("holds") else f"{row['passed']:,} passed, {row['failed']:,} failed"

    return table(("what", "command", "machine", "found"),
                 [(row["case"], f"`{row['command']}`", machines[row["machine"]]["name"], found(row)) for row in rows])


def scores(machines, rows):
    def mean(row, side):
        values = row.get(f"{side}_scores")
        return f"{sum(values) / len(values) if values else row[f'{side}_mean']:.4f}"

    def limits(row):
        values = row.get("trainer_scores", [row.get("trainer_low"), row.get("trainer_high")])
        return f"{min(values):.4f} to {max(values):.4f}"

    def each(group, figure, *more):
        return " / ".join(figure(row, *more) for row in group)

    return table(("task", "machine", "Lathe, mean", "the Trainer, mean", "its seeds"),
                 [(case(group), machines[group[0]["machine"]]["name"], each(group, mean, "lathe"),
                   each(group, mean, "trainer"), each(group, limits)) for group in grouped(rows)])


def page(machines, rows):
    """What has a bar, and what was checked."""
    last = [row for row in newest(rows) if met(row) is not None or row["subject"] in ("right", "scores")]
    used = {row["machine"] for row in last}

    def of(subject):
        return [row for row in last if row["subject"] == subject]

    return "\n".join([
        HEAD, "## Machines", table(("name", "what"), [(row["name"], row["what"]) for name, row in machines.items() if name in used]),
        "## Against others", against(machines, of("against"), rows), "## Memory, start, threads", alone(machines, of("alone")),
        "## Right", right(machines, of("right")), "Scores of all-MiniLM-L6-v2 over seeds, after three epochs in bf16 where nothing else is said:\n",
        scores(machines, of("scores"))])


# What the README shows: (machine, title, [(label, case, variant)])
CHART = [
    ("h200", "NVIDIA H200", [("MRPC, MiniLM, against the Trainer", "MRPC and SQuAD, bf16", "MRPC, MiniLM"),
                             ("SQuAD, BERT-base, against the Trainer", "MRPC and SQuAD, bf16", "SQuAD, BERT-base"),
                             ("a step, 32 × 128, against torch.compile", "step of BERT-base, bf16, compiled",
                              "32 × 128")]),
    ("amx16", "16 cores with AMX", [("MRPC, MiniLM, against the Trainer", "MRPC, an epoch, bf16", "MiniLM"),
                                    ("MRPC, BERT-base, against the Trainer", "MRPC, an epoch, bf16", "BERT-base"),
                                    ("a step, 8 × 128, against PyTorch", "step of BERT-base, bf16", "8 × 128")]),
    ("zen4", "2 cores of Zen 4", [("MRPC, MiniLM, against the Trainer", "MRPC, an epoch, bf16", "MiniLM"),
                                  ("MRPC, BERT-base, against the Trainer", "MRPC, an epoch, bf16", "BERT-base"),
                                  ("a step, 8 × 128, against PyTorch", "step of BERT-base, 8 × 128", "bf16")]),
]
COLOURS = {"light": dict(ink="#1c2127", soft="#59636e", bar="#0b57a4", line="#d9dde3", paper="#ffffff"),
           "dark": dict(ink="#dfe3e8", soft="#9aa4af", bar="#5aa2ea", line="#38404a", paper="#15181c")}


def chart(rows, colours):
    """Bars of how many times faster Lathe is, for three machines; a range is drawn to its lower end."""
    last = {(row["case"], row["machine"], row.get("variant", "")): row for row in newest(rows)}
    width, label, right_edge, y, parts = 760, 290, 640, 58, []
    figures = [[(text, last[name, machine, variant]) for text, name, variant in bars] for machine, _, bars in CHART]
    most = max(row.get("ratio", row.get("ratio_low")) for bars in figures for _, row in bars)
    scale = (right_edge - label) / most
    for (_, title, _), bars in zip(CHART, figures):
        parts.append(f'<text x="16" y="{y}" class="head">{html.escape(title)}</text>')
        for text, row in bars:
            y += 26
            ratio = row.get("ratio", row.get("ratio_low"))
            parts.append(f'<text x="{label - 10}" y="{y + 4}" class="label">{html.escape(text)}</text>'
                         f'<rect x="{label}" y="{y - 9}" width="{ratio * scale:.1f}" height="17" rx="2"/>'
                         f'<text x="{label + ratio * scale + 7:.1f}" y="{y + 4}" class="figure">{times(row)}{over_hosts(row, rows)}</text>')
        y += 38
    one, bottom = label + scale, y - 22
    parts.append(f'<line x1="{one:.1f}" y1="44" x2="{one:.1f}" y2="{bottom}"/>'
                 f'<text x="{one:.1f}" y="{bottom + 15}" class="one">1× = as fast as the opponent</text>')
    style = (f"text {{ font: 13px system-ui, sans-serif; fill: {colours['ink']} }} .head {{ font-weight: 600 }} "
             f".label {{ text-anchor: end; fill: {colours['soft']} }} .figure {{ font-weight: 600 }} "
             f".one {{ font-size: 11px; fill: {colours['soft']} }} rect {{ fill: {colours['bar']} }} "
             f"line {{ stroke: {colours['soft']}; stroke-dasharray: 3 3 }} .paper {{ fill: {colours['paper']} }}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + 28}" role="img" '
            f'aria-label="How many times faster Lathe is">\n<style>{style}</style>\n'
            f'<rect class="paper" width="{width}" height="{bottom + 28}" rx="6"/>\n'
            '<text x="16" y="28" class="head">Times faster, bf16: Lathe against PyTorch on the same machine</text>\n'
            + "\n".join(parts) + "\n</svg>\n")


def made(root):
    """Path → text of each file that follows from the rows."""
    machines, rows = load(root)
    files = {root / "docs" / "RESULTS.md": page(machines, rows)}
    for theme, colours in COLOURS.items():
        files[root / "docs" / "images" / f"faster_{theme}.svg"] = chart(rows, colours)
    return files


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    old = 0
    for path, text in made(ROOT).items():
        if arguments.check:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                print(f"{path.relative_to(ROOT)} is older than bench/results: run tools/make_results.py", file=sys.stderr)
                old = 1
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return old


if __name__ == "__main__":
    sys.exit(main())
