"""How long tasks take whose times vary a lot: log-normal, the same ones each time, in a mixed order."""

import math
import random
from statistics import NormalDist


def service_times(count: int, low_seconds: float, high_seconds: float, *, beyond: float) -> list[float]:
    """Quantiles of a log-normal, from `low_seconds` to `high_seconds`; a tenth takes longer than `beyond`."""
    center = math.sqrt(low_seconds * beyond)
    sigma = math.log(beyond / center) / NormalDist().inv_cdf(0.9)
    normal = NormalDist(math.log(center), sigma)
    found = [math.exp(normal.inv_cdf((number + 0.5) / count)) for number in range(count)]
    random.Random(count).shuffle(found)  # the same each time
    return [min(max(seconds, low_seconds), high_seconds) for seconds in found]
