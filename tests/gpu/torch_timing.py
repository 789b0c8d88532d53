"""torch_timing: what the peers of gpu_bench, gpu_hrr and gpu_complete share: torch on a GPU, our
times of the same run, and the median time of what it is asked."""
import statistics
import sys


def open_peer(path):
    """Returns torch and our milliseconds by name, or ends with SKIP where torch has no GPU."""
    try:
        import torch
    except ImportError:
        print("SKIP: no torch here")
        sys.exit()
    if not torch.cuda.is_available():
        print("SKIP: torch sees no CUDA device")
        sys.exit()
    with open(path, encoding="utf-8") as f:
        return torch, {name: float(ms) for name, ms in (line.split() for line in f)}


def median_ms(torch, ask, runs):
    for _ in range(3):
        ask()
    times = []
    for _ in range(runs):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        ask()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop))
    return statistics.median(times)
