/* lock_pid: the process id in a lock file, for whoever finds it locked.
 * Owner:  the file's. Thread: any. Errors: none: on a full disk others are not told. */
#ifndef ENGRAM_BASE_LOCK_PID_H
#define ENGRAM_BASE_LOCK_PID_H

/* Of this process, which has the lock. */
void lock_pid_write(int fd);
/* 0: the owner could not write it. */
long lock_pid_read(int fd);

#endif
