/* cuda.conf, as tests/lab/README.md describes it; the library decides nothing else.

   One line more is understood: `unkillable PATH` names a file on a frozen file system, to which a
   process writes as soon as a copy of its hangs, so that no signal ends it. */
#ifndef RIGSIM_CONF_H
#define RIGSIM_CONF_H

#include <stdbool.h>
#include <stddef.h>

#define MAX_GPUS 32

enum behaviour { COPY_OK, COPY_HANG, COPY_WRONG, COPY_MIRROR, COPY_STALE, COPY_SLOW };

struct gpu {
    char address[16];
    char uuid[64];
    char name[96];
    int major, minor;
    size_t bytes;
    bool lost;
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
    int gpus;
    struct gpu gpu[MAX_GPUS];
    struct pair pair[MAX_GPUS][MAX_GPUS];
};

enum conf_read { CONF_SAME, CONF_NEW, CONF_MISSING, CONF_BROKEN };

/* Reads the file again if it is not the one that was read last. A missing or broken file leaves
   *conf as it was. */
enum conf_read conf_refresh(struct conf *conf);

#endif
