"""Counts readings by sensor: the partition key is the sensor, the body what it says."""

from collections import Counter

counts = Counter()  # of this worker; a sensor's shard may be at any of them


def handler(context, event):
    sensor, degrees = event.partition_key, float(event.body)
    counts[sensor] += 1
    context.logger.info("%s: %.1f degrees, reading %d", sensor, degrees, counts[sensor])
