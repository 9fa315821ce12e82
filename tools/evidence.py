#!/usr/bin/env python3
"""Pages of long runs: `evidence.py NAME` prints a page with tables from its kept values, and `evidence.py NAME --run`
makes the runs first (`cargo xtask long NAME`). Each table is between two lines `<!-- TABLE: begin -->` and
`<!-- TABLE: end -->` of the page; the rest of the page is written by hand."""

import csv
import io
import json
import math
import random
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "crates/lab/results"


def page(path, **tables):
    """The page with new tables."""
    text = (ROOT / path).read_text()
    for name, table in tables.items():
        begin, end = (f"<!-- {name}: {place} -->\n" for place in ("begin", "end"))
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{table.strip()}\n\n{end}{rest.split(end)[1]}"
    return text


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def example(package, name, *options):
    return output("cargo", "run", "--release", "--quiet", "--package", package, "--example", name, "--", *options)


def rows(head, *lines):
    """A table with the alignment of the second line of `head`."""
    return "".join(f"{line}\n" for line in (*head, *lines))


def digits(value):
    """Three significant digits."""
    places = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:.{places}f}"


# Stress suite: every controller in every cell of the scenarios `stress/`.

STRESS = {
    "capacity": "Capacity falls for three minutes",
    "path": "Path and server in trouble, a download",
    "crowd": "Devices at once",
    "single": "One exchange a minute",
    "neighbour": "A neighbour with default CoAP",
    "observe": "Twenty observers of a device",
    "mesh": "Ten downloads over a mesh",
}
COLUMNS = ["default", "linux-rto-kernel", "cocoa-03", "fasor", "carob"]
MEASURES = ["delivered", "p50_s", "p95_s", "transmissions", "dropped", "neighbour_s"]
WORSE = 0.01  # share of requests that may be lost beyond those of default CoAP


#: Runs that decide whether a controller loses more beyond chance, by cell: one download a run, or a crowd.
DECIDING = {"stress/crowd-": "20", "stress/observe-": "20", "stress/mesh-": "20", "": "100"}
LOSSES = RESULTS / "stress-losses.csv"


def run_stress(options):
    """`--seeds N` (10); `--decide` repeats the decision about losses only."""
    seeds = options[1] if options[:1] == ["--seeds"] else "10"
    kept = RESULTS / "stress.csv"
    if options != ["--decide"]:
        measured = {}
        for scenario in STRESS:
            for row in lab_run(f"stress/{scenario}", seeds):
                add_metric(measured.setdefault((row["scenario"], row["algorithm"]), {}), row)
        lines = [f"# {seeds} seeds a cell and controller", ",".join(["cell", "controller", *MEASURES])]
        for (cell, controller), values in measured.items():
            shown = [f"{float(values[name]):.4f}" if name in values else "" for name in MEASURES]
            lines.append(",".join([cell, controller, *shown]))
        kept.write_text("\n".join(lines) + "\n")
    _, measured = read_stress()
    lines = ["cell,controller,runs,default,delivered,half_width"]
    for cell, default in measured["default"].items():
        if any(own[cell].get("delivered", 0) < default["delivered"] - WORSE for own in measured.values()):
            runs = next(runs for prefix, runs in DECIDING.items() if cell.startswith(prefix))
            print(f"{cell}, {runs} runs", flush=True)
            lines += losses(lab_run(cell, runs))
    LOSSES.write_text("\n".join(lines) + "\n")


def lab_run(cells, seeds, algorithm="all", *options):
    """Metrics of all controllers."""
    # The profile of development compiles in a fraction of the time, and optimizes the simulator.
    text = output("cargo", "run", "--quiet", "--package", "carob-cli", "--", "lab", "run", cells, "--algorithm", algorithm, "--no-report",
                  "--csv", "--seeds", seeds, *options)
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def add_metric(values, row):
    simple = {"answered_ratio": "delivered", "transmissions_per_exchange": "transmissions", "dropped": "dropped", "pdr": "delivered"}
    if row["metric"] in simple:
        values[simple[row["metric"]]] = row["mean"]
    elif row["metric"] == "second_fct_s":
        values["neighbour_s"] = row["p50"]
    elif row["metric"] in ("response_time_s", "delay_s") or (row["metric"] == "fct_s" and "p50_s" not in values):
        # Times of single responses replace the time of all.
        values["p50_s"], values["p95_s"] = row["p50"], row["p95"]


def losses(metrics):
    """Rows of the controllers that deliver less than default CoAP, the first, by more than WORSE beyond chance: the interval
    of 95 % of the difference of the means is above it."""
    ratios = [(row, float(row["mean"]), float(row["ci95"])) for row in metrics if row["metric"] in ("answered_ratio", "pdr")]
    _, default, half_of_default = ratios[0]
    found = []
    for row, mean, half in ratios:
        half = math.hypot(half, half_of_default)
        if default - mean - half > WORSE:
            found.append(f"{row['scenario']},{row['algorithm']},{row['runs']},{default:.4f},{mean:.4f},{half:.4f}")
    return found


def example_row(algorithm, mean, half):
    return {"scenario": "a", "algorithm": algorithm, "runs": 100, "metric": "answered_ratio", "mean": mean, "ci95": half}


assert losses([example_row("default", 1, 0), example_row("rare", 0.98, 0.0279), example_row("small", 0.985, 0.006),
               example_row("sure", 0.65, 0.0951)]) == ["a,sure,100,1.0000,0.6500,0.0951"]


def read_stress():
    """The line about seeds, and values by controller and cell."""
    seeds, _, text = (RESULTS / "stress.csv").read_text().partition("\n")
    measured = {}
    for row in csv.DictReader(io.StringIO(text)):
        values = {name: float(row[name]) for name in MEASURES if row[name]}
        measured.setdefault(row["controller"], {})[row["cell"]] = values
    return seeds, measured


def stress():
    seeds, measured = read_stress()
    cells = list(measured["default"])
    text = f"{len(cells)} cells, {seeds.lstrip('# ')}.\n\n## All controllers\n\n"
    text += ("Beside default CoAP: cells in which more than one request in a hundred is delivered less, and more; the most that is "
             "delivered\nless in a cell; then geometric means of ratios, over the cells in which both deliver 99 %. Drops are of all "
             "cells, a run each.\n\n")
    head = ["| controller | cells worse | better | most lost | median time | p95 | transmissions | dropped | neighbour's time |",
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    text += rows(head, *(stress_row(name, measured[name], measured["default"]) for name in measured))
    text += ("\n## Controllers that deliver less than default CoAP\n\n"
             "Cells with a loss above ran again, with 100 runs of a transfer or 20 of a crowd. These controllers deliver less by more than a "
             "point beyond\nchance: the interval of 95 % is above one point. [`carob lab compare`](../../../docs/compare.md) does not recommend them;\nwhich lose observers (`observe`) or downloads over a `mesh`, it tries on one's own link.\n\n")
    head = ["| cell | controller | runs | `default` | delivered |", "|---|---|---:|---:|---:|"]
    lines = []
    for row in csv.DictReader(LOSSES.open()):
        default, delivered, half = (float(row[name]) * 100 for name in ("default", "delivered", "half_width"))
        cell = row["cell"].removeprefix("stress/")
        lines.append(f"| {cell} | `{row['controller']}` | {row['runs']} | {default:.1f} % | {delivered:.1f} % (± {half:.1f}) |")
    text += rows(head, *lines)
    for scenario, heading in STRESS.items():
        neighbour = ", median time of the neighbour's 60\nexchanges" if scenario == "neighbour" else ""
        text += f"\n## {heading}\n\nDelivered if not all, median time (p95) in seconds, transmissions of a message of the client (with Q-Block2 these are its few requests, not the blocks), packets dropped a run{neighbour}.\n\n"
        prefix = f"stress/{scenario}-"
        head = [f"| cell | {' | '.join(f'`{name}`' for name in COLUMNS)} |", f"|---{'|---' * len(COLUMNS)}|"]
        named = (cell for cell in cells if cell.startswith(prefix))
        text += rows(head, *(f"| {cell[len(prefix):]} | {' | '.join(stress_cell(measured[name].get(cell, {})) for name in COLUMNS)} |"
                             for cell in named))
    return page("crates/lab/results/stress.md", values=text)


def stress_row(name, own, default):
    pairs = [(own.get(cell, {}), default[cell]) for cell in default]
    shares = [(one.get("delivered", 0), other.get("delivered", 0)) for one, other in pairs]

    def ratio(measure):
        good = (pair for pair, share in zip(pairs, shares) if min(1, *share) > 1 - WORSE)
        ratios = [one[measure] / other[measure] for one, other in good if one.get(measure) and other.get(measure)]
        return math.exp(sum(map(math.log, ratios)) / max(len(ratios), 1))

    counts = [sum(one < other - WORSE for one, other in shares), sum(one > other + WORSE for one, other in shares)]
    most = max(0.0, *(other - one for one, other in shares))
    times = [f"{ratio(measure):.2f}" for measure in ("p50_s", "p95_s", "transmissions")]
    dropped = sum(one.get("dropped", 0) for one, _ in pairs)
    values = [f"`{name}`", *map(str, counts), f"{most * 100:.0f} %", *times, f"{dropped:.0f}", f"{ratio('neighbour_s'):.2f}"]
    return f"| {' | '.join(values)} |"


def stress_cell(values):
    parts = []
    delivered = values.get("delivered", 0) * 100
    if delivered < 99.95:
        parts.append(f"**{delivered:.1f} %**")
    if "p50_s" in values and "p95_s" in values:
        parts.append(f"{digits(values['p50_s'])} ({digits(values['p95_s'])})")
    if "transmissions" in values:
        parts.append(f"{values['transmissions']:.2f}")
    if values.get("dropped", 0) >= 0.5:
        parts.append(f"{values['dropped']:.0f} dropped")
    if "neighbour_s" in values:
        parts.append(f"neighbour {digits(values['neighbour_s'])}")
    return ", ".join(parts)


# Models of links beside measurements.

QUANTITIES = {
    "loss_run": "mean run of losses", "loss_round": "loss of round trips", "outage_mean": "mean outage", "outage_time": "time in outages",
    "no_delivery_down": "half-seconds without delivery, down", "no_delivery_up": "half-seconds without delivery, up",
}


def run_links(options):
    (RESULTS / "links.csv").write_text(example("carob-lab", "link_validation", *options))


def quantity(name):
    kind, _, rest = name.partition("_")
    if name in QUANTITIES:
        return QUANTITIES[name]
    if kind in ("rtt", "delay"):
        return f"{'round trip' if kind == 'rtt' else 'one-way delay'} {rest}"
    if kind == "no":
        return f"their mean run, {name.rsplit('_', 1)[1]}"
    if kind == "outage":
        return "time in outages"
    return f"{kind}, {rest}" if rest else kind


def deviation(value, measured):
    if not measured:
        return ""
    return f"{(value / measured - 1) * 100:+.0f} %".replace("-0 %", "0 %").replace("+0 %", "0 %")


def links():
    judged = met = 0
    lines = []
    for row in csv.DictReader((RESULTS / "links.csv").open()):
        measured, model = float(row["measured"]), float(row["model_value"])
        trace = float(row["trace_value"]) if row["trace_value"] else None
        limit = {"p50": 0.1, "p95": 0.1, "p99": 0.3}.get(row["quantity"].rsplit("_", 1)[-1])
        if limit:
            judged += 1
            met += abs(model / measured - 1) <= limit
        name = row["model"].replace("measured/", "")
        cells = [f"`{row['link']}`", "own" if name == row["link"] else f"`{name}`", quantity(row["quantity"]),
                 f"{exact(measured)} {row['unit']}", exact(model), deviation(model, measured),
                 "" if trace is None else exact(trace), "" if trace is None else deviation(trace, measured)]
        lines.append(f"| {' | '.join(cells)} |")
    head = ["| link | model | quantity | measured | model | deviation | trace | deviation |", "|---|---|---|---:|---:|---:|---:|---:|"]
    return page("crates/lab/results/links.md", values=rows(head, *lines) + f"\n{met} of {judged} quantiles of times meet their target.")


def exact(value):
    """Three significant digits; small values have four places."""
    return "0" if value == 0 else f"{value:.4f}" if value < 0.1 else digits(value)


# Recommendations of `carob lab compare` for six situations: the words of a user, the subject, the options.

SITUATIONS = [
    ("One firmware download over NB-IoT", "download", "--link nb-iot --traffic firmware"),
    ("200 meters with telemetry in one NB-IoT cell", "response", "--link nb-iot --traffic telemetry --clients 200"),
    ("Command and control of 10 devices over LTE-M", "response", "--link lte-m --traffic command --clients 10"),
    ("One observer over GPRS", "notification", "--link gprs --traffic observe"),
    ("Telemetry of 10 nodes in a Thread mesh", "response", "--link thread --traffic telemetry --clients 10"),
    ("A gateway with 20 devices on a LAN", "response", "--link lan --traffic command --clients 20"),
]
TIMERS = {"nine-seconds": "ACK_TIMEOUT 9 s, MAX_RETRANSMIT 5", "four-seconds": "ACK_TIMEOUT 4 s, MAX_RETRANSMIT 6", "one-second": "ACK_TIMEOUT 1 s, MAX_RETRANSMIT 8"}


def run_situations(_):
    kept = []
    for situation, _, options in SITUATIONS:
        print(situation, flush=True)
        command = f"lab compare {options}"
        answer = output("cargo", "run", "--release", "--quiet", "--package", "carob-cli", "--features", "full", "--",
                        *command.split(), "--json")
        kept.append({"command": f"carob {command}", "answer": json.loads(answer)})
    (RESULTS / "situations.json").write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n")


def situations():
    kept = json.loads((RESULTS / "situations.json").read_text())
    lines, commands = [], ""
    for (situation, subject, options), one in zip(SITUATIONS, kept, strict=True):
        answer, command = one["answer"], one["command"]
        assert command.endswith(options), command
        best = answer["ranked"][answer["recommended"]]
        validation = " (link *not validated*)" if answer["link"].get("is_unvalidated") else ""
        cells = [situation + validation, configuration(best, answer), gain(subject, best, answer["ranked"][0]), evidence(best, answer)]
        lines.append(f"| {' | '.join(cells)} |")
        commands += f"\n{situation}:\n\n```text\n{command}\n"
        if answer["recommended"]:
            commands += f"{best['command']}\n"
        commands += "```\n"
        flips = [f"- {flip['at']}: {configuration(flip, answer)} ({flip['cost']:.2f} of its cost)\n" for flip in answer.get("flips") or []]
        if flips:
            commands += f"\nBetter elsewhere:\n\n{''.join(flips)}"
    head = ["| situation | use | gain | evidence |", "|---|---|---|---|"]
    return page("docs/tutorials/choose-controller.md", situations=rows(head, *lines), commands=commands)


def configuration(one, answer):
    """Return the controller, and settings that differ from RFC 7252."""
    own = one["configuration"]
    parts = [f"`{own['controller']}`"]
    if answer["traffic"]["kind"] == "firmware" and own.get("block") != answer["ranked"][0]["configuration"].get("block"):
        parts.append(f"blocks of {own['block']} B")
    timers = own.get("timers")
    if timers and timers != "rfc7252":
        parts.append(TIMERS[timers])
    return ", ".join(parts)


def seconds(value):
    if value >= 1:
        return f"{digits(value)} s"
    return f"{value * 1000:.0f} ms" if value >= 0.01 else f"{value * 1000:.2f} ms"


def gain(subject, one, default):
    own, before = one["measured"], default["measured"]
    if one == default:
        return f"none: {subject} {seconds(own['time_s'])}, slowest {seconds(own['tail_s'])}"
    text = (f"{subject} {seconds(own['time_s'])} (default CoAP: {seconds(before['time_s'])}), "
            f"slowest {seconds(own['tail_s'])} ({seconds(before['tail_s'])})")
    if abs(own["undelivered"] - before["undelivered"]) >= 0.001:
        text += f", failures {own['undelivered'] * 100:.1f} % ({before['undelivered'] * 100:.1f} %)"
    return text


def evidence(one, answer):
    if not answer["recommended"]:
        return f"no other is 10 % and 5 ms better and nowhere worse ({answer['seeds']} seeds)"
    cost, near = one["cost"], len(answer.get("neighbours") or [])
    nearby = f"; not worse than default CoAP on {near} links nearby" if near else ""
    return f"cost {cost['value']:.2f} ({cost['low']:.2f} to {cost['high']:.2f}), {answer['seeds']} seeds{nearby}"


# Recommendations judged with fresh seeds: safety over all ranges, cost beside the best safe configuration, other first seeds, traces.

PROOF = RESULTS / "compare-links.csv"
#: A recommendation is near the best if it costs at most this much more.
NEAR = 1.05
#: A gain below this share of the cost is no reason to change anything.
SMALL_GAIN = 0.10
PROOF_COLUMNS = ["part", "link", "traffic", "devices", "recommended", "plain", "best", "ratio", "low", "high", "seeds", "note"]
#: Parts with the links of each and the options of the example; every link of `seeds` is asked nine times more.
PARTS = {"drawn": (100, []), "hindsight": (24, []), "seeds": (24, ["9"]), "traces": (0, [])}


def run_compare_links(options):
    """All parts, or those named; a part goes on where an interrupted run ended."""
    for part, (links, more) in PARTS.items():
        if options and part not in options:
            continue
        kept = ROOT / f"target/compare-links-{part}.jsonl"
        lines = kept.read_text() if kept.exists() else ""
        for link in range(len(lines.splitlines()), links):
            lines += example("carob-lab", "compare_links", part, *more, str(link), str(link + 1))
            kept.write_text(lines)
            print(lines.splitlines()[-1], flush=True)
        if not links:
            kept.write_text(example("carob-lab", "compare_links", part))
    keep_compare_links()
    rows_of = read_compare_links()
    return not any(row["note"] for row in rows_of("drawn"))


def keep_compare_links():
    """Writes the values of all parts that have run; rows of other parts stay."""
    kept = list(csv.DictReader(PROOF.open())) if PROOF.exists() else []
    for part in PARTS:
        path = ROOT / f"target/compare-links-{part}.jsonl"
        if path.exists():
            kept = [row for row in kept if row["part"] != part]
            kept += [proof_row(part, json.loads(line)) for line in path.read_text().splitlines()]
    kept.sort(key=lambda row: list(PARTS).index(row["part"]))
    with PROOF.open("w") as file:
        writer = csv.DictWriter(file, PROOF_COLUMNS, lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows(kept)


def proof_row(part, one):
    if part == "seeds":
        first, others = one
        same = sum(other == first for other in others)
        return {"part": part, "recommended": first, "seeds": len(others), "ratio": same, "note": "; ".join(sorted({*others} - {first}))}
    low_high = one["cost"] if part == "drawn" else one["regret"]
    ratio, low, high = (f"{value:.4f}" for value in low_high)
    return {"part": part, "link": one.get("link") or f"{one['trace']} over {one['nearest']}", "traffic": one["traffic"],
            "devices": one.get("clients", 1), "recommended": one["recommended"], "plain": str(one.get("is_plain", "")).lower(),
            "best": one.get("best", ""), "ratio": ratio, "low": low, "high": high, "seeds": one["seeds"],
            "note": "; ".join(one["exceeded"]) if part == "drawn" else one.get("reason", "")}


def read_compare_links():
    kept = list(csv.DictReader(PROOF.open()))
    return lambda part: [row for row in kept if row["part"] == part]


def compare_links():
    of = read_compare_links()
    text = ""
    drawn, hindsight, seeds, traces = map(of, PARTS)
    unsafe = [row for row in drawn if row["note"]]
    if drawn:
        moved = sum(row["recommended"] != "default" and not row["recommended"].startswith("default, 1024 B") for row in drawn)
        text += (f"**Safety.** On {len(unsafe)} of {len(drawn)} links over all ranges a recommendation exceeds a limit with fresh seeds, on the link "
                 f"or nearby (target: 0). On {len(drawn) - moved} links default CoAP stays.\n\n")
        text += "".join(f"- {row['link']}; {row['traffic']}, {row['devices']} devices: {row['recommended']} ({row['note']}).\n" for row in unsafe)
        text += "\n" if unsafe else ""
    if hindsight:
        near = [float(row["ratio"]) <= NEAR for row in hindsight]
        plain = sum(row["plain"] == "true" for row in hindsight)
        target = round(23 / 24 * len(hindsight))
        stays = sum(1 - 1 / float(row["ratio"]) < SMALL_GAIN for row in hindsight)
        text += (f"**Cost.** On {sum(near)} of {len(hindsight)} links the recommendation costs at most 5 % more than the best configuration in hindsight that "
                 f"exceeds no limit (target: {target}). A gain below 10 % changes nothing by the rules; "
                 f"within that are {stays}. On {plain} there is nothing to set (target: {round(18 / 24 * len(hindsight))}). The most expensive:\n\n")
        worst = sorted((row for row in hindsight if row["recommended"] != row["best"]), key=lambda row: -float(row["ratio"]))[:4]
        text += "".join(f"- {row['link']}; {row['traffic']}, {row['devices']} devices: {row['recommended']} costs {float(row['ratio']) * 100 - 100:.1f} % more than "
                        f"{row['best']} ({row['note']}).\n" for row in worst) + "\n"
    if seeds:
        same, asked = (sum(int(row[name]) for row in seeds) for name in ("ratio", "seeds"))
        text += f"**Other seeds.** With other first seeds the answer is the same in {same} of {asked} (target: 95 %) on {len(seeds)} links.\n\n"
    if traces:
        near = sum(float(row["ratio"]) <= NEAR for row in traces)
        text += (f"**Measured links.** The recommendation for the nearest built-in link costs at most 5 % more than the recommendation for the trace in {near} of "
                 f"{len(traces)} pairs of trace and traffic (target: all):\n\n")
        head = ["| trace over link | traffic | recommended for the link | for the trace | cost of the first, of the second's |", "|---|---|---|---|---:|"]
        text += rows(head, *(f"| {row['link']} | {row['traffic']} | {row['recommended']} | {row['best']} | {float(row['ratio']):.2f} "
                             f"({float(row['low']):.2f} to {float(row['high']):.2f}) |" for row in traces))
    return page("docs/compare.md", proof=text)


# The radio model beside analytical models of unslotted CSMA-CA and ns-3's lr-wpan.

NS3 = ["lr-wpan", "spectrum", "antenna", "propagation", "mobility", "network", "stats", "core"]
RADIO = ["kind", "nodes", "bytes", "rate", "seconds", "delivered_per_s", "delivery", "delay_ms", "transmissions", "model"]
RADIO_SEEDS, TOLERANCE = 5, 5.0


def run_radio(_):
    program = ROOT / "target/lrwpan"
    libraries = [f"-lns3-{name}" for name in NS3]  # Debian's packages g++ and libns3-dev (3.37)
    output("g++", "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, ROOT / "tools/lrwpan/lrwpan.cc", *libraries)
    kept = []
    for line in example("carob-mesh", "radio_validation").splitlines()[1:]:
        row = {name: text if name == "kind" else float(text) if text else None for name, text in zip(RADIO, line.split(","), strict=True)}
        kept.append([row, in_ns3(program, row), in_ns3(program, row, "--capture")])
        print(line, flush=True)
    (ROOT / "target/radio.json").write_text(json.dumps(kept))


def in_ns3(program, row, *options):
    """Runs the same network in ns-3."""
    words = [row["kind"], *(f"{row[name]:g}" for name in ("nodes", "bytes", "rate", "seconds"))]
    runs = [output(program, *words, str(seed), *options).strip().split(",") for seed in range(1, RADIO_SEEDS + 1)]
    delivered, offered, delay, frames, transmissions = (sum(map(float, values)) for values in zip(*runs, strict=True))
    return {**row, "delivered_per_s": delivered / row["seconds"] / RADIO_SEEDS, "delivery": delivered / max(offered, 1),
            "delay_ms": delay * 1e3 / max(delivered, 1), "transmissions": transmissions / max(frames, 1), "model": None}


def radio():
    kept = json.loads((ROOT / "target/radio.json").read_text())
    chains = [rows for rows in kept if rows[0]["kind"] == "chain"]
    stars = [rows for kind in ("star", "hidden") for rows in kept if rows[0]["kind"] == kind]
    off = lambda value, reference: (value / reference - 1) * 100

    def within(values):
        inside = sum(abs(value) <= TOLERANCE for value in values)
        return f"{inside} of {len(values)} within {TOLERANCE:g} %, largest {max(values, key=abs, default=0):+.1f} %"

    text = ""
    for name, key in (("delivery", "delivery"), ("delay", "delay_ms"), ("transmissions of a frame", "transmissions")):
        text += f"- Chains against ns-3, {name}: {within([off(own[key], ns3[key]) for own, ns3, _ in chains])}.\n"
    text += f"- Stars against ns-3, throughput: {within([off(own['delivered_per_s'], ns3['delivered_per_s']) for own, ns3, _ in stars])}.\n"
    for kind, name in (("star", "without"), ("hidden", "with")):
        values = [off(own["delivered_per_s"], own["model"]) for own, *_ in stars if own["kind"] == kind and own["model"]]
        text += f"- Stars {name} hidden nodes against the analytical model: {within(values)}.\n"
    head = ["| nodes | hear each other | frame | Carob | analytical | deviation | ns-3 | deviation | ns-3 with capture |",
            "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    lines = []
    for own, ns3, capture in stars:
        rate, other, model = own["delivered_per_s"], ns3["delivered_per_s"], own["model"] or math.nan
        lines.append(f"| {own['nodes']:g} | {'yes' if own['kind'] == 'star' else 'no'} | {own['bytes']:g} B | {rate:.1f} | {model:.1f} | "
                     f"{off(rate, model):+.1f} % | {other:.1f} | {off(rate, other):+.1f} % | {capture['delivered_per_s']:.1f} |")
    text += f"\n## Saturation throughput\n\nFrames delivered per second.\n\n{rows(head, *lines)}\n## Chains\n\n"
    text += "The far end generates messages for the other end, in frames of 100 bytes. Carob / ns-3, and the deviation.\n\n"
    head = ["| hops | messages/s | delivery | | delay | | transmissions of a frame | | ns-3 with capture: delivery, delay |",
            "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |"]
    lines = []
    for own, ns3, capture in chains:
        cells = [f"{own['nodes']:g}", f"{own['rate']:g}"]
        for key, places, unit in (("delivery", 4, ""), ("delay_ms", 2, " ms"), ("transmissions", 4, "")):
            cells += [f"{own[key]:.{places}f} / {ns3[key]:.{places}f}{unit}", f"{off(own[key], ns3[key]):+.1f} %"]
        lines.append(f"| {' | '.join(cells)} | {capture['delivery']:.4f}, {capture['delay_ms']:.2f} ms |")
    return page("crates/mesh/examples/radio_validation/README.md", results=text + rows(head, *lines))


# The loss process of Pesola 2020, chosen by half the columns of its tables with errors and judged on the other half.

HALVES = ROOT / "papers/thesis/halves.csv"
LOSS_PROCESS = ROOT / "crates/studies/results/loss-process.csv"
STATISTICS = ["p10", "p25", "p50", "p75", "p90"]
CAPS = ["none", "60 s", "32 s", "24 s", "16 s", "12 s"]  # rto_max of default CoAP
FURTHER_STATES = ["1.6", "1.8", "2.5"]  # packets, beside the states of open.toml
OF_SCENARIO = ("1.4 packets", "60 s")
LOSS_SEEDS = 100


def read_columns():
    """Printed percentiles by table, algorithm, buffer in bytes."""
    printed = {}
    for path in sorted((ROOT / "papers/thesis").glob("table*_fct.csv")):
        for row in csv.DictReader(path.open()):
            values = {name: float(row["median_s" if name == "p50" else f"{name}_s"]) for name in STATISTICS}
            if row["error"] != "none":
                printed[row["table"], row["algorithm"], row["buffer_bytes"]] = (row["clients"], row["error"], values)
    return printed


def draw_halves(_=None):
    """Of each table and algorithm with several buffers half the columns, of its two columns over UDP one."""
    draw, drawn = random.Random(2020), set()
    columns = sorted(read_columns())
    for table in sorted({table for table, *_ in columns}):
        for transport in (("cocoa-001", "default"), ("tcp-newreno",), ("tcp-bbr1",)):
            group = [column for column in columns if column[0] == table and column[1] in transport]
            drawn.update(draw.sample(group, len(group) // 2))
    lines = (",".join((*column, "choose" if column in drawn else "judge")) for column in columns)
    HALVES.write_text("table,algorithm,buffer_bytes,half\n" + "".join(f"{line}\n" for line in lines))


def run_loss_process(_):
    states = next(one for one in tomllib.loads((ROOT / "papers/thesis/open.toml").read_text())["setting"] if one["name"] == "error state")
    states = {value["label"].replace(", both directions", " (both directions)"): value["set"] for value in states["value"]}
    states |= {f"{packets} packets": [f"link.error_burst_packets={packets}"] for packets in FURTHER_STATES}
    lines = [",".join(("state", "cap", "clients", "error", "buffer", "algorithm", *STATISTICS))]
    for state, settings in states.items():
        print(state, flush=True)
        for cap in CAPS:
            # Only default CoAP has this setting.
            algorithms = "default,cocoa-001,tcp-newreno,tcp-bbr1" if cap == OF_SCENARIO[1] else "default"
            options = [word for one in (*settings, f"algorithm.default.rto_max={cap}") for word in ("--set", one)]
            text = output("cargo", "run", "--release", "--quiet", "--package", "carob-cli", "--", "lab", "run", "thesis/long-*-2500" if algorithms == "default" else "thesis/long-*",
                          "--algorithm", algorithms, "--no-report", "--csv", "--seeds", str(LOSS_SEEDS), *options)
            for row in csv.DictReader(line for line in text.splitlines() if not line.startswith("#")):
                in_tables = row["buffer"] == "2500" or row["algorithm"].startswith("tcp-")
                if row["metric"] == "fct_s" and row["error"] != "none" and in_tables:
                    key = [state, "" if row["algorithm"] != "default" else cap, row["clients"], row["error"], row["buffer"], row["algorithm"]]
                    lines.append(",".join((*key, *(f"{float(row[name]):.2f}" for name in STATISTICS))))
    LOSS_PROCESS.write_text("\n".join(lines) + "\n")


def read_loss_process():
    """Deviations |ln(measured / printed)| by state and cap, then by column."""
    measured = {}
    for row in csv.DictReader(LOSS_PROCESS.open()):
        buffer = row["buffer"].removesuffix(" B").replace("inf", "1410000")
        key = (row["clients"], row["error"], buffer, row["algorithm"])
        measured[row["state"], row["cap"], key] = {name: float(row[name]) for name in STATISTICS}
    states = dict.fromkeys(state for state, *_ in measured)
    deviations = {}
    for state in states:
        for cap in CAPS:
            of_columns = deviations[state, cap] = {}
            for column, (clients, error, printed) in read_columns().items():
                own = measured[state, cap if column[1] == "default" else "", (clients, error, column[2], column[1])]
                of_columns[column] = [abs(math.log(own[name] / printed[name])) for name in STATISTICS]
    return deviations


def loss_process():
    half = {(row["table"], row["algorithm"], row["buffer_bytes"]): row["half"] for row in csv.DictReader(HALVES.open())}
    lines = []
    for (state, cap), of_columns in read_loss_process().items():
        values = {name: [one for column, many in of_columns.items() if half[column] == name for one in many] for name in ("choose", "judge")}
        mean = {name: sum(many) / len(many) for name, many in values.items()}
        within = {name: sum(one <= math.log(1.1) for one in many) for name, many in values.items()}
        lines.append((mean["choose"], state, cap, mean, within, {name: len(many) for name, many in values.items()}))
    lines.sort(key=lambda line: line[0])
    named = [line for line in lines[8:] if (line[1], line[2]) == OF_SCENARIO]
    text = rows(["| error state | largest timer of default CoAP | chosen by: mean | within 10 % | judged by: mean | within 10 % |",
                 "|---|---|---:|---:|---:|---:|"],
                *(f"| {state}{' (before)' if (state, cap) == OF_SCENARIO else ''} | {cap} | {math.expm1(mean['choose']) * 100:.1f} % | "
                  f"{within['choose']} of {count['choose']} | {math.expm1(mean['judge']) * 100:.1f} % | {within['judge']} of {count['judge']} |"
                  for _, state, cap, mean, within, count in [*lines[:8], *named]))
    return page("papers/thesis/tcp-sensitivity.md", halves=text)


# Ablation of `carob`: each constant and switch changed alone.

ABLATION = ROOT / "crates/cc/results/ablation.csv"
CHANGES = ["", "alpha=1/4", "beta=1/8", "tolerance=1/8", "tolerance=1/2", "memory=30 s", "memory=240 s", "steady=2", "steady=8",
           "time_threshold=5/4", "time_threshold=3/2", "gap_repairs=0", "gap_repairs=1", "gap_repairs=4", "initial_window=3",
           "initial_window=12", "loss_factor=7/10", "loss_period=8", "loss_period=32", "caution=16", "caution=128", "shared=1/4",
           "shared=3/4", "fraction=8", "fraction=32", "rate_limit=1", "rate_limit=3/2", "compete=false", "pacing=false"]
#: Cell, seeds, further settings; and how its metrics are shown.
ABLATION_CELLS = {
    "18 %": ("thesis/long-1c-high-2500", "400", ["max_retransmit=4", "safeguards=on"], lambda of: f"{of['p50_s'] / 39.0:.2f}"),
    "/ 5": ("stress/capacity-down-off-x5", "200", [], lambda of: digits(of["p50_s"])),
    "/ 10": ("stress/capacity-down-off-x10", "200", [], lambda of: digits(of["p50_s"])),
    "Q-Block1 / 10": ("stress/capacity-up-con-x10", "200", [], lambda of: digits(of["p50_s"])),
    "16 downloads": ("stress/crowd-down-16", "100", [], lambda of: f"{of['delivered'] * 100:.0f} %, {of['dropped']:.0f}"),
    "30 % both ways": ("stress/path-off-loss-30", "400", [], lambda of: f"{digits(of['p50_s'])} ({of['delivered'] * 100:.0f} %)"),
    "single, 20 %": ("stress/single-loss-20", "200", [], lambda of: digits(of["p95_s"])),
    "storm": ("stress/crowd-storm-200-512", "100", [], lambda of: f"{of['delivered'] * 100:.1f} %"),
}


def run_ablation(options):
    lines = ["change,cell,seeds," + ",".join(MEASURES)]
    for change in CHANGES:
        print(change or "(none)", flush=True)
        for cell, seeds, settings, _ in ABLATION_CELLS.values():
            named = ["first_seed=500001", *settings, *([f"cc.{change}"] if change else [])]
            values = {}
            for row in lab_run(cell, seeds, "carob", *(word for one in named for word in ("--set", one))):
                add_metric(values, row)
            shown = [f"{float(values[name]):.4f}" if name in values else "" for name in MEASURES]
            lines.append(",".join([change, cell, seeds, *shown]))
        ABLATION.write_text("\n".join(lines) + "\n")


def ablation_rows():
    measured = {(row["change"], row["cell"]): {name: float(row[name]) for name in MEASURES if row[name]}
                for row in csv.DictReader(ABLATION.open())}
    head = [f"| `--set cc.` | {' | '.join(ABLATION_CELLS)} |", "|---" * (len(ABLATION_CELLS) + 1) + "|"]
    return rows(head, *(
        f"| `{change or '(none)'}` | {' | '.join(show(measured[change, cell]) for cell, _, _, show in ABLATION_CELLS.values())} |"
        for change in CHANGES))


# Q-Block after a fall of the capacity, relative to the minimum time for the remaining blocks.

AFTER_FALL = ROOT / "crates/cc/results/after-fall.csv"
AFTER_FALL_SEEDS, AFTER_FALL_FIRST = 60, 700001
#: By direction of stress/capacity: number of blocks, and name in the table.
AFTER_FALL_BODIES = {"down": (100, "100 kB, Q-Block2"), "up": (128, "64 kB, Q-Block1")}
FALL_S, FALL_LASTS_S, DELAY_S, RATE_BPS, HEADER = 6, 180, 0.15, 60_000, 28
AFTER_FALL_ALLOWED = {"after": 1.15, "transmissions": 1.3}


def after_fall(path, blocks, divisor, events):
    """Return the time after the fall relative to the minimum for the remaining blocks, and transmissions per block."""
    sender, receiver = (1, 0) if path == "down" else (0, 1)
    of_block = [event for event in events if event.get("bytes", 0) > 400]
    sent = sum(event["event"] == "sent" and event["host"] == sender for event in of_block)
    arrivals = {}
    for event in of_block:
        if event["event"] == "received" and event["host"] == receiver:
            arrivals.setdefault(event["id"], event["at_us"] / 1e6)
    rest = blocks - sum(at <= FALL_S + DELAY_S for at in arrivals.values())
    needs = rest * (of_block[-1]["bytes"] + HEADER) * 8 * divisor / RATE_BPS
    if needs > FALL_LASTS_S:
        needs = FALL_LASTS_S + (needs - FALL_LASTS_S) / divisor
    ends = [event["at_us"] / 1e6 for event in events if event["event"] == "received" and event.get("code") == "2.04"]
    return ((ends or [max(arrivals.values())])[-1] - FALL_S) / needs, sent / blocks


def run_after_fall(_):
    log = ROOT / "target/after-fall.jsonl"
    median = lambda values: sorted(values)[len(values) // 2]
    lines = ["path,kind,divisor,success,p50_s,default_p50_s,after,transmissions"]
    for path, (blocks, _) in AFTER_FALL_BODIES.items():
        for kind in ("con", "non"):
            for divisor in (2, 5, 10, 20):
                cell = f"stress/capacity-{path}-{kind}-x{divisor}"
                print(cell, flush=True)
                metrics = {(row["algorithm"], row["metric"]): row for row in
                           lab_run(cell, str(AFTER_FALL_SEEDS), "default,carob", "--set", f"first_seed={AFTER_FALL_FIRST}")}
                found = []
                for seed in range(AFTER_FALL_FIRST, AFTER_FALL_FIRST + AFTER_FALL_SEEDS):
                    output("cargo", "run", "--quiet", "--package", "carob-cli", "--", "lab", "run", cell, "--algorithm", "carob", "--no-report",
                           "--seed", str(seed), "--log", str(log))
                    found.append(after_fall(path, blocks, divisor, list(map(json.loads, log.read_text().splitlines()))))
                times, copies = zip(*found, strict=True)
                lines.append(f"{path},{kind},{divisor},{metrics['carob', 'success_ratio']['mean']},{metrics['carob', 'fct_s']['p50']},"
                             f"{metrics['default', 'fct_s']['p50']},{median(times):.3f},{sum(copies) / len(copies):.3f}")
    AFTER_FALL.write_text("\n".join(lines) + "\n")


def after_fall_rows():
    measured = {(row["path"], row["kind"], row["divisor"]): row for row in csv.DictReader(AFTER_FALL.open())}

    def bold(row, name):
        value = float(row[name])
        return f"**{value:.2f}**" if round(value, 2) > AFTER_FALL_ALLOWED[name] else f"{value:.2f}"

    def shown(row):
        p50, default = (digits(float(row[name])) for name in ("p50_s", "default_p50_s"))
        failed = "" if float(row["success"]) == 1 else f", {float(row['success']) * 100:.0f} % succeed"
        return f"{p50} ({default}); {bold(row, 'after')}, {bold(row, 'transmissions')}{failed}"

    divisors = ("2", "5", "10", "20")
    head = [f"| transfer | {' | '.join(f'/ {divisor}' for divisor in divisors)} |", "|---" * (len(divisors) + 1) + "|"]
    return rows(head, *(f"| {name}, {kind.upper()} | {' | '.join(shown(measured[path, kind, divisor]) for divisor in divisors)} |"
                        for path, (_, name) in AFTER_FALL_BODIES.items() for kind in ("con", "non")))


# Downloads of the stress suite over real sockets and the kernel's TCP.

EMULATED = ROOT / "crates/emu/results/stress.csv"
EMULATED_CELLS = ["capacity-down-off-*", *(f"path-off-{name}" for name in (
    "outage-1s", "outage-3s", "outage-10s", "outage-30s", "spike-5s", "route", "oscillating", "acks-30", "loss-30", "policer",
    "reordering-5", "leo"))]
EMULATED_ALGORITHMS = ["carob", "default", "tcp-cubic", "tcp-bbr1"]
EMULATED_COLUMNS = ["cell", "algorithm", "runs", "success", "p50_s", "p95_s"]


def run_emulated_stress(options):
    """Needs root and an idle machine. Runs of a pattern go at once, in real time."""
    found = {}
    for cells in EMULATED_CELLS:
        print(cells, flush=True)
        text = output("cargo", "run", "--quiet", "--package", "carob-cli", "--features", "emulate", "--", "lab", "emulate",
                      f"stress/{cells}", "--algorithm", ",".join(EMULATED_ALGORITHMS), "--seeds", "10", "--limit", "20min", "--csv")
        for row in csv.DictReader(line for line in text.splitlines() if not line.startswith("#")):
            values = found.setdefault((row["scenario"], row["algorithm"], row["runs"]), {})
            if row["metric"] == "fct_s":
                values |= {"p50_s": f"{float(row['p50']):.2f}", "p95_s": f"{float(row['p95']):.2f}"}
            elif row["metric"] == "success_ratio":
                values["success"] = f"{float(row['mean']):.2f}"
    with EMULATED.open("w") as file:
        writer = csv.DictWriter(file, EMULATED_COLUMNS, lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows(dict(zip(EMULATED_COLUMNS, key)) | values for key, values in found.items())


def emulated_rows():
    measured = {(row["cell"], row["algorithm"]): row for row in csv.DictReader(EMULATED.open())}
    _, simulated = read_stress()

    def shown(row):
        if not row["p50_s"]:
            return "none"
        success = float(row["success"])
        return digits(float(row["p50_s"])) + (f" ({success * 100:.0f} %)" if success < 1 else "")

    cells = dict.fromkeys(cell for cell, _ in measured)
    names = [f"`{name}`" for name in EMULATED_ALGORITHMS]
    head = [f"| `stress/` | {' | '.join(names)} | `carob`, simulated |", "|---" * (len(names) + 2) + "|"]
    return rows(head, *(
        f"| `{cell.removeprefix('stress/')}` | {' | '.join(shown(measured[cell, name]) for name in EMULATED_ALGORITHMS)} | "
        f"{digits(simulated['carob'][cell]['p50_s'])} |" for cell in cells))


def carob_controller():
    return page("docs/carob-controller.md", ablation=ablation_rows(), emulated=emulated_rows(), **{"after-fall": after_fall_rows()})


PAGES = {
    "after-fall": ("docs/carob-controller.md", carob_controller, run_after_fall),
    "ablation": ("docs/carob-controller.md", carob_controller, run_ablation),
    "emulated-stress": ("docs/carob-controller.md", carob_controller, run_emulated_stress),
    "stress": ("crates/lab/results/stress.md", stress, run_stress),
    "links": ("crates/lab/results/links.md", links, run_links),
    "situations": ("docs/tutorials/choose-controller.md", situations, run_situations),
    "compare-links": ("docs/compare.md", compare_links, run_compare_links),
    "radio-validation": ("crates/mesh/examples/radio_validation/README.md", radio, run_radio),
    "loss-process": ("papers/thesis/tcp-sensitivity.md", loss_process, run_loss_process),
}

if __name__ == "__main__":
    if sys.argv[1] == "draw-halves":
        sys.exit(draw_halves())
    path, text, run = PAGES[sys.argv[1]]
    if sys.argv[2:3] == ["--run"]:
        (ROOT / "target").mkdir(exist_ok=True)
        holds = run(sys.argv[3:])
        (ROOT / path).write_text(text())
        sys.exit(holds is False)
    else:
        sys.stdout.write(text())
