"""cli_live: top on terminals of several sizes, that are resized and typed at."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

import cli
from cli import check


def resize(fd, columns, rows):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Screen:
    """As much of a terminal as top needs: a cursor, rows, and what lies past the last column."""

    def __init__(self, t, columns, rows, *words):
        self.columns, self.rows = columns, rows
        self.master, self.slave = pty.openpty()
        resize(self.slave, columns, rows)
        self.before = termios.tcgetattr(self.slave)
        self.p = subprocess.Popen(t.start + ["top", *words], stdin=self.slave, stdout=self.slave,
                                  stderr=subprocess.PIPE)
        self.text = b""

    def until(self, wanted):
        """Reads until a whole frame, which ends with the line of keys, has what is wanted."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if select.select([self.master], [], [], 0.1)[0]:
                self.text += os.read(self.master, 65536)
            frames = self.text.split(b"\033[H")
            for frame in frames[1:]:
                if frame.endswith(b"\033[J") and wanted in frame:
                    return self.lines(frame)
        check(False, "%r was not shown: %r" % (wanted, self.text[-300:]))
        return []

    @staticmethod
    def lines(frame):
        plain = re.sub(rb"\033\[[0-9;?]*[A-Za-z]", b"", frame).decode()
        return plain.split("\r\n")

    def fits(self, lines, columns, rows):
        check(len(lines) <= rows and max(map(len, lines)) <= columns,
              "%d x %d: %d lines, the widest %r" % (columns, rows, len(lines), max(lines, key=len)))

    def end(self):
        os.write(self.master, b"q")
        code = self.p.wait(60)
        rest = b""
        while select.select([self.master], [], [], 0)[0]:
            rest += os.read(self.master, 65536)
        check(code == 0 and rest.endswith(b"\033[?25h\033[?1049l"), "q: %d %r" % (code, rest[-40:]))
        check(termios.tcgetattr(self.slave) == self.before, "the terminal is as it was")
        os.close(self.master)
        os.close(self.slave)


def everything(t):
    t.run("collection", "create", "rows", "--dim", "4", "--metric", "l2")
    for columns, rows in (40, 10), (80, 24), (200, 60):
        s = Screen(t, columns, rows, "--interval", "0.2")
        lines = s.until(b"sort (time)")
        s.fits(lines, columns, rows)
        check(lines[0].startswith("engram-acceld ") and len(lines) == rows, lines)
        s.text = b""
        os.write(s.master, b"n")
        if columns > 40:
            s.fits(s.until(b"sort (name)"), columns, rows)
        s.text = b""
        resize(s.slave, 50, 12)
        s.fits(s.until(b"sort (name)"), 50, 12)
        s.end()
    s = Screen(t, 80, 24)
    s.until(b"sort (time)")
    s.p.terminate()  # a signal sets the terminal back, too
    s.p.wait(60)
    check(termios.tcgetattr(s.slave) == s.before, "the terminal is as it was after a signal")
    said = t.run("top").stdout
    check("\033" not in said and "operation" in said, "no terminal, no control: " + said)
    check("as file and command line say" in t.run("doctor").stdout, "settings are fine")
    t.run("config", "set", "batch.wait_us", "100")
    said = t.run("doctor").stdout
    check("1 set while the daemon runs" in said, said)
    check(" fine, " in said.splitlines()[-1] and said.splitlines()[-1].endswith("0 bad"), said)


if __name__ == "__main__":
    sys.exit(cli.beside_a_daemon(everything))
