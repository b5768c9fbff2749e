/* Copies, and what each kind of pair does to them.

   A pair misbehaves only where one device reaches into the other's memory (`accessor`, `owner`).
   What goes through the host, and what an owner does with its own memory, is always right. */
#include <stdlib.h>
#include <string.h>

#include "state.h"

enum { PAGE = 4096, ALWAYS_RIGHT_BELOW = 64 * 1024 };

static const double LOCAL_GBS = 400, HOST_GBS = 12, HOST_LATENCY = 8, STAGED_LATENCY = 14;

struct place {
    struct allocation *allocation;
    size_t offset;
    unsigned char *memory;
};

static CUresult place_of(CUdeviceptr pointer, size_t bytes, struct place *place) {
    place->allocation = allocation_at(pointer, bytes);
    if (!place->allocation)
        return CUDA_ERROR_INVALID_VALUE;
    if (is_lost(place->allocation->device))
        return CUDA_ERROR_UNKNOWN;
    place->offset = (size_t)(pointer - place->allocation->base);
    return memory_behind(place->allocation, place->offset, bytes, &place->memory);
}

static double microseconds(size_t bytes, double gbs, double latency) {
    return latency + (double)bytes / (gbs * 1e3);
}

/* Of a card's own link: the pairs know it, a single card has none. */
static double host_rate(int device) {
    double rate = 0;
    for (int other = 0; other < conf.gpus; other++)
        if (conf.pair[device][other].staged > rate)
            rate = conf.pair[device][other].staged;
    return rate > 0 ? rate : HOST_GBS;
}

static bool can_reach(int device, int owner) {
    return contexts[device].retained && contexts[device].peers[owner];
}

static const struct pair *window(int accessor, int owner) {
    return &conf.pair[accessor][owner];
}

/* The offset is the same for each run of the same pair and size. */
static size_t first_wrong_byte(int accessor, int owner, size_t bytes) {
    uint64_t seed = (uint64_t)(accessor * MAX_GPUS + owner) * 0x9e3779b97f4a7c15ULL + bytes;
    seed ^= seed >> 29;
    return (1 + (size_t)(seed * 0xbf58476d1ce4e5b9ULL >> 33) % (bytes / PAGE / 2)) * PAGE;
}

/* Adding, because an exclusive or would undo itself on the way back. */
static void spoil(unsigned char *memory, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        memory[i] = (unsigned char)(memory[i] + 0x5b);
}

/* The shadow holds what the copy before should have brought; this copy's data waits there. */
static void deliver_late(unsigned char *memory, unsigned char *shadow, const unsigned char *source,
                         size_t bytes) {
    memcpy(memory, shadow, bytes);
    memcpy(shadow, source, bytes);
}

/* Data that leaves `accessor` for memory of `owner`, or that it fetches from there. */
static void deliver(const struct place *to, const unsigned char *source, size_t bytes, int accessor,
                    int owner) {
    switch (window(accessor, owner)->copy) {
    case COPY_STALE:
        deliver_late(to->memory, shadow_of(to->allocation, accessor) + to->offset, source, bytes);
        break;
    case COPY_WRONG:
        memmove(to->memory, source, bytes);
        if (bytes >= ALWAYS_RIGHT_BELOW) {
            size_t wrong = first_wrong_byte(accessor, owner, bytes);
            spoil(to->memory + wrong, bytes - wrong);
        }
        break;
    default:
        memmove(to->memory, source, bytes);
    }
}

/* Memory as `accessor` sees it: a mirrored window shows a copy that the owner knows nothing of. */
static unsigned char *seen_by(const struct place *place, int accessor) {
    int owner = place->allocation->device;
    bool mirrored = accessor != owner && can_reach(accessor, owner) &&
                    window(accessor, owner)->copy == COPY_MIRROR;
    return mirrored ? shadow_of(place->allocation, accessor) + place->offset : place->memory;
}

static CUresult time_direct(struct stream *stream, int from, int to, const struct pair *pair,
                            size_t bytes) {
    double rate = pair->rate, both = pair->both;
    if (pair->copy == COPY_SLOW && rate >= pair->staged)
        rate = pair->staged / 2;
    if (both > 2 * rate)
        both = 2 * rate;
    return add_transfer(stream, from, to, microseconds(bytes, rate, pair->latency),
                        microseconds(bytes, both / 2, pair->latency));
}

static CUresult copy_direct(struct stream *stream, struct place *to, struct place *from,
                            size_t bytes, int accessor) {
    int source = from->allocation->device, target = to->allocation->device;
    int owner = accessor == source ? target : source;
    if (window(accessor, owner)->copy == COPY_HANG) {
        hang(stream);
        return CUDA_SUCCESS;
    }
    from->memory = seen_by(from, accessor);
    to->memory = seen_by(to, accessor);
    deliver(to, from->memory, bytes, accessor, owner);
    return time_direct(stream, source, target, window(accessor, owner), bytes);
}

/* -1: neither may, so the copy goes through the host. The current device comes first; whether the
   other one's permission counts, differs between cuMemcpyDtoD and cuMemcpyPeer. */
static int accessor_of(int current, int source, int target, bool either) {
    if (current == source && can_reach(source, target))
        return source;
    if (current == target && can_reach(target, source))
        return target;
    if (either && can_reach(source, target))
        return source;
    if (either && can_reach(target, source))
        return target;
    return -1;
}

static CUresult copy(struct stream *stream, struct place *to, struct place *from, size_t bytes,
                     int current, bool either) {
    int source = from->allocation->device, target = to->allocation->device;
    if (is_stuck(stream))
        return CUDA_SUCCESS;
    if (source == target) {
        memmove(to->memory, from->memory, bytes);
        return add_work(stream, microseconds(bytes, LOCAL_GBS, 2));
    }
    int accessor = accessor_of(current, source, target, either);
    if (accessor >= 0)
        return copy_direct(stream, to, from, bytes, accessor);
    memcpy(to->memory, from->memory, bytes);
    return add_work(stream, microseconds(bytes, conf.pair[source][target].staged, STAGED_LATENCY));
}

struct copy_request {
    struct context *current;
    struct stream *stream;
    struct place to, from;
};

static CUresult enter_copy(struct copy_request *request, CUdeviceptr to, CUdeviceptr from,
                           size_t bytes, CUstream stream) {
    CUresult result = enter(&request->current);
    if (result)
        return result;
    if ((result = stream_of(request->current, stream, &request->stream)) ||
        (result = place_of(to, bytes, &request->to)) ||
        (result = place_of(from, bytes, &request->from)))
        return leave(result);
    return CUDA_SUCCESS;
}

CUAPI CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                    CUstream stream) {
    struct copy_request request;
    CUresult result = enter_copy(&request, to, from, bytes, stream);
    if (result)
        return result;
    return leave(copy(request.stream, &request.to, &request.from, bytes, request.current->device,
                      false));
}

/* Does not wait, as the real one does not. */
CUAPI CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return cuMemcpyDtoDAsync_v2(to, from, bytes, NULL);
}

static bool belongs(const struct allocation *allocation, const struct context *context) {
    return is_active(context) &&
           (allocation->context == context || allocation->device == context->device);
}

/* cuMemcpyPeer is in order with all three contexts, so a hang takes all three along. */
static void hang_with(struct stream *stream, CUcontext to, CUcontext from) {
    to->null_stream->hung |= stream->hung;
    from->null_stream->hung |= stream->hung;
}

static CUresult copy_peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                          CUcontext from_context, size_t bytes, CUstream stream, bool ordered) {
    struct copy_request request;
    CUresult result = enter_copy(&request, to, from, bytes, stream);
    if (result)
        return result;
    if (!is_active(to_context) || !is_active(from_context))
        return leave(CUDA_ERROR_INVALID_CONTEXT);
    if (!belongs(request.to.allocation, to_context) ||
        !belongs(request.from.allocation, from_context))
        return leave(CUDA_ERROR_INVALID_VALUE);
    result = copy(request.stream, &request.to, &request.from, bytes, request.current->device, true);
    if (ordered)
        hang_with(request.stream, to_context, from_context);
    return leave(result);
}

CUAPI CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                            CUcontext from_context, size_t bytes) {
    return copy_peer(to, to_context, from, from_context, bytes, NULL, true);
}

CUAPI CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                 CUcontext from_context, size_t bytes, CUstream stream) {
    return copy_peer(to, to_context, from, from_context, bytes, stream, false);
}

enum direction { TO_DEVICE, TO_HOST };

static CUresult copy_host(enum direction direction, CUdeviceptr device, void *host, size_t bytes,
                          CUstream handle, bool wait) {
    struct context *current;
    struct stream *stream;
    struct place place;
    CUresult result = enter(&current);
    if (result)
        return result;
    if ((result = stream_of(current, handle, &stream)) ||
        (wait && (result = wait_for_stream(stream))) ||
        (result = place_of(device, bytes, &place)))
        return leave(result);
    if (is_stuck(stream))
        return leave(CUDA_SUCCESS);
    unsigned char *memory = seen_by(&place, current->device);
    memcpy(direction == TO_HOST ? host : memory, direction == TO_HOST ? memory : host, bytes);
    double rate = host_rate(place.allocation->device);
    result = add_work(stream, microseconds(bytes, rate, HOST_LATENCY));
    return leave(wait && !result ? wait_for_stream(stream) : result);
}

CUAPI CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
    return copy_host(TO_DEVICE, to, (void *)from, bytes, NULL, true);
}

CUAPI CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                                    CUstream stream) {
    return copy_host(TO_DEVICE, to, (void *)from, bytes, stream, false);
}

CUAPI CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
    return copy_host(TO_HOST, from, to, bytes, NULL, true);
}

CUAPI CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy_host(TO_HOST, from, to, bytes, stream, false);
}

static void fill(unsigned char *memory, unsigned word, size_t words) {
    for (size_t i = 0; i < words; i++)
        memcpy(memory + 4 * i, &word, 4);
}

/* A set of another card's memory crosses the window like a copy. */
static CUresult set_remote(struct stream *stream, struct place *to, unsigned word, size_t words,
                           int accessor) {
    int owner = to->allocation->device;
    if (window(accessor, owner)->copy == COPY_HANG) {
        hang(stream);
        return CUDA_SUCCESS;
    }
    unsigned char *source = malloc(4 * words + 1);
    if (!source)
        return CUDA_ERROR_OUT_OF_MEMORY;
    fill(source, word, words);
    to->memory = seen_by(to, accessor);
    deliver(to, source, 4 * words, accessor, owner);
    free(source);
    return time_direct(stream, accessor, owner, window(accessor, owner), 4 * words);
}

CUAPI CUresult cuMemsetD32Async(CUdeviceptr to, unsigned word, size_t words, CUstream handle) {
    struct context *current;
    struct stream *stream;
    struct place place;
    CUresult result = enter(&current);
    if (result)
        return result;
    if (to % 4 || words > SIZE_MAX / 4)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = stream_of(current, handle, &stream)) ||
        (result = place_of(to, 4 * words, &place)))
        return leave(result);
    if (is_stuck(stream))
        return leave(CUDA_SUCCESS);
    if (can_reach(current->device, place.allocation->device))
        return leave(set_remote(stream, &place, word, words, current->device));
    fill(place.memory, word, words);
    return leave(add_work(stream, microseconds(4 * words, LOCAL_GBS, 2)));
}

CUAPI CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned word, size_t words) {
    return cuMemsetD32Async(to, word, words, NULL);
}
