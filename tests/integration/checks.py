"""checks: what a test found wrong, told at once and counted."""
failures = 0


def check(ok, what):
    global failures
    if not ok:
        failures += 1
        print("FAILED:", what)
