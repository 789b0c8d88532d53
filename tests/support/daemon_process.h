/* daemon_process: the real engram-acceld of this build, on a private socket, for one test.
 * Owner:  the test; daemon_start and daemon_stop pair.
 * Thread: one.
 * Errors: any step that fails aborts the test with a message (cr_assert is not needed). */
#ifndef ENGRAM_TESTS_DAEMON_PROCESS_H
#define ENGRAM_TESTS_DAEMON_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/frame.h"

/* What may come beside what was there at the start: the space of the daemon's own probe, which
 * begins some moments after the first client is served, and small caches. */
enum { DAEMON_OWN_BYTES = (160 + 128) << 10 };

struct daemon_process {
    pid_t pid;
    char directory[64];
    char socket_path[96];
    char log_path[96]; /* its stderr */
};

/* settings: "key=value" texts, or whole options ("--config=..."), NULL at the end (may be NULL).
 * Returns once it serves. */
void daemon_start(struct daemon_process *d, const char *const *settings);
/* The same without waiting until it serves. */
void daemon_launch(struct daemon_process *d, const char *const *settings);
/* SIGTERM, then waits. Returns the exit code; 128 + n when signal n ended it. Removes the
 * folder. */
int daemon_stop(struct daemon_process *d);
/* SIGKILL; the folder stays for daemon_restart or daemon_clean. */
void daemon_kill(struct daemon_process *d);
void daemon_restart(struct daemon_process *d, const char *const *settings);
void daemon_clean(struct daemon_process *d);
/* Starts another that takes this one's place, and waits for whichever ends: the exit code of the
 * one before, after which d is the successor; or -1, the successor has failed. */
int daemon_succeed(struct daemon_process *d, const char *const *settings);
/* What a daemon is started with beside its settings. */
struct daemon_surroundings {
    const char *notify_socket;   /* NULL: none */
    const int *fds;              /* as a service manager passes them, */
    const char *const *fd_names; /* with these names */
    int fd_count;
};
/* Starts one in d's folder and returns once it serves. */
void daemon_start_in(struct daemon_process *d, const char *const *settings,
                     const struct daemon_surroundings *in);

/* SIGSTOP, and returns once each of its threads stands: until SIGCONT it does nothing. */
void process_pause(pid_t pid);
/* Open descriptors, resident KiB, of any process. */
size_t process_descriptors(pid_t pid);
size_t process_resident_kib(pid_t pid);
/* Path of an executable of this build: build/<variant>/NAME. */
void build_path(const char *name, char *out, size_t size);
/* Whether the log has a line with text. */
bool daemon_logged(const struct daemon_process *d, const char *text);

/* ---- a socket without the client library ---- */

/* A blocking connection; a read that takes minutes ends the test. */
int raw_connect(const struct daemon_process *d);
/* All of it, without SIGPIPE. False: the daemon closed. */
bool raw_send(int fd, const void *bytes, size_t count);
/* Hello for a space ("" is default); its reply is read and checked. */
void raw_hello(int fd, const char *space);
/* Writes a whole frame: header, message, padding, body (body_bytes a multiple of 64). */
bool raw_send_frame(int fd, uint8_t kind, uint64_t request_id, const void *message,
                    uint32_t message_bytes, const void *body, uint64_t body_bytes);
/* Reads one frame. message: 65,536 bytes; *body is malloc'ed or NULL. False: closed before one. */
bool raw_receive_frame(int fd, struct frame_header *header, void *message, void **body);
/* Reads one frame that must be an Error; returns its code, and its detail and text when asked. */
uint32_t raw_receive_error(int fd, uint64_t *request_id, uint32_t *detail, char text[256]);
/* True when the daemon has closed: reading gives the end, after any bytes still there. */
bool raw_closed(int fd);

#endif
