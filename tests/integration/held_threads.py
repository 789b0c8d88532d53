"""held_threads: threads that stand still, as if a call into the kernel did not return."""
import ctypes
import os

# linux/ptrace.h, linux/wait.h
PTRACE_SEIZE, PTRACE_INTERRUPT, WAIT_FOR_THREADS = 0x4206, 0x4207, 0x40000000


class HeldThreads:
    """Of a process, those whose name begins like that: ptrace holds them until this one ends."""

    def __init__(self, pid, wanted):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.threads = []
        for tid in map(int, os.listdir(f"/proc/{pid}/task")):
            with open(f"/proc/{pid}/task/{tid}/comm", encoding="utf-8") as f:
                if not f.read().startswith(wanted):
                    continue
            if libc.ptrace(PTRACE_SEIZE, tid, None, None) or \
                    libc.ptrace(PTRACE_INTERRUPT, tid, None, None):
                raise SystemExit("ptrace: " + os.strerror(ctypes.get_errno()))
            self.threads.append(tid)
        self.count = len(self.threads)

    def let_die(self):
        """A killed thread that is held is gone only when its holder has been told of it."""
        for tid in list(self.threads):
            try:
                seen, status = os.waitpid(tid, os.WNOHANG | WAIT_FOR_THREADS)
                if seen and not os.WIFSTOPPED(status):
                    self.threads.remove(tid)
            except ChildProcessError:
                self.threads.remove(tid)
