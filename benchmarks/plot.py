"""The newest result of `make bench` as a picture beside it."""

import json
import statistics

import matplotlib as mpl
from folders import BENCHMARKS

mpl.use("agg")
from matplotlib import pyplot as plt  # after the choice of a backend

path = max((BENCHMARKS / "results").glob("*.json"))
table = json.loads(path.read_text())["tables"]["100 B"]
names = list(reversed(table))
middles = [statistics.median(table[name]) for name in names]
low = [middle - min(table[name]) for name, middle in zip(names, middles, strict=True)]
high = [max(table[name]) - middle for name, middle in zip(names, middles, strict=True)]
figure, axes = plt.subplots(figsize=(9, 0.45 * len(names) + 1), layout="constrained")
axes.barh(
    names, middles, xerr=[low, high], color=["#3b7" if "headrace" in name else "#999" for name in names]
)
axes.set_xlabel("events per second, records of 100 B: median, min and max")
figure.savefig(path.with_suffix(".png"), dpi=120)
print(path.with_suffix(".png"))
