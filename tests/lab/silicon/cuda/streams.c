/* Streams and events. Work is done when it is queued; only its time is simulated. Kernels are the
   exception: they run while the host waits, and copies that come after one wait for it.

   Each stream is a list of work on one simulated clock in microseconds. `host_now` is how far the
   host has seen that clock: nothing that is queued later starts earlier. Work that is queued
   without waiting in between overlaps, as on a card. */
#include <stdlib.h>
#include <string.h>

#include "execute.h"

#define LEGACY_STREAM ((CUstream)1)
#define PER_THREAD_STREAM ((CUstream)2)

enum { NAP = 20000 };

static const double SLICE = 0.005, ASKED = 0.05, COLLAPSE = 8;

struct event {
    struct context *context;
    unsigned flags;
    bool recorded, hung, asked;
    struct stream *stream; /* NULL once the stream is gone; `fixed` holds the time then */
    size_t work;
    double fixed;
    struct event *next;
};

static struct stream *streams;
static struct event *events;
static double host_now;

static double end_of(const struct stream *stream) {
    return stream->count ? stream->work[stream->count - 1].end : 0;
}

static void settle(struct stream *stream, size_t from) {
    double end = from ? stream->work[from - 1].end : 0;
    for (size_t i = from; i < stream->count; i++) {
        struct work *work = &stream->work[i];
        end = (work->earliest > end ? work->earliest : end) + work->length;
        work->end = end;
    }
}

/* The null stream waits for every blocking stream of its context, and they wait for it. */
bool waits_for(const struct stream *stream, const struct stream *other) {
    if (stream == other)
        return true;
    if (stream->context != other->context || stream->non_blocking || other->non_blocking)
        return false;
    struct stream *null_stream = stream->context->null_stream;
    return stream == null_stream || other == null_stream;
}

static double earliest_start(const struct stream *stream) {
    double start = host_now;
    for (const struct stream *other = streams; other; other = other->next)
        if (waits_for(stream, other) && end_of(other) > start)
            start = end_of(other);
    return start;
}

bool is_stuck(struct stream *stream) {
    for (const struct stream *other = streams; other && !stream->hung; other = other->next)
        stream->hung = other->hung && waits_for(stream, other);
    return stream->hung;
}

void hang(struct stream *stream) {
    stream->hung = true;
    start_hanging();
}

static CUresult add(struct stream *stream, struct work work) {
    if (stream->count == stream->room) {
        size_t room = stream->room ? 2 * stream->room : 64;
        struct work *larger = realloc(stream->work, room * sizeof *larger);
        if (!larger)
            return CUDA_ERROR_OUT_OF_MEMORY;
        stream->work = larger;
        stream->room = room;
    }
    double earliest = earliest_start(stream);
    if (work.earliest < earliest)
        work.earliest = earliest;
    stream->work[stream->count++] = work;
    settle(stream, stream->count - 1);
    return CUDA_SUCCESS;
}

CUresult add_work(struct stream *stream, double length) {
    return add(stream, (struct work){.length = length, .from = -1, .to = -1});
}

void finish_work(struct stream *stream, size_t at, double length) {
    stream->work[at].length = length;
    settle(stream, at);
}

static void slow_down(struct stream *stream, size_t at) {
    struct work *work = &stream->work[at];
    double length = work->alone * (1 + __builtin_popcount(work->beside));
    if (work->has_reverse && length < work->both_length)
        length = work->both_length;
    if (work->collapses)
        length = work->alone * COLLAPSE;
    if (work->length < length) {
        work->length = length;
        settle(stream, at);
    }
}

static bool leave_one_switch(const struct work *one, const struct work *other) {
    int behind = conf.gpu[one->from].behind;
    return behind && behind == conf.gpu[other->from].behind &&
           behind != conf.gpu[one->to].behind && behind != conf.gpu[other->to].behind;
}

static bool enter_one_switch(const struct work *one, const struct work *other) {
    int behind = conf.gpu[one->to].behind;
    return behind && behind == conf.gpu[other->to].behind &&
           behind != conf.gpu[one->from].behind && behind != conf.gpu[other->from].behind;
}

static bool go_apart(const struct work *one, const struct work *other) {
    int behind = conf.gpu[one->to].behind;
    return one->to != other->to && (!behind || behind != conf.gpu[other->to].behind);
}

/* Two transfers of opposite directions that overlap share what the link does both ways, and two
   that leave or enter one switch share the link above it. */
static void share(struct work *mine, struct work *theirs) {
    if (theirs->from == mine->to && theirs->to == mine->from)
        mine->has_reverse = theirs->has_reverse = true;
    if (theirs->from == mine->from)
        return;
    bool leave = leave_one_switch(mine, theirs);
    if (leave || enter_one_switch(mine, theirs)) {
        mine->beside |= 1U << theirs->from;
        theirs->beside |= 1U << mine->from;
    }
    if (leave && go_apart(mine, theirs)) {
        mine->collapses |= conf.pair[mine->from][mine->to].copy == CROWD_SLOW;
        theirs->collapses |= conf.pair[theirs->from][theirs->to].copy == CROWD_SLOW;
    }
}

static void share_with_others(struct stream *stream, struct stream *other) {
    for (size_t i = other->count; i-- > 0;) {
        struct work *mine = &stream->work[stream->count - 1];
        struct work *theirs = &other->work[i];
        if (theirs->end <= mine->end - mine->length)
            return;
        if (theirs->from >= 0 && theirs->end - theirs->length < mine->end) {
            share(mine, theirs);
            slow_down(stream, stream->count - 1);
            slow_down(other, i);
        }
    }
}

/* Whether something moves between two other cards, or between one of these and another. */
bool is_crowded(int from, int to) {
    for (const struct stream *stream = streams; stream; stream = stream->next) {
        const struct work *last = stream->count ? &stream->work[stream->count - 1] : NULL;
        if (!last || last->from < 0 || last->end <= host_now)
            continue;
        if (!(last->from == from && last->to == to) && !(last->from == to && last->to == from))
            return true;
    }
    return false;
}

CUresult add_transfer(struct stream *stream, int from, int to, double alone, double with_reverse) {
    CUresult result = add(stream, (struct work){.length = alone, .alone = alone,
                                                .both_length = with_reverse,
                                                .from = from, .to = to});
    for (struct stream *other = streams; other && !result; other = other->next)
        if (other != stream)
            share_with_others(stream, other);
    return result;
}

static bool is_known(const struct stream *stream) {
    for (const struct stream *known = streams; known; known = known->next)
        if (known == stream)
            return true;
    return false;
}

static void go_on(void) {
    let_others_in(run_kernels(SLICE) ? 0 : NAP);
}

static bool has_any_kernels(const struct stream *stream) {
    return has_kernels(stream, stream->count);
}

/* Of the stream and of those that it waits for. Returns at once where one of them hangs. */
CUresult wait_for_kernels(struct stream *stream) {
    struct context *context = stream->context;
    for (struct stream *other = streams; other;) {
        if (!waits_for(stream, other) || !has_any_kernels(other) || is_stuck(other)) {
            other = other->next;
            continue;
        }
        go_on();
        if (is_lost(context->device))
            return CUDA_ERROR_UNKNOWN;
        if (context->error)
            return context->error;
        if (!is_known(stream))
            return CUDA_ERROR_INVALID_HANDLE;
        other = streams;
    }
    return CUDA_SUCCESS;
}

CUresult wait_for_stream(struct stream *stream) {
    struct context *context = stream->context;
    while (is_stuck(stream) || has_any_kernels(stream)) {
        go_on();
        if (is_lost(context->device))
            return CUDA_ERROR_UNKNOWN;
        if (!is_known(stream))
            return CUDA_ERROR_INVALID_HANDLE;
    }
    if (context->error)
        return context->error;
    if (end_of(stream) > host_now)
        host_now = end_of(stream);
    return CUDA_SUCCESS;
}

static struct stream *first_busy(const struct context *context) {
    for (struct stream *stream = streams; stream; stream = stream->next)
        if (stream->context == context && (is_stuck(stream) || has_any_kernels(stream)))
            return stream;
    return NULL;
}

CUresult wait_for_context(struct context *context) {
    CUresult result = CUDA_SUCCESS;
    for (struct stream *busy; !result && (busy = first_busy(context));)
        result = wait_for_stream(busy);
    for (struct stream *stream = streams; stream && !result; stream = stream->next)
        if (stream->context == context)
            result = wait_for_stream(stream);
    return result;
}

static struct stream *make_stream(struct context *context, bool non_blocking) {
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->context = context;
    stream->non_blocking = non_blocking;
    stream->next = streams;
    streams = stream;
    return stream;
}

bool make_null_stream(struct context *context) {
    context->null_stream = make_stream(context, false);
    return context->null_stream != NULL;
}

static void free_stream(struct stream *stream) {
    for (struct event *event = events; event; event = event->next)
        if (event->stream == stream) {
            event->fixed = stream->work[event->work].end;
            event->stream = NULL;
        }
    struct stream **link = &streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    free(stream->work);
    free(stream);
}

static void free_event(struct event *event) {
    struct event **link = &events;
    while (*link != event)
        link = &(*link)->next;
    *link = event->next;
    free(event);
}

void free_streams_of(struct context *context) {
    for (struct event *next, *event = events; event; event = next) {
        next = event->next;
        if (event->context == context)
            free_event(event);
    }
    for (struct stream *next, *stream = streams; stream; stream = next) {
        next = stream->next;
        if (stream->context == context)
            free_stream(stream);
    }
    context->null_stream = NULL;
}

CUresult stream_of(struct context *current, CUstream handle, struct stream **stream) {
    bool is_null = !handle || handle == LEGACY_STREAM || handle == PER_THREAD_STREAM;
    *stream = is_null ? current->null_stream : handle;
    return is_null || is_known(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* Like enter, with a stream; the stream's card has to be there, too. */
static CUresult enter_stream(CUstream handle, struct stream **stream) {
    struct context *current;
    CUresult result = enter(&current);
    if (result)
        return result;
    if ((result = stream_of(current, handle, stream)))
        return leave(result);
    if (is_lost((*stream)->context->device))
        return leave(CUDA_ERROR_UNKNOWN);
    return (*stream)->context->error ? leave((*stream)->context->error) : CUDA_SUCCESS;
}

CUAPI CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    struct context *current;
    CUresult result = enter(&current);
    if (result)
        return result;
    if (!stream || flags > CU_STREAM_NON_BLOCKING)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *stream = make_stream(current, flags == CU_STREAM_NON_BLOCKING);
    return leave(*stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

/* Returns at once; work that hangs or runs stays, and goes on blocking whoever waits for the
   context. */
CUAPI CUresult cuStreamDestroy_v2(CUstream handle) {
    struct stream *stream;
    CUresult result = enter_stream(handle, &stream);
    if (result)
        return result;
    if (stream == stream->context->null_stream)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    if (!is_stuck(stream) && !has_any_kernels(stream))
        free_stream(stream);
    return leave(CUDA_SUCCESS);
}

CUAPI CUresult cuStreamQuery(CUstream handle) {
    struct stream *stream;
    CUresult result = enter_stream(handle, &stream);
    if (result)
        return result;
    if (has_any_kernels(stream))
        run_kernels(ASKED); /* who asks sleeps until the next time */
    bool busy = !stream->context->error && (is_stuck(stream) || has_any_kernels(stream));
    return leave(busy ? CUDA_ERROR_NOT_READY : wait_for_stream(stream));
}

CUAPI CUresult cuStreamSynchronize(CUstream handle) {
    struct stream *stream;
    CUresult result = enter_stream(handle, &stream);
    return result ? result : leave(wait_for_stream(stream));
}

static bool is_event(const struct event *event) {
    for (const struct event *known = events; known; known = known->next)
        if (known == event)
            return true;
    return false;
}

static CUresult enter_event(CUevent event) {
    CUresult result = enter_initialised();
    if (result)
        return result;
    if (!is_event(event))
        return leave(CUDA_ERROR_INVALID_HANDLE);
    if (is_lost(event->context->device))
        return leave(CUDA_ERROR_UNKNOWN);
    return event->context->error ? leave(event->context->error) : CUDA_SUCCESS;
}

static bool is_ahead(const struct event *event) {
    return event->hung || (event->stream && has_kernels(event->stream, event->work));
}

static double time_of(const struct event *event) {
    return event->stream ? event->stream->work[event->work].end : event->fixed;
}

CUAPI CUresult cuEventCreate(CUevent *created, unsigned flags) {
    struct context *current;
    CUresult result = enter(&current);
    if (result)
        return result;
    struct event *event = calloc(1, sizeof *event);
    if (!event)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    event->context = current;
    event->flags = flags;
    event->next = events;
    events = event;
    *created = event;
    return leave(CUDA_SUCCESS);
}

CUAPI CUresult cuEventDestroy_v2(CUevent event) {
    CUresult result = enter_event(event);
    if (result)
        return result;
    free_event(event);
    return leave(CUDA_SUCCESS);
}

static CUresult record(struct event *event, struct stream *stream) {
    if (event->context != stream->context)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = add_work(stream, 0);
    if (result)
        return result;
    event->recorded = true;
    event->asked = false;
    event->hung = is_stuck(stream);
    event->stream = stream;
    event->work = stream->count - 1;
    return CUDA_SUCCESS;
}

CUAPI CUresult cuEventRecord(CUevent event, CUstream handle) {
    struct stream *stream;
    CUresult result = enter_stream(handle, &stream);
    if (result)
        return result;
    return leave(is_event(event) ? record(event, stream) : CUDA_ERROR_INVALID_HANDLE);
}

static void host_saw(const struct event *event) {
    if (event->recorded && time_of(event) > host_now)
        host_now = time_of(event);
}

/* Who asks again comes back when something has ended. Who asks for one event after the other is no
   later for that: with many streams, some would run dry between two questions. */
static double next_end_until(double next) {
    for (const struct stream *stream = streams; stream; stream = stream->next)
        for (size_t i = stream->count; i-- > 0 && stream->work[i].end > host_now;)
            if (stream->work[i].end < next)
                next = stream->work[i].end;
    return next;
}

CUAPI CUresult cuEventQuery(CUevent event) {
    CUresult result = enter_event(event);
    if (result)
        return result;
    if (is_ahead(event))
        run_kernels(SLICE);
    if (event->context->error)
        return leave(event->context->error);
    if (is_ahead(event))
        return leave(CUDA_ERROR_NOT_READY);
    if (event->recorded && time_of(event) > host_now) {
        if (event->asked)
            host_now = next_end_until(time_of(event));
        event->asked = true;
        return leave(CUDA_ERROR_NOT_READY);
    }
    return leave(CUDA_SUCCESS);
}

CUAPI CUresult cuEventSynchronize(CUevent event) {
    CUresult result = enter_event(event);
    if (result)
        return result;
    while (is_ahead(event)) {
        go_on();
        if (!is_event(event))
            return leave(CUDA_ERROR_INVALID_HANDLE);
        if (is_lost(event->context->device))
            return leave(CUDA_ERROR_UNKNOWN);
    }
    if (event->context->error)
        return leave(event->context->error);
    host_saw(event);
    return leave(CUDA_SUCCESS);
}

static CUresult elapsed(const struct event *from, const struct event *to, float *milliseconds) {
    if (!from->recorded || !to->recorded || ((from->flags | to->flags) & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_HANDLE;
    if (is_ahead(from) || is_ahead(to))
        return CUDA_ERROR_NOT_READY;
    *milliseconds = (float)((time_of(to) - time_of(from)) / 1000);
    return CUDA_SUCCESS;
}

CUAPI CUresult cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to) {
    CUresult result = enter_event(from);
    if (result)
        return result;
    return leave(is_event(to) ? elapsed(from, to, milliseconds) : CUDA_ERROR_INVALID_HANDLE);
}

CUAPI CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags) {
    struct stream *stream;
    CUresult result = enter_stream(handle, &stream);
    if (result)
        return result;
    (void)flags;
    const char *disabled = getenv("NCCL_P2P_DISABLE"); /* of all callers only NCCL has one */
    if (disabled)
        come_to(strcmp(disabled, "1") ? "all-reduce-p2p" : "all-reduce");
    if (!is_event(event))
        return leave(CUDA_ERROR_INVALID_HANDLE);
    if (!event->recorded)
        return leave(CUDA_SUCCESS);
    if (event->stream && event->stream != stream && has_kernels(event->stream, event->work) &&
        (result = wait_for_kernels(event->stream)))
        return leave(result);
    stream->hung |= is_ahead(event);
    return leave(add(stream, (struct work){.earliest = time_of(event), .from = -1, .to = -1}));
}
