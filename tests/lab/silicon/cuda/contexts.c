/* Primary contexts, the current context of each thread, and peer access. */
#include <string.h>

#include "execute.h"

enum { MAX_PEERS = 8, MAX_DEPTH = 32 };

static _Thread_local struct context *stack[MAX_DEPTH];
static _Thread_local int depth;

bool is_active(const struct context *context) {
    for (int device = 0; device < MAX_GPUS; device++)
        if (context == &contexts[device])
            return context->retained > 0;
    return false;
}

struct context *current_context(void) {
    return depth ? stack[depth - 1] : NULL;
}

CUresult enter(struct context **current) {
    CUresult result = enter_initialised();
    if (result)
        return result;
    *current = current_context();
    if (!*current)
        return leave(CUDA_ERROR_INVALID_CONTEXT);
    if (!is_active(*current))
        return leave(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    if (is_lost((*current)->device))
        return leave(CUDA_ERROR_UNKNOWN);
    return (*current)->error ? leave((*current)->error) : CUDA_SUCCESS;
}

static CUresult enter_primary(CUdevice ordinal, struct context **context) {
    int device;
    CUresult result = enter_initialised();
    if (result)
        return result;
    if ((result = device_of(ordinal, &device)))
        return leave(result);
    *context = &contexts[device];
    return CUDA_SUCCESS;
}

static CUresult destroy(struct context *context) {
    CUresult result = wait_for_context(context);
    drop_kernels_of(context);
    free_memory_of(context);
    free_streams_of(context);
    context->error = CUDA_SUCCESS;
    memset(context->peers, 0, sizeof context->peers);
    context->retained = 0;
    return result;
}

CUAPI CUresult cuDevicePrimaryCtxRetain(CUcontext *retained, CUdevice ordinal) {
    struct context *context;
    CUresult result = enter_primary(ordinal, &context);
    if (result)
        return result;
    if (is_lost(context->device))
        return leave(CUDA_ERROR_UNKNOWN);
    if (!context->retained && !make_null_stream(context))
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    context->retained++;
    *retained = context;
    return leave(CUDA_SUCCESS);
}

CUAPI CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal) {
    struct context *context;
    CUresult result = enter_primary(ordinal, &context);
    if (result)
        return result;
    if (!context->retained)
        return leave(CUDA_ERROR_INVALID_CONTEXT);
    if (context->retained > 1) {
        context->retained--;
        return leave(CUDA_SUCCESS);
    }
    return leave(destroy(context));
}

CUAPI CUresult cuDevicePrimaryCtxReset_v2(CUdevice ordinal) {
    struct context *context;
    CUresult result = enter_primary(ordinal, &context);
    if (result)
        return result;
    return leave(context->retained ? destroy(context) : CUDA_SUCCESS);
}

CUAPI CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned flags) {
    struct context *context;
    CUresult result = enter_primary(ordinal, &context);
    if (result)
        return result;
    context->flags = flags;
    return leave(CUDA_SUCCESS);
}

CUAPI CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned *flags, int *active) {
    struct context *context;
    CUresult result = enter_primary(ordinal, &context);
    if (result)
        return result;
    *flags = context->flags;
    *active = context->retained > 0;
    return leave(CUDA_SUCCESS);
}

CUAPI CUresult cuCtxSetCurrent(CUcontext context) {
    CUresult result = enter_initialised();
    if (result)
        return result;
    if (context && !is_active(context))
        return leave(CUDA_ERROR_INVALID_CONTEXT);
    if (!context)
        depth -= depth > 0;
    else
        stack[depth ? depth - 1 : depth++] = context;
    return leave(CUDA_SUCCESS);
}

CUAPI CUresult cuCtxGetCurrent(CUcontext *context) {
    CUresult result = enter_initialised();
    if (result)
        return result;
    *context = current_context();
    return leave(CUDA_SUCCESS);
}

CUAPI CUresult cuCtxPushCurrent_v2(CUcontext context) {
    CUresult result = enter_initialised();
    if (result)
        return result;
    if (!is_active(context))
        return leave(CUDA_ERROR_INVALID_CONTEXT);
    if (depth == MAX_DEPTH)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    stack[depth++] = context;
    return leave(CUDA_SUCCESS);
}

CUAPI CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    CUresult result = enter_initialised();
    if (result)
        return result;
    if (!depth)
        return leave(CUDA_ERROR_INVALID_CONTEXT);
    depth--;
    if (context)
        *context = stack[depth];
    return leave(CUDA_SUCCESS);
}

CUAPI CUresult cuCtxGetDevice(CUdevice *device) {
    struct context *current;
    CUresult result = enter(&current);
    if (result)
        return result;
    *device = ordinal_of(current->device);
    return leave(CUDA_SUCCESS);
}

CUAPI CUresult cuCtxSynchronize(void) {
    struct context *current;
    CUresult result = enter(&current);
    return result ? result : leave(wait_for_context(current));
}

static int count_peers(const struct context *context) {
    int count = 0;
    for (int device = 0; device < MAX_GPUS; device++)
        count += context->peers[device];
    return count;
}

CUresult enable_peer(struct context *context, int peer) {
    if (!conf.pair[context->device][peer].granted)
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    if (context->peers[peer])
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    if (count_peers(context) >= MAX_PEERS)
        return CUDA_ERROR_TOO_MANY_PEERS;
    if (conf.pair[context->device][peer].copy == MAP_FAILS)
        return CUDA_ERROR_MAP_FAILED;
    context->peers[peer] = true;
    return CUDA_SUCCESS;
}

CUAPI CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    struct context *current;
    CUresult result = enter(&current);
    if (result)
        return result;
    if (flags)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (!is_active(peer))
        return leave(CUDA_ERROR_INVALID_CONTEXT);
    if (peer == current)
        return leave(CUDA_ERROR_INVALID_DEVICE);
    return leave(is_lost(peer->device) ? CUDA_ERROR_UNKNOWN : enable_peer(current, peer->device));
}

CUAPI CUresult cuCtxDisablePeerAccess(CUcontext peer) {
    struct context *current;
    CUresult result = enter(&current);
    if (result)
        return result;
    if (!is_active(peer))
        return leave(CUDA_ERROR_INVALID_CONTEXT);
    if (!current->peers[peer->device])
        return leave(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    current->peers[peer->device] = false;
    return leave(CUDA_SUCCESS);
}
