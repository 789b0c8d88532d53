"""hrr_peer.py FILE: binding by torch (irfft(rfft(a) * rfft(b))) beside what gpu_hrr --bench wrote to
FILE in the same run. Prints ratios with targets."""
import sys

from torch_timing import median_ms, open_peer

TARGETS = {512: 2.0, 768: 2.0, 1024: 2.0, 2048: 2.0, 4096: 2.0}


def main():
    torch, ours = open_peer(sys.argv[1])
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    for d, target in TARGETS.items():
        a = torch.randn(100_000, d, device="cuda")
        b = torch.randn(100_000, d, device="cuda")

        def bind(a=a, b=b, d=d):
            return torch.fft.irfft(torch.fft.rfft(a) * torch.fft.rfft(b), n=d)

        theirs, mine = median_ms(torch, bind, 21), ours[f"bind_{d}_100000"]
        print(f"100,000 binds of {d:5}: torch {theirs:8.3f} ms, ours {mine:8.3f} ms, ratio "
              f"{theirs / mine:5.2f}, target {target:.2f} "
              f"{'ok' if theirs / mine >= target else 'MISSED'}", flush=True)
        del a, b


main()
