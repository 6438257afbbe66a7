"""How long a call takes."""
import statistics
import time


def median_latency(call, seconds):
    """The median of calls within so many seconds, and of three at least, after one that is not counted."""
    call()
    latencies, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(latencies) < 3:
        start = time.perf_counter()
        call()
        latencies.append(time.perf_counter() - start)
    return statistics.median(latencies)
