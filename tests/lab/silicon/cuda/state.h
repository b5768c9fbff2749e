/* The state that the parts of libcuda share.

   One lock guards all of it: `enter` takes it and `leave` gives it back. Nothing else locks.
   Devices are named by their index in cuda.conf everywhere inside; only ordinals that callers pass
   go through the enumeration, because CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER change them. */
#ifndef RIGSIM_STATE_H
#define RIGSIM_STATE_H

#include <stdbool.h>

#include "api.h"
#include "conf.h"

struct context {
    int device;
    unsigned retained;
    unsigned flags;
    bool peers[MAX_GPUS];
    CUresult error; /* of a kernel; from then on every call fails with it */
    struct stream *null_stream;
};

/* A copy that bypassed its destination: what a mirrored window holds, or what a stale path still
   has to deliver. Seen by one device only. */
struct shadow {
    int accessor;
    unsigned char *bytes;
    struct shadow *next;
};

/* The last copy into an allocation, if nothing else has changed it since. */
struct copied {
    const unsigned char *from, *to;
    size_t bytes;
    unsigned long from_changed;
};

struct allocation {
    CUdeviceptr base;
    size_t bytes;
    int device;
    struct context *context;
    unsigned opens; /* 0: made by this process; otherwise how often it was opened over IPC */
    int file;
    unsigned char *mapped;
    char name[48];
    size_t room_from, room_to; /* where there is memory behind it for sure */
    bool exported;
    unsigned long changed; /* the number of its last change by this process */
    struct copied copied;
    struct shadow *shadows;
    struct allocation *next;
};

/* A piece of work on a stream, in simulated microseconds. `from` and `to` are -1 unless it moves
   data directly between two devices; the rest is of such work only. */
struct work {
    double earliest, length, end;
    double alone, both_length;
    int from, to;
    uint32_t beside; /* devices that send through the same link above a switch meanwhile */
    bool has_reverse, collapses;
};

struct stream {
    struct context *context;
    bool non_blocking;
    bool hung;
    struct work *work;
    size_t count, room;
    struct stream *next;
};

extern struct conf conf;
extern struct context contexts[MAX_GPUS];

/* devices.c */
CUresult enter_initialised(void);
void unlock(void);
void let_others_in(unsigned microseconds);
void come_to(const char *step);
bool is_lost(int device);
void count_copy(int device);
CUresult device_of(CUdevice ordinal, int *device);
int ordinal_of(int device);
void start_hanging(void);

static inline CUresult leave(CUresult result) {
    unlock();
    return result;
}

/* contexts.c */
CUresult enter(struct context **current);
bool is_active(const struct context *context);
struct context *current_context(void);
CUresult enable_peer(struct context *context, int peer);

/* memory.c */
struct allocation *allocation_at(CUdeviceptr pointer, size_t bytes);
CUresult memory_behind(struct allocation *allocation, size_t offset, size_t bytes,
                       unsigned char **memory);
void note_change(struct allocation *allocation);
unsigned char *shadow_of(struct allocation *allocation, int accessor);
void free_memory_of(struct context *context);
void remove_stale_memory(void);
extern unsigned memory_changes; /* grows with each allocation that goes */

/* windows.c */
bool can_reach(int device, int owner);
size_t first_wrong_byte(int accessor, int owner, size_t bytes);
void spoil(unsigned char *memory, size_t bytes);
double microseconds(size_t bytes, double gbs, double latency);
double direct_rate(const struct pair *pair);
double time_of_transfer(int accessor, int owner, uint64_t bytes);
uint64_t get_word(struct allocation *allocation, size_t offset, unsigned bytes, int accessor);
void put_word(struct allocation *allocation, size_t offset, uint64_t value, unsigned bytes,
              int accessor);

/* streams.c */
CUresult stream_of(struct context *current, CUstream handle, struct stream **stream);
bool make_null_stream(struct context *context);
void free_streams_of(struct context *context);
bool waits_for(const struct stream *stream, const struct stream *other);
bool is_stuck(struct stream *stream);
void hang(struct stream *stream);
CUresult wait_for_kernels(struct stream *stream);
CUresult wait_for_stream(struct stream *stream);
CUresult wait_for_context(struct context *context);
CUresult add_work(struct stream *stream, double length);
void finish_work(struct stream *stream, size_t at, double length);
bool is_crowded(int from, int to);
CUresult add_transfer(struct stream *stream, int from, int to, double alone, double with_reverse);

#endif
