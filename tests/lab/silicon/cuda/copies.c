/* Copies, and what each kind of pair does to them.

   A pair misbehaves only where one device reaches into the other's memory (`accessor`, `owner`).
   What an owner does with its own memory is always right, and so is what goes through the host,
   unless the card corrupts what it gets from there. */
#include <stdlib.h>
#include <string.h>

#include "state.h"

static const double LOCAL_GBS = 400, HOST_GBS = 12, HOST_LATENCY = 8, STAGED_LATENCY = 14;

enum { TOO_MUCH = 64 };

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

/* Of a card's own link: the pairs know it, a single card has none. */
static double host_rate(int device) {
    double rate = 0;
    for (int other = 0; other < conf.gpus; other++)
        if (conf.pair[device][other].staged > rate)
            rate = conf.pair[device][other].staged;
    return rate > 0 ? rate : HOST_GBS;
}

static const struct pair *window(int accessor, int owner) {
    return &conf.pair[accessor][owner];
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
    size_t wrong;
    note_change(to->allocation);
    switch (window(accessor, owner)->copy) {
    case COPY_STALE:
        deliver_late(to->memory, shadow_of(to->allocation, accessor) + to->offset, source, bytes);
        break;
    case CROWD_WRONG:
        if (!is_crowded(accessor, owner)) {
            memmove(to->memory, source, bytes);
            break;
        }
        /* fallthrough */
    case COPY_WRONG:
        memmove(to->memory, source, bytes);
        wrong = first_wrong_byte(accessor, owner, bytes);
        spoil(to->memory + wrong, bytes - wrong);
        break;
    case OVERRUN:
        memmove(to->memory, source, bytes);
        if (to->allocation->bytes - to->offset - bytes >= TOO_MUCH)
            memset(to->memory + bytes, 0xa5, TOO_MUCH);
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

static bool is_shared(const struct allocation *allocation) {
    return allocation->exported || allocation->opens;
}

/* Whether the same bytes are there from the copy before. Who measures a rate copies them again and
   again: moved each time, they would cost so much of this machine that its load decides how many
   copies there are until a deadline of real time. */
static bool is_there(const struct place *to, const struct place *from, size_t bytes) {
    const struct copied *last = &to->allocation->copied;
    return last->bytes == bytes && last->from == from->memory && last->to == to->memory &&
           last->from_changed == from->allocation->changed && !is_shared(to->allocation) &&
           !is_shared(from->allocation);
}

static CUresult time_direct(struct stream *stream, int from, int to, const struct pair *pair,
                            size_t bytes) {
    double rate = direct_rate(pair), both = pair->both;
    if (both > 2 * rate)
        both = 2 * rate;
    return add_transfer(stream, from, to, microseconds(bytes, rate, pair->latency),
                        microseconds(bytes, both / 2, pair->latency));
}

static CUresult copy_direct(struct stream *stream, struct place *to, struct place *from,
                            size_t bytes, int accessor) {
    int source = from->allocation->device, target = to->allocation->device;
    int owner = accessor == source ? target : source;
    come_to(is_crowded(accessor, owner) ? "crowd" : "copy");
    enum behaviour behaviour = window(accessor, owner)->copy;
    if (behaviour == COPY_HANG || (behaviour == CROWD_HANG && is_crowded(accessor, owner))) {
        hang(stream);
        return CUDA_SUCCESS;
    }
    from->memory = seen_by(from, accessor);
    to->memory = seen_by(to, accessor);
    if (behaviour != COPY_OK || !is_there(to, from, bytes)) {
        deliver(to, from->memory, bytes, accessor, owner);
        to->allocation->copied = (struct copied){from->memory, to->memory, bytes,
                                                 from->allocation->changed};
    }
    return time_direct(stream, source, target, window(accessor, owner), bytes);
}

static void receive_from_host(const struct place *to, size_t bytes) {
    int device = to->allocation->device;
    if (!conf.gpu[device].corrupts)
        return;
    size_t wrong = first_wrong_byte(device, device, bytes);
    spoil(to->memory + wrong, bytes - wrong);
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
        note_change(to->allocation);
        memmove(to->memory, from->memory, bytes);
        return add_work(stream, microseconds(bytes, LOCAL_GBS, 2));
    }
    count_copy(source);
    count_copy(target);
    if (is_lost(source) || is_lost(target))
        return CUDA_SUCCESS; /* queued; whoever waits for it, or touches the card, sees it */
    int accessor = accessor_of(current, source, target, either);
    if (accessor >= 0)
        return copy_direct(stream, to, from, bytes, accessor);
    note_change(to->allocation);
    memcpy(to->memory, from->memory, bytes);
    receive_from_host(to, bytes);
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
        (result = wait_for_kernels(request->stream)) ||
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
        (result = wait_for_kernels(stream)) || (wait && (result = wait_for_stream(stream))) ||
        (result = place_of(device, bytes, &place)))
        return leave(result);
    if (is_stuck(stream))
        return leave(CUDA_SUCCESS);
    unsigned char *memory = seen_by(&place, current->device);
    if (direction == TO_DEVICE)
        note_change(place.allocation);
    memcpy(direction == TO_HOST ? host : memory, direction == TO_HOST ? memory : host, bytes);
    if (direction == TO_DEVICE)
        receive_from_host(&place, bytes);
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
    enum behaviour behaviour = window(accessor, owner)->copy;
    if (behaviour == COPY_HANG || (behaviour == CROWD_HANG && is_crowded(accessor, owner))) {
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
    if ((result = stream_of(current, handle, &stream)) || (result = wait_for_kernels(stream)) ||
        (result = place_of(to, 4 * words, &place)))
        return leave(result);
    if (is_stuck(stream))
        return leave(CUDA_SUCCESS);
    if (can_reach(current->device, place.allocation->device))
        return leave(set_remote(stream, &place, word, words, current->device));
    note_change(place.allocation);
    fill(place.memory, word, words);
    return leave(add_work(stream, microseconds(4 * words, LOCAL_GBS, 2)));
}

CUAPI CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned word, size_t words) {
    return cuMemsetD32Async(to, word, words, NULL);
}
