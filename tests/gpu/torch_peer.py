"""torch_peer.py FILE: torch.topk(q @ X.T) in float32 (TF32 off) over 1,000,000 x 768, beside what
gpu_bench wrote to FILE in the same run. Prints ratios with targets."""
import sys

from torch_timing import median_ms, open_peer

ROWS, DIMENSION, K = 1_000_000, 768, 10
TARGETS = {1: 1.2, 16: 1.2, 128: 1.2, 1024: 1.0}


def main():
    torch, ours = open_peer(sys.argv[1])
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    torch.manual_seed(1)
    rows = torch.rand(ROWS, DIMENSION, device="cuda") * 2 - 1
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    for queries, target in TARGETS.items():
        q = torch.rand(queries, DIMENSION, device="cuda") * 2 - 1
        theirs = median_ms(torch, lambda q=q: torch.topk(q @ rows.T, K), 11 if queries > 99 else 51)
        product = median_ms(torch, lambda q=q: q @ rows.T, 11 if queries > 99 else 51)
        mine = ours[f"knn_{queries}"]
        ratio = theirs / mine
        print(f"knn k={K}, {queries:5} queries: torch {theirs:8.3f} ms (product alone "
              f"{product:8.3f}), ours {mine:8.3f} ms, ratio {ratio:5.2f}, target {target:.2f} "
              f"{'ok' if ratio >= target else 'MISSED'}", flush=True)


main()
