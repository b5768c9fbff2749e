/* Modules and launches. The PTX itself is run: see ptx.c and execute.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "execute.h"

enum { MAX_THREADS_PER_BLOCK = 1024, NEWEST_PTX = 82 };

struct module {
    struct context *context;
    struct ptx ptx;
    struct module *next;
};

static struct module *modules;

/* What a caller wants to have written, and what it says of that when it is done. */
struct log {
    char *text;
    unsigned room;
    void **written;
};

static struct log log_of(unsigned count, const CUjit_option *options, void **values) {
    struct log log = {0};
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
            log.text = values[i];
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
            log.room = (unsigned)(uintptr_t)values[i];
            log.written = &values[i];
        }
    }
    return log;
}

static void write_log(const struct log *log, const struct ptx *ptx) {
    char text[256] = "";
    if (ptx->error_line)
        snprintf(text, sizeof text,
                 "ptxas application ptx input, line %d; error   : %s\n"
                 "ptxas fatal   : Ptx assembly aborted due to errors",
                 ptx->error_line, ptx->error);
    if (log->text && log->room)
        snprintf(log->text, log->room, "%s", text);
    if (log->written)
        *log->written = (void *)(uintptr_t)(strlen(text) < log->room ? strlen(text) : log->room);
}

static CUresult judge(const struct ptx *ptx, const struct gpu *gpu) {
    if (ptx->version > NEWEST_PTX)
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    if (ptx->target > 10 * gpu->major + gpu->minor)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    return CUDA_SUCCESS;
}

static struct module **link_to(const struct module *module) {
    struct module **link = &modules;
    while (*link && *link != module)
        link = &(*link)->next;
    return link;
}

/* The driver keeps what it compiled in the user's home, unless it is told not to. */
static void keep_compiled(void) {
    const char *disabled = getenv("CUDA_CACHE_DISABLE"), *home = getenv("HOME");
    char path[512];
    if ((disabled && !strcmp(disabled, "1")) || !home)
        return;
    snprintf(path, sizeof path, "%s/.nv", home);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/.nv/ComputeCache", home);
    mkdir(path, 0700);
}

static CUresult load(struct context *context, const char *image, const struct log *log,
                     CUmodule *loaded) {
    struct module *module = calloc(1, sizeof *module);
    if (!module)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool is_ptx = strstr(image, ".version") != NULL;
    bool is_right = ptx_read(&module->ptx, image);
    CUresult result = !is_ptx     ? CUDA_ERROR_INVALID_IMAGE
                      : !is_right ? CUDA_ERROR_INVALID_PTX
                                  : judge(&module->ptx, &conf.gpu[context->device]);
    write_log(log, &module->ptx);
    if (result) {
        ptx_free(&module->ptx);
        free(module);
        return result;
    }
    keep_compiled();
    module->context = context;
    module->next = modules;
    modules = module;
    *loaded = module;
    return CUDA_SUCCESS;
}

CUAPI CUresult cuModuleLoadDataEx(CUmodule *loaded, const void *image, unsigned count,
                                  CUjit_option *options, void **values) {
    struct context *current;
    CUresult result = enter(&current);
    if (result)
        return result;
    struct log log = log_of(count, options, values);
    return leave(load(current, image, &log, loaded));
}

CUAPI CUresult cuModuleLoadData(CUmodule *loaded, const void *image) {
    return cuModuleLoadDataEx(loaded, image, 0, NULL, NULL);
}

/* Waits for its kernels. */
CUAPI CUresult cuModuleUnload(CUmodule module) {
    struct context *current;
    CUresult result = enter(&current);
    if (result)
        return result;
    if (!*link_to(module))
        return leave(CUDA_ERROR_INVALID_HANDLE);
    for (const struct entry *entry = module->ptx.entries; entry; entry = entry->next)
        if (is_running(entry) && (result = wait_for_context(module->context)))
            return leave(result);
    struct module **link = link_to(module);
    if (!*link)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    *link = module->next;
    ptx_free(&module->ptx);
    free(module);
    return leave(CUDA_SUCCESS);
}

CUAPI CUresult cuModuleGetFunction(CUfunction *found, CUmodule module, const char *name) {
    struct context *current;
    CUresult result = enter(&current);
    if (result)
        return result;
    if (!*link_to(module))
        return leave(CUDA_ERROR_INVALID_HANDLE);
    for (struct entry *entry = module->ptx.entries; entry; entry = entry->next)
        if (!strcmp(entry->name, name)) {
            *found = (CUfunction)entry;
            return leave(CUDA_SUCCESS);
        }
    return leave(CUDA_ERROR_NOT_FOUND);
}

static const struct module *module_with(const struct entry *wanted) {
    for (const struct module *module = modules; module; module = module->next)
        for (const struct entry *entry = module->ptx.entries; entry; entry = entry->next)
            if (entry == wanted)
                return module;
    return NULL;
}

static bool is_product_below(const unsigned size[3], uint64_t most) {
    return size[0] && size[1] && size[2] && size[0] <= most && size[1] <= most && size[2] <= most &&
           (uint64_t)size[0] * size[1] <= most && (uint64_t)size[0] * size[1] * size[2] <= most;
}

CUAPI CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                              unsigned grid_z, unsigned block_x, unsigned block_y,
                              unsigned block_z, unsigned shared_bytes, CUstream handle,
                              void **parameters, void **extra) {
    const unsigned grid[] = {grid_x, grid_y, grid_z}, block[] = {block_x, block_y, block_z};
    const struct entry *entry = (const struct entry *)function;
    struct context *current;
    struct stream *stream;
    CUresult result = enter(&current);
    if (result)
        return result;
    const struct module *module = module_with(entry);
    if (!module)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    come_to(entry->name);
    if (module->context != current)
        return leave(CUDA_ERROR_INVALID_CONTEXT);
    if (extra || shared_bytes || !is_product_below(grid, 1 << 16) ||
        !is_product_below(block, MAX_THREADS_PER_BLOCK) || (entry->parameter_count && !parameters))
        return leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = stream_of(current, handle, &stream)))
        return leave(result);
    if (stream->context != current)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    return leave(is_stuck(stream) ? CUDA_SUCCESS : launch(entry, stream, grid, block, parameters));
}
