/* cuda.conf, as tests/lab/README.md describes it; the library decides nothing else.

   Six lines more are understood. `lost are gone`: a process that begins when a card is lost does
   not see it, and numbers the others without it. `waits STEP
   PATH`: a program that comes to STEP (init, copy, a kernel's name, crowd, ipc, all-reduce or
   all-reduce-p2p) makes the file PATH and waits until the line is gone. `unkillable PATH` names a file on a frozen file system, to which
   a process writes as soon as something of its hangs, so that no signal ends it. `init hang` is a
   cuInit that never returns. `switch INDEX…` names cards that reach all others through one link.
   `falls INDEX COPIES PATH`: the card leaves the bus as its COPIES-th
   copy from or to another card begins, counted over all processes by the length of the file. */
#ifndef RIGSIM_CONF_H
#define RIGSIM_CONF_H

#include <stdbool.h>
#include <stddef.h>

#define MAX_GPUS 32

/* Copies are right from KERNEL_HANG on: three faults are those of kernels only, with MAP_FAILS peer
   access cannot be enabled though it is granted, with IPC_REFUSED memory of another process cannot
   be opened, OVERRUN copies too much, with WRAPS kernels reach no more than half a MiB of it, again and again, and CROWD_WRONG and CROWD_HANG are of copies while something moves elsewhere, too. With
   CROWD_SLOW, what leaves a switch for several places at once is slow. */
enum behaviour {
    COPY_OK, COPY_HANG, COPY_WRONG, COPY_MIRROR, COPY_STALE, COPY_SLOW,
    KERNEL_HANG, LOADS_WRONG, NO_FLAGS, MAP_FAILS, IPC_REFUSED,
    CROWD_WRONG, CROWD_HANG, OVERRUN, WRAPS, CROWD_SLOW,
};

struct gpu {
    char address[16];
    char uuid[64];
    char name[96];
    int major, minor;
    size_t bytes;
    bool lost;
    bool corrupts; /* bytes that come from the host are wrong from some offset on */
    long falls_with;
    char copies[192]; /* the file that counts them */
    int behind; /* the number of a switch; 0: it is behind none */
};

/* Rates in GB/s (1e9 bytes), latency in microseconds. */
struct pair {
    bool granted;
    bool nvlink;
    enum behaviour copy;
    double rate, both, latency, staged;
};

struct conf {
    char driver[32];
    char unkillable[256];
    bool init_hangs;
    bool lost_are_gone;
    char step[24]; /* at which the program waits, and the file by which it says so */
    char at_step[192];
    int gpus, switches;
    struct gpu gpu[MAX_GPUS];
    struct pair pair[MAX_GPUS][MAX_GPUS];
};

enum conf_read { CONF_SAME, CONF_NEW, CONF_MISSING, CONF_BROKEN };

/* Reads the file again if it is not the one that was read last. A missing or broken file leaves
   *conf as it was. */
enum conf_read conf_refresh(struct conf *conf);

#endif
