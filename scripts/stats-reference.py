#!/usr/bin/env python3
"""Results of scipy, numpy and statsmodels that the statistics in crates/report/src/stats are tested against.

    python3 -m venv venv && venv/bin/pip install scipy==1.17.1 statsmodels==0.15.0
    venv/bin/python scripts/stats-reference.py > crates/report/src/stats/reference.json

Prints JSON: for each estimator a list of cases, each with what goes in and what comes out. The same every time.
"""

import json
from itertools import combinations
from math import comb, sqrt

import numpy as np
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower


class SplitMix:
    """The generator of crates/record/src/shuffle.rs, so that resampling can be compared draw by draw."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        mask = (1 << 64) - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        mixed = self.state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & mask
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
        return mixed ^ (mixed >> 31)


def benchmark(seed, tasks, most_trials, passes):
    """Generated trials: (task, value), with an uneven number of trials for each task."""
    rng = np.random.default_rng(seed)
    trials = []
    for task in range(tasks):
        ability = rng.beta(0.8, 0.6)
        for _ in range(int(rng.integers(1, most_trials + 1))):
            value = float(rng.random() < ability) if passes else round(float(rng.beta(1 + 4 * ability, 3)), 6)
            trials.append((f"t{task:02}", value))
    return trials


def grouped(trials):
    groups = {}
    for task, value in trials:
        groups.setdefault(task, []).append(value)
    return {task: sorted(values) for task, values in sorted(groups.items())}


def cluster_error(trials):
    """The cluster-robust standard error of the mean: a regression on a constant."""
    values = np.array([value for _, value in trials])
    names = sorted({task for task, _ in trials})
    groups = np.array([names.index(task) for task, _ in trials])
    fit = sm.OLS(values, np.ones_like(values)).fit(cov_type="cluster", cov_kwds={"groups": groups})
    return float(fit.bse[0]), len(names)


def means():
    cases = []
    for seed, tasks, most in [(1, 20, 5), (2, 35, 3), (3, 2, 4), (4, 12, 1)]:
        trials = benchmark(seed, tasks, most, passes=False)
        error, clusters = cluster_error(trials)
        mean = float(np.mean([value for _, value in trials]))
        margin = stats.t.ppf(0.975, clusters - 1) * error
        cases.append({"trials": trials, "mean": mean, "error": error, "low": mean - margin, "high": mean + margin})
    return cases


def wilsons():
    cases = []
    for passed, total in [(0, 10), (3, 10), (10, 10), (1, 2), (81, 263), (999, 1000), (15, 75)]:
        for level in [0.9, 0.95, 0.99]:
            interval = stats.binomtest(passed, total).proportion_ci(level, method="wilson")
            case = {"passed": passed, "trials": total, "level": level}
            cases.append(case | {"low": interval.low, "high": interval.high})
    return cases


def clustered_wilson():
    """Wilson with the effective number of trials and a t quantile, as Inspect's ci_wilson does."""
    cases = []
    for seed, tasks, most in [(11, 20, 5), (12, 40, 4)]:
        trials = benchmark(seed, tasks, most, passes=True)
        error, clusters = cluster_error(trials)
        total = len(trials)
        rate = float(np.mean([value for _, value in trials]))
        effective = min(rate * (1 - rate) / error**2, total)
        width = stats.t.ppf(0.975, clusters - 1)
        middle = (rate + width**2 / (2 * effective)) / (1 + width**2 / effective)
        margin = width / (1 + width**2 / effective) * sqrt(rate * (1 - rate) / effective + width**2 / (4 * effective**2))
        cases.append({"trials": trials, "rate": rate, "low": middle - margin, "high": middle + margin})
    return cases


def k_tries():
    cases = []
    for total, passed in [(5, 0), (5, 2), (5, 5), (10, 3), (200, 17)]:
        for k in [1, 2, 5]:
            at = 1 - comb(total - passed, k) / comb(total, k)
            power = comb(passed, k) / comb(total, k)
            cases.append({"passed": passed, "trials": total, "k": k, "at": at, "pow": power})
    return cases


def bootstraps():
    """BCa over tasks, draw by draw; and scipy's own for comparison, whose draws are others."""
    cases = []
    for seed, tasks, most in [(21, 20, 5), (22, 33, 3)]:
        clusters = [(sum(values), len(values)) for values in grouped(benchmark(seed, tasks, most, passes=False)).values()]
        draws, resamples = SplitMix(seed), []
        for _ in range(999):
            chosen = []
            for place in range(tasks):
                bits = draws.next() if place % 2 == 0 else (bits << 32) & ((1 << 64) - 1)
                chosen.append(clusters[((bits >> 32) * tasks) >> 32])
            resamples.append(sum(total for total, _ in chosen) / sum(count for _, count in chosen))
        resamples = np.sort(resamples)
        sums = np.array([total for total, _ in clusters])
        counts = np.array([count for _, count in clusters])
        mean = sums.sum() / counts.sum()
        left_out = (sums.sum() - sums) / (counts.sum() - counts)
        away = left_out.mean() - left_out
        acceleration = (away**3).sum() / (6 * (away**2).sum() ** 1.5)
        bias = stats.norm.ppf(((resamples < mean).mean() + (resamples <= mean).mean()) / 2)
        width = sqrt(tasks / (tasks - 1)) * stats.t.ppf(0.975, tasks - 1)
        ends = []
        for z in (-width, width):
            share = stats.norm.cdf(bias + (bias + z) / (1 - acceleration * (bias + z)))
            ends.append(float(np.quantile(resamples, share)))
        scipys = stats.bootstrap(
            (sums, counts),
            lambda total, count, axis=-1: total.sum(axis=axis) / count.sum(axis=axis),
            paired=True, n_resamples=20000, method="BCa", random_state=np.random.default_rng(1),
        ).confidence_interval
        cases.append({
            "trials": benchmark(seed, tasks, most, passes=False), "seed": seed, "times": 999,
            "low": ends[0], "high": ends[1], "scipy_low": float(scipys.low), "scipy_high": float(scipys.high),
        })
    return cases


def paired():
    cases = []
    for seed, tasks in [(31, 6), (32, 12), (33, 15)]:
        rng = np.random.default_rng(seed)
        differences = [round(float(value), 4) for value in rng.normal(0.1, 0.2, tasks)]
        test = stats.permutation_test(
            (np.array(differences),), lambda x, axis=-1: x.mean(axis=axis),
            permutation_type="samples", n_resamples=np.inf, vectorized=True,
        )
        sd = float(np.std(differences, ddof=1))
        correction = 1 - 3 / (4 * (tasks - 1) - 1)
        cases.append({
            "differences": differences, "p": float(test.pvalue), "mean": float(np.mean(differences)),
            "hedges": correction * float(np.mean(differences)) / sd,
        })
    return cases


def mcnemars():
    return [
        {"gained": b, "lost": c, "p": float(mcnemar([[0, b], [c, 0]], exact=True).pvalue)}
        for b, c in [(0, 6), (5, 5), (12, 3), (1, 9), (40, 20), (700, 500)]
    ]


def holms():
    lists = [[0.01, 0.04, 0.03, 0.005], [0.2, 0.001, 0.02, 0.02, 0.9, 0.0004], [0.5]]
    return [{"p": p, "adjusted": multipletests(p, method="holm")[1].tolist()} for p in lists]


def quantiles():
    return [
        {"freedom": freedom, "share": share, "t": float(stats.t.ppf(share, freedom)), "z": float(stats.norm.ppf(share))}
        for freedom in [1, 2, 3, 7, 19, 39, 1000]
        for share in [0.8, 0.95, 0.975, 0.995]
    ]


def powers():
    """How many tasks a paired t-test needs for 80 % power."""
    cases = []
    for effect in [0.2, 0.3, 0.5, 0.8]:
        tasks = TTestPower().solve_power(effect_size=effect, alpha=0.05, power=0.8, alternative="two-sided")
        cases.append({"effect": effect, "tasks": float(tasks)})
    return cases


def welches():
    """One task, several trials of each agent: Welch's interval."""
    baseline, candidate = [0.1, 0.4, 0.35, 0.2, 0.6], [0.7, 0.9, 0.45, 0.8]
    interval = stats.ttest_ind(candidate, baseline, equal_var=False).confidence_interval(0.95)
    values, seen = baseline + candidate, abs(np.mean(candidate) - np.mean(baseline))
    deals = [set(deal) for deal in combinations(range(len(values)), len(baseline))]
    away = [
        abs(np.mean([values[i] for i in range(len(values)) if i not in deal]) - np.mean([values[i] for i in deal]))
        for deal in deals
    ]
    return [{
        "baseline": baseline, "candidate": candidate, "low": float(interval.low), "high": float(interval.high),
        "p": sum(it >= seen - 1e-12 for it in away) / len(deals),
    }]


results = {
    "quantiles": quantiles(), "means": means(), "wilson": wilsons(), "clustered_wilson": clustered_wilson(),
    "k_tries": k_tries(), "bootstrap": bootstraps(), "paired": paired(), "mcnemar": mcnemars(), "holm": holms(),
    "power": powers(), "welch": welches(),
}
parts = [f' "{name}": [\n' + ",\n".join(f"  {json.dumps(case)}" for case in cases) + "\n ]" for name, cases in results.items()]
print("{\n" + ",\n".join(parts) + "\n}")
