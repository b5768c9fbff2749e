/* How one device reaches into the memory of another, and what each kind of pair does to that. */
#include <string.h>

#include "state.h"

enum { PAGE = 4096, ALWAYS_RIGHT_BELOW = 64 * 1024, WINDOW = 512 * 1024 };

bool can_reach(int device, int owner) {
    return contexts[device].retained && contexts[device].peers[owner];
}

/* The same for each run of the same pair and size; `bytes` where all are right. */
size_t first_wrong_byte(int accessor, int owner, size_t bytes) {
    if (bytes < ALWAYS_RIGHT_BELOW)
        return bytes;
    uint64_t seed = (uint64_t)(accessor * MAX_GPUS + owner) * 0x9e3779b97f4a7c15ULL + bytes;
    seed ^= seed >> 29;
    return (1 + (size_t)(seed * 0xbf58476d1ce4e5b9ULL >> 33) % (bytes / PAGE / 2)) * PAGE;
}

/* Adding, because an exclusive or would undo itself on the way back. */
void spoil(unsigned char *memory, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        memory[i] = (unsigned char)(memory[i] + 0x5b);
}

double microseconds(size_t bytes, double gbs, double latency) {
    return latency + (double)bytes / (gbs * 1e3);
}

double direct_rate(const struct pair *pair) {
    return pair->copy == COPY_SLOW && pair->rate >= pair->staged ? pair->staged / 2 : pair->rate;
}

double time_of_transfer(int accessor, int owner, uint64_t bytes) {
    const struct pair *pair = &conf.pair[accessor][owner];
    return microseconds(bytes, direct_rate(pair), pair->latency);
}

/* ---- words, as kernels load and store them */

static enum behaviour behaviour_between(int accessor, int owner) {
    return accessor == owner ? COPY_OK : conf.pair[accessor][owner].copy;
}

static unsigned char *word_at(struct allocation *allocation, size_t offset, int accessor) {
    enum behaviour behaviour = behaviour_between(accessor, allocation->device);
    bool mirrored = behaviour == COPY_MIRROR;
    if (behaviour == WRAPS)
        offset %= WINDOW;
    return (mirrored ? shadow_of(allocation, accessor) : allocation->mapped) + offset;
}

/* The word that should have come the last time comes now, and this one waits. */
static uint64_t swap_with_late(struct allocation *allocation, size_t offset, uint64_t value,
                               unsigned bytes, int accessor) {
    unsigned char *late = shadow_of(allocation, accessor) + offset;
    uint64_t earlier = 0;
    memcpy(&earlier, late, bytes);
    memcpy(late, &value, bytes);
    return earlier;
}

static uint64_t altered(struct allocation *allocation, size_t offset, uint64_t value,
                        unsigned bytes, int accessor) {
    int owner = allocation->device;
    enum behaviour behaviour = behaviour_between(accessor, owner);
    if (behaviour == COPY_STALE)
        return swap_with_late(allocation, offset, value, bytes, accessor);
    if (behaviour == COPY_WRONG && offset >= first_wrong_byte(accessor, owner, allocation->bytes))
        spoil((unsigned char *)&value, bytes);
    return value;
}

uint64_t get_word(struct allocation *allocation, size_t offset, unsigned bytes, int accessor) {
    uint64_t value = 0;
    if (behaviour_between(accessor, allocation->device) == LOADS_WRONG ||
        is_lost(allocation->device))
        return bytes == 4 ? UINT32_MAX : UINT64_MAX;
    memcpy(&value, word_at(allocation, offset, accessor), bytes);
    return altered(allocation, offset, value, bytes, accessor);
}

void put_word(struct allocation *allocation, size_t offset, uint64_t value, unsigned bytes,
              int accessor) {
    if (is_lost(allocation->device))
        return;
    value = altered(allocation, offset, value, bytes, accessor);
    note_change(allocation);
    memcpy(word_at(allocation, offset, accessor), &value, bytes);
}
