/* Modules and launches. PTX is never executed: a kernel's name says what it does.

   The table below is shared with the payload of `rigops preflight`. Parameters are those of the
   PTX entries, in order, as cuLaunchKernel's kernelParams points to them:

     rigops_store     u64 destination, u32 seed, u32 words          store a pattern, membar.sys
     rigops_load      u64 source, u64 result, u32 seed, u32 words   load and count wrong words
     rigops_pingpong  u64 own, u64 other, u32 rounds, u32 spins, u64 result

   One without a function answers 801, as does every kernel that the table does not know. */
#include <stdlib.h>
#include <string.h>

#include "state.h"

enum { MAX_NAME = 64 };

typedef CUresult (*kernel)(struct stream *stream, void **parameters);

static const struct {
    const char *name;
    kernel run;
} kernels[] = {
    {"rigops_store", NULL},
    {"rigops_load", NULL},
    {"rigops_pingpong", NULL},
};

struct function {
    char name[MAX_NAME];
    struct function *next;
};

struct module {
    struct function *functions;
    struct module *next;
};

static struct module *modules;

static void free_module(struct module *module) {
    while (module->functions) {
        struct function *function = module->functions;
        module->functions = function->next;
        free(function);
    }
    free(module);
}

static bool add_function(struct module *module, const char *text) {
    text += strspn(text, " \t\r\n");
    size_t length = strcspn(text, " \t\r\n(");
    struct function *function = calloc(1, sizeof *function);
    if (!function || !length || length >= MAX_NAME) {
        free(function);
        return false;
    }
    memcpy(function->name, text, length);
    function->next = module->functions;
    module->functions = function;
    return true;
}

static CUresult parse(struct module *module, const char *ptx) {
    static const char entry[] = ".entry";
    const char *version = strstr(ptx, ".version");
    if (!version)
        return CUDA_ERROR_INVALID_IMAGE;
    if (!strstr(version, ".target"))
        return CUDA_ERROR_INVALID_PTX;
    for (const char *at = ptx; (at = strstr(at, entry));) {
        at += sizeof entry - 1;
        if (!add_function(module, at))
            return CUDA_ERROR_INVALID_PTX;
    }
    return CUDA_SUCCESS;
}

static struct module **link_to(const struct module *module) {
    struct module **link = &modules;
    while (*link && *link != module)
        link = &(*link)->next;
    return link;
}

CUAPI CUresult cuModuleLoadData(CUmodule *loaded, const void *image) {
    struct context *current;
    CUresult result = enter(&current);
    if (result)
        return result;
    struct module *module = calloc(1, sizeof *module);
    if (!module)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    if ((result = parse(module, image))) {
        free_module(module);
        return leave(result);
    }
    module->next = modules;
    modules = module;
    *loaded = module;
    return leave(CUDA_SUCCESS);
}

CUAPI CUresult cuModuleUnload(CUmodule module) {
    struct context *current;
    CUresult result = enter(&current);
    if (result)
        return result;
    struct module **link = link_to(module);
    if (!*link)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    *link = module->next;
    free_module(module);
    return leave(CUDA_SUCCESS);
}

CUAPI CUresult cuModuleGetFunction(CUfunction *found, CUmodule module, const char *name) {
    struct context *current;
    CUresult result = enter(&current);
    if (result)
        return result;
    if (!*link_to(module))
        return leave(CUDA_ERROR_INVALID_HANDLE);
    for (struct function *function = module->functions; function; function = function->next)
        if (!strcmp(function->name, name)) {
            *found = function;
            return leave(CUDA_SUCCESS);
        }
    return leave(CUDA_ERROR_NOT_FOUND);
}

static bool is_function(const struct function *wanted) {
    for (const struct module *module = modules; module; module = module->next)
        for (const struct function *f = module->functions; f; f = f->next)
            if (f == wanted)
                return true;
    return false;
}

static kernel kernel_named(const char *name) {
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (!strcmp(kernels[i].name, name))
            return kernels[i].run;
    return NULL;
}

CUAPI CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                              unsigned grid_z, unsigned block_x, unsigned block_y,
                              unsigned block_z, unsigned shared_bytes, CUstream handle,
                              void **parameters, void **extra) {
    struct context *current;
    struct stream *stream;
    CUresult result = enter(&current);
    if (result)
        return result;
    (void)shared_bytes, (void)extra;
    if (!is_function(function))
        return leave(CUDA_ERROR_INVALID_HANDLE);
    if (!grid_x || !grid_y || !grid_z || !block_x || !block_y || !block_z)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = stream_of(current, handle, &stream)))
        return leave(result);
    kernel run = kernel_named(function->name);
    if (!run)
        return leave(CUDA_ERROR_NOT_SUPPORTED);
    return leave(is_stuck(stream) ? CUDA_SUCCESS : run(stream, parameters));
}
