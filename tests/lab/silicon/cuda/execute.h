/* Kernels that were launched and have not ended. Called with the lock of state.h taken. */
#ifndef RIGSIM_EXECUTE_H
#define RIGSIM_EXECUTE_H

#include "ptx.h"
#include "state.h"

/* `parameters` points to a value for each parameter of the entry. */
CUresult launch(const struct entry *entry, struct stream *stream, const unsigned grid[3],
                const unsigned block[3], void **parameters);

/* Goes on with all of them, for so many seconds at most. False: none of them can run. */
bool run_kernels(double seconds);

/* Whether one of the stream's first `until` pieces of work is a kernel that has not ended. */
bool has_kernels(const struct stream *stream, size_t until);
bool is_running(const struct entry *entry);
void drop_kernels_of(const struct context *context);

#endif
