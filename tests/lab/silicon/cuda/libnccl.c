/* As much of NCCL as a checked all-reduce within one process takes, on the public driver API.

   Ranks form a chain: sums travel up, the result travels down. A step goes over P2P where both
   directions are granted and NCCL_P2P_DISABLE is not 1, so that it meets what the pair does; other
   steps go through the host. A step that hangs takes the streams of all ranks along. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api.h"
#include "nccl_api.h"

#ifndef VERSION_CODE
#error "VERSION_CODE, as ncclGetVersion answers it, has to be given"
#endif

enum { MAX_RANKS = 32 };

#define DRIVER_FUNCTIONS(F)                                                                        \
    F(cuInit, (unsigned))                                                                          \
    F(cuDeviceCanAccessPeer, (int *, CUdevice, CUdevice))                                          \
    F(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                           \
    F(cuDevicePrimaryCtxRelease_v2, (CUdevice))                                                    \
    F(cuCtxPushCurrent_v2, (CUcontext))                                                            \
    F(cuCtxPopCurrent_v2, (CUcontext *))                                                           \
    F(cuCtxGetDevice, (CUdevice *))                                                                \
    F(cuCtxEnablePeerAccess, (CUcontext, unsigned))                                                \
    F(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                      \
    F(cuMemFree_v2, (CUdeviceptr))                                                                 \
    F(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))                         \
    F(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))                               \
    F(cuMemcpyPeerAsync, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream))       \
    F(cuStreamQuery, (CUstream))                                                                   \
    F(cuStreamWaitEvent, (CUstream, CUevent, unsigned))                                            \
    F(cuEventCreate, (CUevent *, unsigned))                                                        \
    F(cuEventRecord, (CUevent, CUstream))                                                          \
    F(cuEventDestroy_v2, (CUevent))

static struct {
#define MEMBER(name, arguments) CUresult(*name) arguments;
    DRIVER_FUNCTIONS(MEMBER)
#undef MEMBER
} driver;

struct call {
    CUdeviceptr send, receive;
    size_t count;
    ncclDataType_t type;
    CUstream stream;
    struct call *next;
};

struct rank {
    bool joined;
    CUdevice device;
    CUcontext context;
    CUdeviceptr scratch;
    size_t scratch_bytes;
    struct call *calls;
    unsigned posted;
};

struct clique {
    ncclUniqueId id;
    int size, joined, left;
    unsigned done;
    ncclResult_t result;
    bool p2p[MAX_RANKS]; /* between this rank and the one before it */
    struct rank ranks[MAX_RANKS];
    struct clique *next;
};

struct comm {
    struct clique *clique;
    int rank;
};

struct waiting {
    struct clique *clique;
    unsigned call; /* 0: for all ranks to join */
    struct waiting *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct clique *cliques;
static unsigned unique_ids;
static _Thread_local int group_depth;
static _Thread_local struct waiting *group_waits;

static ncclResult_t leave(ncclResult_t result) {
    pthread_mutex_unlock(&lock);
    return result;
}

static ncclResult_t checked(CUresult result) {
    return result ? ncclUnhandledCudaError : ncclSuccess;
}

static bool load_driver(void) {
    if (driver.cuInit)
        return true;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        return false;
#define LOAD(name, arguments) *(void **)&driver.name = dlsym(library, #name);
    DRIVER_FUNCTIONS(LOAD)
#undef LOAD
    return driver.cuInit != NULL;
}

static ncclResult_t start(void) {
    return load_driver() ? checked(driver.cuInit(0)) : ncclSystemError;
}

CUAPI ncclResult_t ncclGetVersion(int *version) {
    if (!version)
        return ncclInvalidArgument;
    *version = VERSION_CODE;
    return ncclSuccess;
}

CUAPI const char *ncclGetErrorString(ncclResult_t code) {
    static const char *const texts[] = {
        "no error",
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "internal error - please report this issue to the NCCL developers",
        "invalid argument (run with NCCL_DEBUG=WARN for details)",
        "invalid usage (run with NCCL_DEBUG=WARN for details)",
        "remote process exited or there was a network error",
        "NCCL operation in progress",
    };
    return (size_t)code < sizeof texts / sizeof *texts ? texts[code] : "unknown result code";
}

CUAPI ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    if (!id)
        return ncclInvalidArgument;
    pthread_mutex_lock(&lock);
    int words[2] = {getpid(), (int)++unique_ids};
    memset(id, 0, sizeof *id);
    memcpy(id, words, sizeof words);
    return leave(ncclSuccess);
}

/* ---- groups and waiting ---- */

static bool is_over(const struct waiting *waiting) {
    const struct clique *clique = waiting->clique;
    return waiting->call ? clique->done >= waiting->call : clique->joined == clique->size;
}

static ncclResult_t wait_until_over(const struct waiting *waiting) {
    while (!is_over(waiting))
        pthread_cond_wait(&changed, &lock);
    return waiting->clique->result;
}

/* Within a group nothing waits before its end. */
static ncclResult_t wait_or_defer(struct clique *clique, unsigned call) {
    struct waiting now = {clique, call, NULL};
    if (!group_depth)
        return wait_until_over(&now);
    struct waiting *later = malloc(sizeof *later);
    if (!later)
        return ncclSystemError;
    *later = now;
    later->next = group_waits;
    group_waits = later;
    return ncclSuccess;
}

CUAPI ncclResult_t ncclGroupStart(void) {
    group_depth++;
    return ncclSuccess;
}

CUAPI ncclResult_t ncclGroupEnd(void) {
    if (!group_depth)
        return ncclInvalidUsage;
    if (--group_depth)
        return ncclSuccess;
    ncclResult_t result = ncclSuccess;
    pthread_mutex_lock(&lock);
    while (group_waits) {
        struct waiting *waiting = group_waits;
        ncclResult_t one = wait_until_over(waiting);
        result = result ? result : one;
        group_waits = waiting->next;
        free(waiting);
    }
    return leave(result);
}

/* ---- communicators ---- */

static bool both_granted(CUdevice a, CUdevice b) {
    int there = 0, back = 0;
    driver.cuDeviceCanAccessPeer(&there, a, b);
    driver.cuDeviceCanAccessPeer(&back, b, a);
    return there && back;
}

static bool enable(const struct rank *from, const struct rank *to) {
    driver.cuCtxPushCurrent_v2(from->context);
    CUresult result = driver.cuCtxEnablePeerAccess(to->context, 0);
    driver.cuCtxPopCurrent_v2(NULL);
    return !result || result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

static void connect_ranks(struct clique *clique) {
    const char *disabled = getenv("NCCL_P2P_DISABLE");
    for (int r = 1; r < clique->size; r++) {
        const struct rank *below = &clique->ranks[r - 1], *above = &clique->ranks[r];
        clique->p2p[r] = !(disabled && atoi(disabled) == 1) &&
                         both_granted(below->device, above->device) && enable(below, above) &&
                         enable(above, below);
    }
}

static struct clique *clique_of(const ncclUniqueId *id, int size) {
    for (struct clique *clique = cliques; clique; clique = clique->next)
        if (!memcmp(&clique->id, id, sizeof *id))
            return clique->size == size ? clique : NULL;
    struct clique *clique = calloc(1, sizeof *clique);
    if (!clique)
        return NULL;
    clique->id = *id;
    clique->size = size;
    clique->next = cliques;
    cliques = clique;
    return clique;
}

static ncclResult_t join(ncclComm_t *joined, const ncclUniqueId *id, int size, int at,
                         CUdevice device) {
    int maker;
    memcpy(&maker, id, sizeof maker);
    if (maker != getpid())
        return ncclInvalidUsage;
    struct clique *clique = clique_of(id, size);
    if (!clique || clique->ranks[at].joined)
        return ncclInvalidUsage;
    ncclComm_t comm = calloc(1, sizeof *comm);
    struct rank *rank = &clique->ranks[at];
    if (!comm || driver.cuDevicePrimaryCtxRetain(&rank->context, device)) {
        free(comm);
        return ncclUnhandledCudaError;
    }
    rank->joined = true;
    rank->device = device;
    *comm = (struct comm){clique, at};
    *joined = comm;
    if (++clique->joined == size)
        connect_ranks(clique);
    pthread_cond_broadcast(&changed);
    return ncclSuccess;
}

CUAPI ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank) {
    CUdevice device;
    if (!comm || size < 1 || size > MAX_RANKS || rank < 0 || rank >= size)
        return ncclInvalidArgument;
    pthread_mutex_lock(&lock);
    ncclResult_t result = start();
    if (result || (result = checked(driver.cuCtxGetDevice(&device))) ||
        (result = join(comm, &id, size, rank, device)))
        return leave(result);
    return leave(wait_or_defer((*comm)->clique, 0));
}

CUAPI ncclResult_t ncclCommInitAll(ncclComm_t *comms, int size, const int *devices) {
    ncclUniqueId id;
    if (!comms || size < 1 || size > MAX_RANKS)
        return ncclInvalidArgument;
    ncclGetUniqueId(&id);
    pthread_mutex_lock(&lock);
    ncclResult_t result = start();
    for (int rank = 0; rank < size && !result; rank++)
        result = join(&comms[rank], &id, size, rank, devices ? devices[rank] : rank);
    return leave(result);
}

static void forget(struct clique *clique) {
    struct clique **link = &cliques;
    while (*link != clique)
        link = &(*link)->next;
    *link = clique->next;
    free(clique);
}

static void part(ncclComm_t comm) {
    if (++comm->clique->left == comm->clique->size)
        forget(comm->clique);
    free(comm);
}

CUAPI ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    if (!comm)
        return ncclSuccess;
    struct rank *rank = &comm->clique->ranks[comm->rank];
    if (rank->scratch) {
        driver.cuCtxPushCurrent_v2(rank->context);
        driver.cuMemFree_v2(rank->scratch);
        driver.cuCtxPopCurrent_v2(NULL);
    }
    driver.cuDevicePrimaryCtxRelease_v2(rank->device);
    pthread_mutex_lock(&lock);
    part(comm);
    return leave(ncclSuccess);
}

/* Waits for nothing, so it leaves the device memory to the end of the process. */
CUAPI ncclResult_t ncclCommAbort(ncclComm_t comm) {
    if (!comm)
        return ncclSuccess;
    pthread_mutex_lock(&lock);
    part(comm);
    return leave(ncclSuccess);
}

CUAPI ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
    if (!comm || !error)
        return ncclInvalidArgument;
    pthread_mutex_lock(&lock);
    *error = comm->clique->result;
    return leave(ncclSuccess);
}

CUAPI ncclResult_t ncclCommCount(ncclComm_t comm, int *count) {
    if (!comm || !count)
        return ncclInvalidArgument;
    *count = comm->clique->size;
    return ncclSuccess;
}

CUAPI ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank) {
    if (!comm || !rank)
        return ncclInvalidArgument;
    *rank = comm->rank;
    return ncclSuccess;
}

/* ---- all-reduce ---- */

static void add(ncclDataType_t type, void *sum, const void *more, size_t count) {
    float *floats = sum;
    uint32_t *words = sum;
    for (size_t i = 0; i < count; i++)
        if (type == ncclFloat32)
            floats[i] += ((const float *)more)[i];
        else
            words[i] += ((const uint32_t *)more)[i];
}

/* With the rank's device as the current one; the copies of this driver are done when they return,
   or never. */
static ncclResult_t fetch(const struct rank *rank, void *to, CUdeviceptr from, size_t bytes) {
    driver.cuCtxPushCurrent_v2(rank->context);
    CUresult result = driver.cuMemcpyDtoHAsync_v2(to, from, bytes, rank->calls->stream);
    driver.cuCtxPopCurrent_v2(NULL);
    return checked(result);
}

static ncclResult_t put(const struct rank *rank, CUdeviceptr to, const void *from, size_t bytes) {
    driver.cuCtxPushCurrent_v2(rank->context);
    CUresult result = driver.cuMemcpyHtoDAsync_v2(to, from, bytes, rank->calls->stream);
    driver.cuCtxPopCurrent_v2(NULL);
    return checked(result);
}

static ncclResult_t make_scratch(struct rank *rank, size_t bytes) {
    if (rank->scratch_bytes >= bytes)
        return ncclSuccess;
    driver.cuCtxPushCurrent_v2(rank->context);
    if (rank->scratch)
        driver.cuMemFree_v2(rank->scratch);
    rank->scratch = 0;
    CUresult result = driver.cuMemAlloc_v2(&rank->scratch, bytes);
    driver.cuCtxPopCurrent_v2(NULL);
    rank->scratch_bytes = result ? 0 : bytes;
    return checked(result);
}

/* The stream of `to` goes on when that of `from` has come here: never, if it hangs. */
static ncclResult_t follow(const struct rank *from, const struct rank *to) {
    CUevent event;
    driver.cuCtxPushCurrent_v2(from->context);
    CUresult result = driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (!result) {
        result = driver.cuEventRecord(event, from->calls->stream);
        driver.cuCtxPushCurrent_v2(to->context);
        result = result ? result : driver.cuStreamWaitEvent(to->calls->stream, event, 0);
        driver.cuCtxPopCurrent_v2(NULL);
        driver.cuEventDestroy_v2(event);
    }
    driver.cuCtxPopCurrent_v2(NULL);
    return checked(result);
}

struct step {
    struct rank *from, *to;
    CUdeviceptr source, target;
    bool p2p;
};

static ncclResult_t take(const struct step *step, void *host, size_t bytes) {
    if (!step->p2p) {
        ncclResult_t result = fetch(step->from, host, step->source, bytes);
        return result ? result : put(step->to, step->target, host, bytes);
    }
    driver.cuCtxPushCurrent_v2(step->from->context);
    CUresult result =
        driver.cuMemcpyPeerAsync(step->target, step->to->context, step->source,
                                 step->from->context, bytes, step->from->calls->stream);
    driver.cuCtxPopCurrent_v2(NULL);
    return result ? ncclUnhandledCudaError : follow(step->from, step->to);
}

static bool hangs(const struct rank *rank) {
    driver.cuCtxPushCurrent_v2(rank->context);
    CUresult result = driver.cuStreamQuery(rank->calls->stream);
    driver.cuCtxPopCurrent_v2(NULL);
    return result == CUDA_ERROR_NOT_READY;
}

static ncclResult_t reduce_up(struct clique *clique, char *sum, char *more, size_t bytes,
                              int *last) {
    struct rank *ranks = clique->ranks;
    for (int r = 0; r < clique->size; r++) {
        ncclResult_t result = make_scratch(&ranks[r], bytes);
        struct step step = {&ranks[r - !!r], &ranks[r], ranks[r - !!r].calls->receive,
                            ranks[r].scratch, clique->p2p[r]};
        if (result || (r && (result = take(&step, more, bytes))))
            return result;
        *last = r;
        if (hangs(&ranks[r]))
            return ncclSuccess;
        if ((result = fetch(&ranks[r], sum, ranks[r].calls->send, bytes)) ||
            (r && (result = fetch(&ranks[r], more, ranks[r].scratch, bytes))))
            return result;
        if (r)
            add(ranks[r].calls->type, sum, more, ranks[r].calls->count);
        if ((result = put(&ranks[r], ranks[r].calls->receive, sum, bytes)))
            return result;
    }
    return ncclSuccess;
}

static ncclResult_t send_down(struct clique *clique, char *host, size_t bytes, int *last) {
    struct rank *ranks = clique->ranks;
    for (int r = clique->size - 1; r > 0; r--) {
        struct step step = {&ranks[r], &ranks[r - 1], ranks[r].calls->receive,
                            ranks[r - 1].calls->receive, clique->p2p[r]};
        ncclResult_t result = take(&step, host, bytes);
        *last = r - 1;
        if (result || hangs(&ranks[r - 1]))
            return result;
    }
    return ncclSuccess;
}

static ncclResult_t all_reduce(struct clique *clique) {
    struct rank *ranks = clique->ranks;
    size_t bytes = ranks[0].calls->count * 4;
    char *sum = malloc(bytes + 1), *more = malloc(bytes + 1);
    int last = 0;
    ncclResult_t result = sum && more ? ncclSuccess : ncclSystemError;
    if (!result)
        result = reduce_up(clique, sum, more, bytes, &last);
    if (!result && !hangs(&ranks[last]))
        result = send_down(clique, sum, bytes, &last);
    for (int r = 0; r < clique->size && !result; r++)
        if (r != last)
            result = follow(&ranks[last], &ranks[r]);
    free(sum);
    free(more);
    return result;
}

static bool all_posted(const struct clique *clique) {
    for (int r = 0; r < clique->size; r++)
        if (!clique->ranks[r].calls)
            return false;
    return true;
}

static bool calls_agree(const struct clique *clique) {
    const struct call *first = clique->ranks[0].calls;
    for (int r = 1; r < clique->size; r++)
        if (clique->ranks[r].calls->count != first->count ||
            clique->ranks[r].calls->type != first->type)
            return false;
    return true;
}

static void run_posted(struct clique *clique) {
    while (all_posted(clique)) {
        ncclResult_t result = calls_agree(clique) ? all_reduce(clique) : ncclInvalidUsage;
        clique->result = clique->result ? clique->result : result;
        for (int r = 0; r < clique->size; r++) {
            struct call *call = clique->ranks[r].calls;
            clique->ranks[r].calls = call->next;
            free(call);
        }
        clique->done++;
        pthread_cond_broadcast(&changed);
    }
}

CUAPI ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count, ncclDataType_t type,
                                 ncclRedOp_t operation, ncclComm_t comm, CUstream stream) {
    bool known = type == ncclInt32 || type == ncclUint32 || type == ncclFloat32;
    if (!comm || !count || !send || !receive || !known || operation != ncclSum)
        return ncclInvalidArgument;
    struct call *call = calloc(1, sizeof *call);
    if (!call)
        return ncclSystemError;
    *call = (struct call){(CUdeviceptr)send, (CUdeviceptr)receive, count, type, stream, NULL};
    pthread_mutex_lock(&lock);
    struct clique *clique = comm->clique;
    struct rank *rank = &clique->ranks[comm->rank];
    struct call **last = &rank->calls;
    while (*last)
        last = &(*last)->next;
    *last = call;
    unsigned number = ++rank->posted;
    run_posted(clique);
    return leave(wait_or_defer(clique, number));
}
