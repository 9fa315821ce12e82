"""Constants of a controller, tuned with Optuna and ranked by Sobol indices with SALib.

    pip install optuna SALib
    python tune.py --trials 30 --seeds 20

Seeds that chose the constants do not judge them: the last line uses others.
"""

from __future__ import annotations

import argparse

import carob

CELL = "long-1c-high-2500"
#: Weights of CoCoA's estimates in its overall RTO, and their search ranges.
RANGES = {"weight_strong": (0.1, 1.0), "weight_weak": (0.05, 1.0)}


def cost(constants: dict[str, float], seeds: int) -> float:
    """Return the median completion time in seconds of a download with high error."""
    cc = {name: round(value, 3) for name, value in constants.items()}
    runs = carob.scenario("thesis/long").run("cocoa-03", cell=CELL, cc=cc, seeds=seeds)
    return runs.median("fct_s") or float("inf")


def tuned(trials: int, seeds: int) -> dict[str, float]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def objective(trial: optuna.Trial) -> float:
        drawn = {name: trial.suggest_float(name, *ends) for name, ends in RANGES.items()}
        return cost(drawn, seeds)

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
    study.optimize(objective, n_trials=trials)
    return study.best_params


def ranked(samples: int, seeds: int) -> None:
    import numpy
    from SALib.analyze import sobol
    from SALib.sample import sobol as draw

    problem = {"num_vars": len(RANGES), "names": list(RANGES), "bounds": list(RANGES.values())}
    points = draw.sample(problem, samples, calc_second_order=False, seed=1)
    values = numpy.array([cost(dict(zip(RANGES, point)), seeds) for point in points])
    indices = sobol.analyze(problem, values, calc_second_order=False, seed=1)
    for name, total, half in zip(RANGES, indices["ST"], indices["ST_conf"]):
        print(f"{name}: total effect {total:.2f} +- {half:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=30, help="Trials of Optuna [default: 30]")
    parser.add_argument("--samples", type=int, default=16, help="Base samples of Sobol [default: 16]")
    parser.add_argument("--seeds", type=int, default=20, help="Seeds of each trial [default: 20]")
    given = parser.parse_args()
    best = tuned(given.trials, given.seeds)
    print("best:", ", ".join(f"{name}={value:.2f}" for name, value in best.items()))
    ranked(given.samples, given.seeds)
    base = carob.scenario("thesis/long", algorithms="cocoa-03").set({"run.first_seed": 100_001})
    fresh = 50
    before = base.run(cell=CELL, seeds=fresh).median("fct_s")
    cc = {name: round(value, 3) for name, value in best.items()}
    after = base.run(cell=CELL, seeds=fresh, cc=cc).median("fct_s")
    print(f"fresh seeds: {before:.1f} s as published, {after:.1f} s tuned")


if __name__ == "__main__":
    main()
