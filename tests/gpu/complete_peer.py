"""complete_peer.py FILE: one round of completion by the modern rule in torch, softmax(beta X q) X
in float32 without TF32, beside what gpu_complete --bench wrote to FILE in the same run. Prints
ratios with targets."""
import sys

from torch_timing import median_ms, open_peer

ROWS, DIMENSION, BETA = 1_000_000, 768, 32.0
# For a batch of so many: our time is at most so many times torch's.
TARGETS = {1: None, 128: 2.0}


def main():
    torch, ours = open_peer(sys.argv[1])
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    rows = torch.nn.functional.normalize(torch.randn(ROWS, DIMENSION, device="cuda"))
    for batch, target in TARGETS.items():
        cues = rows[:batch].clone()

        def complete(cues=cues):
            return torch.softmax(BETA * (cues @ rows.T), dim=1) @ rows

        theirs, mine = median_ms(torch, complete, 21), ours[f"complete_{batch}"]
        verdict = "" if target is None else (
            f", target {target:.2f} {'ok' if mine / theirs <= target else 'MISSED'}")
        print(f"complete, 1 round, batch {batch:3}: torch {theirs:8.3f} ms, ours {mine:8.3f} ms, "
              f"{mine / theirs:5.2f} of torch's{verdict}", flush=True)
    scan = ours["scan"]
    print(f"complete, 1 round, batch   1: {ours['complete_1'] / scan:5.2f} scans, target 2.20 "
          f"{'ok' if ours['complete_1'] / scan <= 2.2 else 'MISSED'}")


main()
