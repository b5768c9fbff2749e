/* Runs kernels: every thread of every kernel, in the order of a simulated clock in nanoseconds.

   Nothing runs until the host waits for something; then all kernels that were launched begin at
   once and take turns of less than a transfer between cards, so that two of them can talk.

   Memory is as weak as PTX allows. A store waits in its thread: a volatile one as long as it
   travels, any other one for longer, until a fence sends it off and waits for it. A load may bring
   what was there at the last fence, unless it is volatile: it does so where it was made before. */
#include "execute.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_STORES = 32, SEEN = 32, SIGHTS = 16, CHUNK = 1 << 20 };

static const double INSTRUCTION = 2, LOCAL = 300, LINGERING = 20000;
static const double TURN = 200, TURN_ALONE = 1e6, TURN_AWAITING = 50e3, NEVER = 1e300;

struct store {
    CUdeviceptr address;
    uint64_t value;
    double due;
    unsigned bytes;
};

struct seen {
    CUdeviceptr address;
    uint64_t value;
    unsigned bytes;
    bool was_volatile;
    bool sticks; /* beyond a fence */
};

struct thread {
    size_t at;
    double clock, due; /* `due`: of the store that arrives first */
    bool ended;
    unsigned place[3], block[3];
    unsigned store_count;
    struct store stores[MAX_STORES]; /* the oldest first */
    struct seen seen[SEEN];
    uint64_t *registers;
};

/* A piece of an allocation, kept at hand. */
struct sight {
    CUdeviceptr from, to;
    struct allocation *allocation;
    bool remote;
    double travel;
};

enum phase { WAITING, RUNNING, HANGING, DONE };

struct kernel {
    const struct entry *entry;
    struct context *context;
    struct stream *stream;
    size_t work; /* its place in the stream */
    unsigned grid[3], block[3];
    unsigned char parameters[MAX_PARAMETER_BYTES];
    enum phase phase;
    struct thread *threads;
    uint64_t *registers;
    size_t thread_count, threads_left;
    double began, lowest, end;
    double paced_from, paced_clock; /* real seconds, and its own clock then */
    uint64_t moved[MAX_GPUS]; /* bytes to and from each other card */
    struct sight sights[SIGHTS];
    unsigned next_sight, memory_changes;
    struct kernel *next;
};

static struct kernel *kernels; /* in the order of their launches */

/* What a load or store answers where it never comes back. */
#define HANGS CUDA_ERROR_NOT_READY

/* ---- memory */

static const struct sight *look_up(struct kernel *kernel, CUdeviceptr address, unsigned bytes) {
    if (kernel->memory_changes != memory_changes)
        memset(kernel->sights, 0, sizeof kernel->sights);
    kernel->memory_changes = memory_changes;
    for (int i = 0; i < SIGHTS; i++)
        if (address >= kernel->sights[i].from && address + bytes <= kernel->sights[i].to)
            return &kernel->sights[i];
    struct allocation *allocation = address % bytes ? NULL : allocation_at(address, bytes);
    if (!allocation)
        return NULL;
    int device = kernel->context->device, owner = allocation->device;
    if (device != owner && !can_reach(device, owner))
        return NULL;
    size_t offset = (size_t)(address - allocation->base) / CHUNK * CHUNK;
    size_t length = allocation->bytes - offset < CHUNK ? allocation->bytes - offset : CHUNK;
    unsigned char *memory;
    if (memory_behind(allocation, offset, length, &memory))
        return NULL;
    struct sight *sight = &kernel->sights[kernel->next_sight++ % SIGHTS];
    *sight = (struct sight){allocation->base + offset, allocation->base + offset + length,
                            allocation, device != owner,
                            device != owner ? conf.pair[device][owner].latency * 1000 : LOCAL};
    return sight;
}

static enum behaviour behaviour_of(const struct kernel *kernel, const struct sight *sight) {
    return sight->remote ? conf.pair[kernel->context->device][sight->allocation->device].copy
                         : COPY_OK;
}

static bool hangs(const struct kernel *kernel, const struct sight *sight) {
    enum behaviour behaviour = behaviour_of(kernel, sight);
    return behaviour == COPY_HANG || behaviour == KERNEL_HANG;
}

static void count_bytes(struct kernel *kernel, const struct sight *sight, unsigned bytes) {
    if (sight->remote)
        kernel->moved[sight->allocation->device] += bytes;
}

static CUresult deliver_store(struct kernel *kernel, const struct store *store) {
    const struct sight *sight = look_up(kernel, store->address, store->bytes);
    if (!sight)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    count_bytes(kernel, sight, store->bytes);
    put_word(sight->allocation, (size_t)(store->address - sight->allocation->base), store->value,
             store->bytes, kernel->context->device);
    return CUDA_SUCCESS;
}

static void find_first_due(struct thread *thread) {
    thread->due = NEVER;
    for (unsigned i = 0; i < thread->store_count; i++)
        if (thread->stores[i].due < thread->due)
            thread->due = thread->stores[i].due;
}

/* Those that are due by then. */
static CUresult deliver_stores(struct kernel *kernel, struct thread *thread, double until) {
    CUresult result = CUDA_SUCCESS;
    unsigned left = 0;
    for (unsigned i = 0; i < thread->store_count; i++) {
        if (thread->stores[i].due > until)
            thread->stores[left++] = thread->stores[i];
        else if (!result)
            result = deliver_store(kernel, &thread->stores[i]);
    }
    thread->store_count = left;
    find_first_due(thread);
    return result;
}

static bool overlaps(const struct store *store, CUdeviceptr address, unsigned bytes) {
    return store->address < address + bytes && address < store->address + store->bytes;
}

/* Another store to the same place takes the place of the one that waits; where they only overlap,
   the older one is sent off. */
static CUresult forget_older_stores(struct kernel *kernel, struct thread *thread,
                                    CUdeviceptr address, unsigned bytes) {
    CUresult result = CUDA_SUCCESS;
    unsigned left = 0;
    for (unsigned i = 0; i < thread->store_count; i++) {
        const struct store *older = &thread->stores[i];
        if (!overlaps(older, address, bytes))
            thread->stores[left++] = *older;
        else if ((older->address != address || older->bytes != bytes) && !result)
            result = deliver_store(kernel, older);
    }
    thread->store_count = left;
    return result;
}

static struct seen *seen_at(struct thread *thread, CUdeviceptr address) {
    return &thread->seen[address / 4 % SEEN];
}

static void forget_seen(struct thread *thread, CUdeviceptr address, unsigned bytes) {
    for (unsigned at = 0; at < bytes; at += 4) {
        struct seen *seen = seen_at(thread, address + at);
        if (seen->address / 8 == address / 8)
            seen->bytes = 0;
    }
}

static CUresult store(struct kernel *kernel, struct thread *thread, CUdeviceptr address,
                      uint64_t value, unsigned bytes, bool is_volatile) {
    const struct sight *sight = look_up(kernel, address, bytes);
    CUresult result;
    if (!sight)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (hangs(kernel, sight))
        return HANGS;
    struct store added = {address, value, thread->clock, bytes};
    added.due += behaviour_of(kernel, sight) == NO_FLAGS ? NEVER
                 : is_volatile                           ? sight->travel
                                                         : sight->travel + LINGERING;
    if ((result = forget_older_stores(kernel, thread, address, bytes)))
        return result;
    if (thread->store_count == MAX_STORES) {
        if ((result = deliver_store(kernel, &thread->stores[0])))
            return result;
        thread->store_count--;
        memmove(thread->stores, thread->stores + 1, sizeof *thread->stores * thread->store_count);
    }
    thread->stores[thread->store_count++] = added;
    find_first_due(thread);
    forget_seen(thread, address, bytes);
    return CUDA_SUCCESS;
}

static CUresult load(struct kernel *kernel, struct thread *thread, CUdeviceptr address,
                     uint64_t *value, unsigned bytes, bool is_volatile) {
    const struct sight *sight = look_up(kernel, address, bytes);
    if (!sight)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (hangs(kernel, sight))
        return HANGS;
    struct sight there = *sight; /* what is sent off first may take its place */
    bool sticks = behaviour_of(kernel, &there) == NO_FLAGS;
    for (unsigned i = 0; i < thread->store_count; i++) {
        if (thread->stores[i].address == address && thread->stores[i].bytes == bytes) {
            *value = thread->stores[i].value;
            return CUDA_SUCCESS;
        }
        if (overlaps(&thread->stores[i], address, bytes)) {
            CUresult result = forget_older_stores(kernel, thread, address, bytes);
            if (result)
                return result;
            break;
        }
    }
    struct seen *seen = seen_at(thread, address);
    if ((!is_volatile || sticks) && seen->address == address && seen->bytes == bytes) {
        thread->clock += sticks ? there.travel : 0;
        *value = seen->value;
        return CUDA_SUCCESS;
    }
    thread->clock += there.travel;
    count_bytes(kernel, &there, bytes);
    *value = get_word(there.allocation, (size_t)(address - there.allocation->base), bytes,
                      kernel->context->device);
    *seen = (struct seen){address, *value, bytes, is_volatile, sticks};
    return CUDA_SUCCESS;
}

/* At once and where the memory is. Between cards only a link of NVIDIA's own can do that. */
static CUresult change(struct kernel *kernel, struct thread *thread,
                       const struct instruction *instruction, CUdeviceptr address, uint64_t operand,
                       uint64_t *before) {
    unsigned bytes = instruction->bytes;
    const struct sight *sight = look_up(kernel, address, bytes);
    CUresult result;
    if (!sight || (sight->remote &&
                   !conf.pair[kernel->context->device][sight->allocation->device].nvlink))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (hangs(kernel, sight))
        return HANGS;
    struct sight there = *sight;
    for (unsigned i = 0; i < thread->store_count; i++)
        if (overlaps(&thread->stores[i], address, bytes)) {
            if ((result = deliver_store(kernel, &thread->stores[i])) ||
                (result = forget_older_stores(kernel, thread, thread->stores[i].address,
                                              thread->stores[i].bytes)))
                return result;
            break;
        }
    size_t offset = (size_t)(address - there.allocation->base);
    uint64_t old = get_word(there.allocation, offset, bytes, kernel->context->device), now;
    switch (instruction->operation) {
    case OP_RED_ADD: now = old + operand; break;
    case OP_RED_MIN: now = operand < old ? operand : old; break;
    case OP_RED_MAX: now = operand > old ? operand : old; break;
    default: now = operand;
    }
    put_word(there.allocation, offset, now, bytes, kernel->context->device);
    forget_seen(thread, address, bytes);
    *before = old;
    return CUDA_SUCCESS;
}

/* A load that no fence holds back may come as early as right behind the last one. */
static void look_again(struct kernel *kernel, struct seen *seen, bool system) {
    const struct sight *sight = look_up(kernel, seen->address, seen->bytes);
    if (!sight || seen->was_volatile)
        seen->bytes = 0;
    else if (!sight->remote || system)
        seen->value = get_word(sight->allocation, (size_t)(seen->address - sight->allocation->base),
                               seen->bytes, kernel->context->device);
}

/* A fence of the device is none for other cards. */
static void fence(struct kernel *kernel, struct thread *thread, bool system) {
    double end = thread->clock;
    for (unsigned i = 0; i < thread->store_count; i++) {
        const struct sight *sight =
            look_up(kernel, thread->stores[i].address, thread->stores[i].bytes);
        if (!sight || thread->stores[i].due >= NEVER || (sight->remote && !system))
            continue;
        double arrives = thread->clock + sight->travel;
        if (thread->stores[i].due > arrives)
            thread->stores[i].due = arrives;
        if (thread->stores[i].due > end)
            end = thread->stores[i].due;
    }
    for (int i = 0; i < SEEN; i++)
        if (thread->seen[i].bytes && !thread->seen[i].sticks)
            look_again(kernel, &thread->seen[i], system);
    find_first_due(thread);
    thread->clock = end;
}

/* ---- instructions */

static uint64_t special_value(const struct kernel *kernel, const struct thread *thread,
                              int64_t which) {
    if (which == SPECIAL_GLOBALTIMER)
        return 1700000000000000000ULL + (uint64_t)thread->clock;
    unsigned axis = (unsigned)which % 3;
    switch (which - axis) {
    case SPECIAL_TID: return thread->place[axis];
    case SPECIAL_NTID: return kernel->block[axis];
    case SPECIAL_CTAID: return thread->block[axis];
    default: return kernel->grid[axis];
    }
}

static bool compare(enum operation operation, uint64_t a, uint64_t b, bool is_signed) {
    bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;
    switch (operation) {
    case OP_EQUAL: return a == b;
    case OP_UNEQUAL: return a != b;
    case OP_LESS: return less;
    case OP_LESS_OR_EQUAL: return less || a == b;
    case OP_GREATER: return !less && a != b;
    default: return !less;
    }
}

static uint64_t extended(uint64_t value, const struct instruction *instruction) {
    return instruction->is_signed && instruction->bytes == 4 ? (uint64_t)(int64_t)(int32_t)value
                                                             : value;
}

static uint64_t compute(const struct instruction *i, const uint64_t *r) {
    uint64_t a = r[i->a], b = r[i->b];
    unsigned bits = 8u * i->bytes;
    switch (i->operation) {
    case OP_ADD: return a + b;
    case OP_SUB: return a - b;
    case OP_MUL: case OP_MUL_WIDE: return a * b;
    case OP_MAD: case OP_MAD_WIDE: return a * b + r[i->c];
    case OP_MIN: return a < b ? a : b;
    case OP_MAX: return a > b ? a : b;
    case OP_AND: return a & b;
    case OP_OR: return a | b;
    case OP_XOR: return a ^ b;
    case OP_NOT: return i->bytes == 1 ? !a : ~a;
    case OP_SHL: return b < bits ? a << b : 0;
    case OP_SHR: return b < bits ? a >> b : 0;
    case OP_SELECT: return r[i->c] ? a : b;
    case OP_MOVE: return a;
    default: return compare(i->operation, extended(a, i), extended(b, i), i->is_signed);
    }
}

/* By the width of the register, which is twice the instruction's for the wide ones; the reader made
   sure that what moves between widths fits. */
static void set(uint64_t *registers, const struct instruction *instruction, uint64_t value) {
    bool whole = instruction->bytes != 4 || instruction->operation == OP_MUL_WIDE ||
                 instruction->operation == OP_MAD_WIDE;
    if (instruction->to != NO_REGISTER)
        registers[instruction->to] = whole ? value : (uint32_t)value;
}

static CUresult run(struct kernel *kernel, struct thread *thread, double until) {
    const struct instruction *code = kernel->entry->code;
    uint64_t *r = thread->registers, value = 0;
    CUresult result = CUDA_SUCCESS;
    while (thread->clock < until) {
        if (thread->due <= thread->clock &&
            (result = deliver_stores(kernel, thread, thread->clock)))
            return result;
        const struct instruction *i = &code[thread->at++];
        thread->clock += INSTRUCTION;
        if (i->guard != NO_REGISTER && (r[i->guard] != 0) == i->negated)
            continue;
        switch (i->operation) {
        case OP_SPECIAL: set(r, i, special_value(kernel, thread, i->number)); break;
        case OP_PARAMETER:
            value = 0;
            memcpy(&value, kernel->parameters + i->number, i->bytes);
            set(r, i, value);
            break;
        case OP_LOAD:
            result = load(kernel, thread, r[i->a] + (uint64_t)i->number, &value, i->bytes,
                          i->is_volatile);
            set(r, i, value);
            break;
        case OP_STORE:
            result = store(kernel, thread, r[i->a] + (uint64_t)i->number, r[i->b], i->bytes,
                           i->is_volatile);
            break;
        case OP_RED_ADD: case OP_RED_MIN: case OP_RED_MAX: case OP_EXCHANGE:
            result = change(kernel, thread, i, r[i->a] + (uint64_t)i->number, r[i->b], &value);
            set(r, i, value);
            break;
        case OP_FENCE_BLOCK: break;
        case OP_FENCE_DEVICE: fence(kernel, thread, false); break;
        case OP_FENCE_SYSTEM: fence(kernel, thread, true); break;
        case OP_BRANCH: thread->at = (size_t)i->number; break;
        case OP_RETURN:
            thread->ended = true;
            return deliver_stores(kernel, thread, NEVER / 2);
        default: set(r, i, compute(i, r));
        }
        if (result)
            return result;
    }
    return CUDA_SUCCESS;
}

/* ---- kernels */

static void free_kernel(struct kernel *kernel) {
    free(kernel->threads);
    free(kernel->registers);
    free(kernel);
}

static void remove_kernel(struct kernel *kernel) {
    struct kernel **link = &kernels;
    while (*link != kernel)
        link = &(*link)->next;
    *link = kernel->next;
    free_kernel(kernel);
}

CUresult launch(const struct entry *entry, struct stream *stream, const unsigned grid[3],
                const unsigned block[3], void **parameters) {
    uint64_t count = (uint64_t)grid[0] * grid[1] * grid[2] * block[0] * block[1] * block[2];
    struct kernel *kernel = calloc(1, sizeof *kernel);
    if (!kernel)
        return CUDA_ERROR_OUT_OF_MEMORY;
    kernel->entry = entry;
    kernel->context = stream->context;
    kernel->stream = stream;
    kernel->thread_count = kernel->threads_left = count;
    memcpy(kernel->grid, grid, sizeof kernel->grid);
    memcpy(kernel->block, block, sizeof kernel->block);
    for (unsigned i = 0; i < entry->parameter_count; i++)
        memcpy(kernel->parameters + entry->parameters[i].offset, parameters[i],
               entry->parameters[i].bytes);
    kernel->threads = calloc(count, sizeof *kernel->threads);
    kernel->registers = calloc(count * entry->registers + 1, sizeof *kernel->registers);
    if (!kernel->threads || !kernel->registers || add_work(stream, 0)) {
        free_kernel(kernel);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    kernel->work = stream->count - 1;
    struct kernel **link = &kernels;
    while (*link)
        link = &(*link)->next;
    *link = kernel;
    return CUDA_SUCCESS;
}

static void begin(struct kernel *kernel) {
    double start = kernel->stream->work[kernel->work].end * 1000;
    const unsigned *block = kernel->block, *grid = kernel->grid;
    size_t in_block = (size_t)block[0] * block[1] * block[2];
    for (size_t n = 0; n < kernel->thread_count; n++) {
        struct thread *thread = &kernel->threads[n];
        unsigned inside = (unsigned)(n % in_block), which = (unsigned)(n / in_block);
        thread->place[0] = inside % block[0];
        thread->place[1] = inside / block[0] % block[1];
        thread->place[2] = inside / block[0] / block[1];
        thread->block[0] = which % grid[0];
        thread->block[1] = which / grid[0] % grid[1];
        thread->block[2] = which / grid[0] / grid[1];
        thread->clock = start;
        thread->due = NEVER;
        thread->registers = kernel->registers + n * kernel->entry->registers;
        memcpy(thread->registers, kernel->entry->constants,
               kernel->entry->registers * sizeof *thread->registers);
    }
    kernel->began = kernel->lowest = kernel->end = start;
    kernel->phase = RUNNING;
}

static bool may_begin(const struct kernel *kernel) {
    for (const struct kernel *other = kernels; other != kernel; other = other->next)
        if (other->phase != DONE && waits_for(kernel->stream, other->stream))
            return false;
    return !is_stuck(kernel->stream);
}

static double time_on_links(const struct kernel *kernel) {
    double longest = 0;
    for (int owner = 0; owner < MAX_GPUS; owner++) {
        if (!kernel->moved[owner])
            continue;
        double taken = time_of_transfer(kernel->context->device, owner, kernel->moved[owner]);
        if (taken > longest)
            longest = taken;
    }
    return longest;
}

static void finish(struct kernel *kernel) {
    double microseconds = (kernel->end - kernel->began) / 1000, links = time_on_links(kernel);
    kernel->phase = DONE;
    finish_work(kernel->stream, kernel->work, microseconds > links ? microseconds : links);
}

/* What never was seen while kernels ran is there when all of them have ended. */
static void deliver_the_rest(void) {
    for (struct kernel *next, *kernel = kernels; kernel; kernel = next) {
        next = kernel->next;
        if (kernel->phase != DONE)
            continue;
        for (size_t n = 0; n < kernel->thread_count; n++)
            deliver_stores(kernel, &kernel->threads[n], NEVER);
        remove_kernel(kernel);
    }
}

static void fail(struct context *context, CUresult error) {
    context->error = error;
    drop_kernels_of(context);
}

/* False: the kernel cannot go on. */
static bool run_turn(struct kernel *kernel, double until) {
    kernel->lowest = NEVER;
    for (size_t n = 0; n < kernel->thread_count; n++) {
        struct thread *thread = &kernel->threads[n];
        if (thread->ended)
            continue;
        if (thread->clock < until) {
            CUresult result = run(kernel, thread, until);
            if (result == HANGS) {
                kernel->phase = HANGING;
                hang(kernel->stream);
                return false;
            }
            if (result) {
                fail(kernel->context, result);
                return false;
            }
        }
        if (thread->ended) {
            kernel->threads_left--;
            if (thread->clock > kernel->end)
                kernel->end = thread->clock;
        } else if (thread->clock < kernel->lowest) {
            kernel->lowest = thread->clock;
        }
    }
    if (!kernel->threads_left)
        finish(kernel);
    return true;
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A single thread that runs alone may wait for one of another process: its clock is no faster than
   the real one then, and the other process gets its turn. */
static bool keep_pace(void) {
    struct kernel *kernel = kernels;
    while (kernel->phase != RUNNING)
        kernel = kernel->next;
    if (kernel->thread_count != 1)
        return false;
    double now = seconds_now();
    if (!kernel->paced_from) {
        kernel->paced_from = now;
        kernel->paced_clock = kernel->lowest;
    }
    double ahead = (kernel->lowest - kernel->paced_clock) / 1e9 - (now - kernel->paced_from);
    if (ahead > 0)
        usleep((unsigned)(ahead * 1e6) + 1);
    else
        sched_yield();
    return true;
}

/* One turn of each. False: nothing runs. */
static bool run_turns(void) {
    double lowest = NEVER;
    int running = 0;
    for (struct kernel *kernel = kernels; kernel; kernel = kernel->next) {
        if (kernel->phase == WAITING && may_begin(kernel))
            begin(kernel);
        if (kernel->phase != RUNNING)
            continue;
        running++;
        if (kernel->lowest < lowest)
            lowest = kernel->lowest;
    }
    bool awaits = running == 1 && keep_pace();
    double until = lowest + (running > 1 ? TURN : awaits ? TURN_AWAITING : TURN_ALONE);
    for (struct kernel *kernel = kernels; kernel; kernel = kernel->next)
        if (kernel->phase == RUNNING && kernel->lowest < until && !run_turn(kernel, until))
            break; /* the list may have changed */
    return running > 0;
}

bool run_kernels(double seconds) {
    double until = seconds_now() + seconds;
    for (unsigned turns = 1; run_turns(); turns++)
        if (turns % 16 == 0 && seconds_now() > until)
            return true;
    deliver_the_rest();
    return false;
}

bool has_kernels(const struct stream *stream, size_t until) {
    for (const struct kernel *kernel = kernels; kernel; kernel = kernel->next)
        if (kernel->stream == stream && kernel->phase != DONE && kernel->work < until)
            return true;
    return false;
}

bool is_running(const struct entry *entry) {
    for (const struct kernel *kernel = kernels; kernel; kernel = kernel->next)
        if (kernel->entry == entry)
            return true;
    return false;
}

void drop_kernels_of(const struct context *context) {
    for (struct kernel *next, *kernel = kernels; kernel; kernel = next) {
        next = kernel->next;
        if (kernel->context == context)
            remove_kernel(kernel);
    }
}
