/* Device memory: one sparse file for each allocation, so that other processes can open it.

   A device pointer is an address that no host mapping can have: using one on the host faults, as
   it does for real. The file's name is NAME_PREFIX GPU-PID-START-NUMBER; START is the process's
   start time, which tells a stale file from one of a later process with the same pid. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "state.h"

#define NAME_PREFIX "rigsim-cuda-"
#define FIRST_ADDRESS 0x00d0000000000000ULL
#define ADDRESSES_PER_GPU 0x0000010000000000ULL
#define GRANULE 0x200000ULL

static const char IPC_MAGIC[8] = "rigsimIP";

struct ipc_handle {
    char magic[8];
    uint64_t bytes;
    char name[48];
};
_Static_assert(sizeof(struct ipc_handle) == sizeof(CUipcMemHandle), "a handle has 64 bytes");

struct pinned {
    void *memory;
    size_t bytes;
    struct pinned *next;
};

static struct allocation *allocations;
static struct pinned *pinned_memory;
static uint64_t used_addresses[MAX_GPUS];
static unsigned made;
unsigned memory_changes;

static int memory_folder(void) {
    const char *path = getenv("RIGSIM_SHM");
    return open(path ? path : "/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* 0 if there is no such process. */
static unsigned long long start_of(int pid) {
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    const char *after_name = strrchr(text, ')');
    unsigned long long start = 0;
    if (after_name)
        sscanf(after_name,
               ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &start);
    return start;
}

static bool parse_name(const char *name, int *device, int *pid, unsigned long long *start) {
    return sscanf(name, NAME_PREFIX "%d-%d-%llu-", device, pid, start) == 3;
}

static void for_each_file(void (*visit)(int folder, const char *name, void *extra), void *extra) {
    int folder = memory_folder();
    DIR *listing = folder < 0 ? NULL : fdopendir(folder);
    if (!listing)
        return;
    for (struct dirent *entry; (entry = readdir(listing));)
        if (!strncmp(entry->d_name, NAME_PREFIX, strlen(NAME_PREFIX)))
            visit(folder, entry->d_name, extra);
    closedir(listing);
}

static void remove_if_stale(int folder, const char *name, void *extra) {
    int device, pid;
    unsigned long long start;
    (void)extra;
    if (parse_name(name, &device, &pid, &start) && start_of(pid) != start)
        unlinkat(folder, name, 0);
}

static void remove_own(int folder, const char *name, void *extra) {
    int device, pid;
    unsigned long long start;
    (void)extra;
    if (parse_name(name, &device, &pid, &start) && pid == getpid())
        unlinkat(folder, name, 0);
}

/* A fork that ends must leave its parent's memory alone: its own pid matches no file. */
static void at_exit(void) {
    for_each_file(remove_own, NULL);
}

void remove_stale_memory(void) {
    for_each_file(remove_if_stale, NULL);
    atexit(at_exit);
}

struct usage {
    int device;
    size_t bytes;
};

static void add_usage(int folder, const char *name, void *extra) {
    struct usage *usage = extra;
    int device, pid;
    unsigned long long start;
    struct stat about;
    if (parse_name(name, &device, &pid, &start) && device == usage->device &&
        !fstatat(folder, name, &about, 0))
        usage->bytes += (size_t)about.st_size;
}

/* Of all processes, as on a card. */
static size_t free_bytes(int device) {
    struct usage usage = {device, 0};
    for_each_file(add_usage, &usage);
    size_t total = conf.gpu[device].bytes;
    return usage.bytes < total ? total - usage.bytes : 0;
}

static CUdeviceptr next_address(int device, size_t bytes) {
    CUdeviceptr window = FIRST_ADDRESS + (uint64_t)device * ADDRESSES_PER_GPU;
    CUdeviceptr address = window + used_addresses[device];
    used_addresses[device] += (bytes + 2 * GRANULE) / GRANULE * GRANULE;
    return address;
}

static bool map(struct allocation *allocation) {
    void *mapped = mmap(NULL, allocation->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                        allocation->file, 0);
    if (mapped == MAP_FAILED)
        return false;
    allocation->mapped = mapped;
    allocation->base = next_address(allocation->device, allocation->bytes);
    allocation->next = allocations;
    allocations = allocation;
    return true;
}

static int open_file(const char *name, int flags) {
    int folder = memory_folder();
    if (folder < 0)
        return -1;
    int file = openat(folder, name, flags | O_RDWR | O_CLOEXEC, 0600);
    close(folder);
    return file;
}

static void remove_file(const char *name) {
    int folder = memory_folder();
    if (folder < 0)
        return;
    unlinkat(folder, name, 0);
    close(folder);
}

static struct allocation *new_allocation(struct context *context, int device, size_t bytes) {
    struct allocation *allocation = calloc(1, sizeof *allocation);
    if (!allocation)
        return NULL;
    allocation->context = context;
    allocation->device = device;
    allocation->bytes = bytes;
    return allocation;
}

static struct allocation *make(struct context *context, size_t bytes) {
    struct allocation *allocation = new_allocation(context, context->device, bytes);
    if (!allocation)
        return NULL;
    snprintf(allocation->name, sizeof allocation->name, NAME_PREFIX "%d-%d-%llu-%u",
             context->device, (int)getpid(), start_of(getpid()), made++);
    allocation->file = open_file(allocation->name, O_CREAT | O_EXCL);
    if (allocation->file >= 0) {
        if (!ftruncate(allocation->file, (off_t)bytes) && map(allocation))
            return allocation;
        close(allocation->file);
        remove_file(allocation->name);
    }
    free(allocation);
    return NULL;
}

static void unmake(struct allocation *allocation) {
    struct allocation **link = &allocations;
    while (*link != allocation)
        link = &(*link)->next;
    *link = allocation->next;
    memory_changes++;
    while (allocation->shadows) {
        struct shadow *shadow = allocation->shadows;
        allocation->shadows = shadow->next;
        munmap(shadow->bytes, allocation->bytes);
        free(shadow);
    }
    munmap(allocation->mapped, allocation->bytes);
    close(allocation->file);
    if (!allocation->opens)
        remove_file(allocation->name);
    free(allocation);
}

void free_memory_of(struct context *context) {
    for (struct allocation *next, *allocation = allocations; allocation; allocation = next) {
        next = allocation->next;
        if (allocation->context == context)
            unmake(allocation);
    }
}

struct allocation *allocation_at(CUdeviceptr pointer, size_t bytes) {
    for (struct allocation *a = allocations; a; a = a->next)
        if (pointer >= a->base && pointer - a->base < a->bytes)
            return bytes <= a->bytes - (pointer - a->base) ? a : NULL;
    return NULL;
}

/* Room is made before it is touched: a full tmpfs would be a SIGBUS in the middle of a copy. */
CUresult memory_behind(struct allocation *allocation, size_t offset, size_t bytes,
                       unsigned char **memory) {
    size_t end = offset + bytes;
    if (offset < allocation->room_from || end > allocation->room_to) {
        if (bytes && fallocate(allocation->file, 0, (off_t)offset, (off_t)bytes) &&
            (errno == ENOSPC || errno == ENOMEM))
            return CUDA_ERROR_OUT_OF_MEMORY;
        allocation->room_from = offset;
        allocation->room_to = end;
    }
    *memory = allocation->mapped + offset;
    return CUDA_SUCCESS;
}

void note_change(struct allocation *allocation) {
    static unsigned long changes;
    allocation->changed = ++changes;
    allocation->copied.bytes = 0;
}

unsigned char *shadow_of(struct allocation *allocation, int accessor) {
    for (struct shadow *shadow = allocation->shadows; shadow; shadow = shadow->next)
        if (shadow->accessor == accessor)
            return shadow->bytes;
    struct shadow *shadow = calloc(1, sizeof *shadow);
    void *bytes = mmap(NULL, allocation->bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!shadow || bytes == MAP_FAILED)
        abort();
    *shadow = (struct shadow){accessor, bytes, allocation->shadows};
    allocation->shadows = shadow;
    return bytes;
}

CUAPI CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
    struct context *current;
    CUresult result = enter(&current);
    if (result)
        return result;
    if (!pointer || !bytes)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (bytes > free_bytes(current->device))
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    struct allocation *allocation = make(current, bytes);
    if (!allocation)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    *pointer = allocation->base;
    return leave(CUDA_SUCCESS);
}

static struct allocation *allocation_with_base(CUdeviceptr pointer, bool opened) {
    struct allocation *allocation = allocation_at(pointer, 0);
    bool fits = allocation && allocation->base == pointer && (allocation->opens > 0) == opened;
    return fits ? allocation : NULL;
}

CUAPI CUresult cuMemFree_v2(CUdeviceptr pointer) {
    struct context *current;
    CUresult result = enter(&current);
    if (result)
        return result;
    if (!pointer)
        return leave(CUDA_SUCCESS);
    if (!allocation_with_base(pointer, false))
        return leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = wait_for_context(allocation_with_base(pointer, false)->context)))
        return leave(result);
    struct allocation *allocation = allocation_with_base(pointer, false);
    if (!allocation)
        return leave(CUDA_ERROR_INVALID_VALUE);
    unmake(allocation);
    return leave(CUDA_SUCCESS);
}

CUAPI CUresult cuMemGetInfo_v2(size_t *free_now, size_t *total) {
    struct context *current;
    CUresult result = enter(&current);
    if (result)
        return result;
    *free_now = free_bytes(current->device);
    *total = conf.gpu[current->device].bytes;
    return leave(CUDA_SUCCESS);
}

CUAPI CUresult cuMemAllocHost_v2(void **memory, size_t bytes) {
    struct context *current;
    CUresult result = enter(&current);
    if (result)
        return result;
    if (!memory || !bytes)
        return leave(CUDA_ERROR_INVALID_VALUE);
    struct pinned *pinned = calloc(1, sizeof *pinned);
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!pinned || mapped == MAP_FAILED) {
        free(pinned);
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *pinned = (struct pinned){mapped, bytes, pinned_memory};
    pinned_memory = pinned;
    *memory = mapped;
    return leave(CUDA_SUCCESS);
}

CUAPI CUresult cuMemFreeHost(void *memory) {
    struct context *current;
    CUresult result = enter(&current);
    if (result)
        return result;
    for (struct pinned **link = &pinned_memory; *link; link = &(*link)->next)
        if ((*link)->memory == memory) {
            struct pinned *pinned = *link;
            *link = pinned->next;
            munmap(memory, pinned->bytes);
            free(pinned);
            return leave(CUDA_SUCCESS);
        }
    return leave(CUDA_ERROR_INVALID_VALUE);
}

CUAPI CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer) {
    struct context *current;
    CUresult result = enter(&current);
    if (result)
        return result;
    struct allocation *allocation = allocation_at(pointer, 0);
    if (!handle || !allocation || allocation->opens)
        return leave(CUDA_ERROR_INVALID_VALUE);
    allocation->exported = true;
    struct ipc_handle inside = {.bytes = allocation->bytes};
    memcpy(inside.magic, IPC_MAGIC, sizeof inside.magic);
    memcpy(inside.name, allocation->name, sizeof inside.name);
    memcpy(handle, &inside, sizeof inside);
    return leave(CUDA_SUCCESS);
}

/* What CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS stands for. */
static CUresult reach(struct context *current, int device) {
    if (device == current->device || current->peers[device])
        return CUDA_SUCCESS;
    return is_lost(device) ? CUDA_ERROR_UNKNOWN : enable_peer(current, device);
}

static CUresult open_handle(struct context *current, const struct ipc_handle *handle, int device,
                            CUdeviceptr *pointer) {
    for (struct allocation *a = allocations; a; a = a->next)
        if (a->opens && a->context == current && !strcmp(a->name, handle->name)) {
            a->opens++;
            *pointer = a->base;
            return CUDA_SUCCESS;
        }
    struct allocation *allocation = new_allocation(current, device, handle->bytes);
    if (!allocation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    allocation->opens = 1;
    memcpy(allocation->name, handle->name, sizeof allocation->name);
    allocation->file = open_file(handle->name, 0);
    if (allocation->file < 0) {
        free(allocation);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (!map(allocation)) {
        close(allocation->file);
        free(allocation);
        return CUDA_ERROR_MAP_FAILED;
    }
    *pointer = allocation->base;
    return CUDA_SUCCESS;
}

CUAPI CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned flags) {
    struct context *current;
    struct ipc_handle inside;
    int device, pid;
    unsigned long long start;
    CUresult result = enter(&current);
    if (result)
        return result;
    memcpy(&inside, &handle, sizeof inside);
    inside.name[sizeof inside.name - 1] = 0;
    if (!pointer || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (memcmp(inside.magic, IPC_MAGIC, sizeof inside.magic) || strchr(inside.name, '/') ||
        !parse_name(inside.name, &device, &pid, &start))
        return leave(CUDA_ERROR_INVALID_HANDLE);
    if (pid == getpid())
        return leave(CUDA_ERROR_INVALID_CONTEXT);
    if (ordinal_of(device) < 0)
        return leave(CUDA_ERROR_INVALID_DEVICE);
    come_to("ipc");
    if (device != current->device && conf.pair[current->device][device].copy == IPC_REFUSED)
        return leave(CUDA_ERROR_INVALID_DEVICE);
    if ((result = reach(current, device)))
        return leave(result);
    return leave(open_handle(current, &inside, device, pointer));
}

CUAPI CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
    struct context *current;
    CUresult result = enter(&current);
    if (result)
        return result;
    struct allocation *allocation = allocation_with_base(pointer, true);
    if (!allocation)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (allocation->opens > 1)
        allocation->opens--;
    else
        unmake(allocation);
    return leave(CUDA_SUCCESS);
}
