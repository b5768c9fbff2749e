/* Modules of PTX, read into a form that can be run. ptx.c knows the text, execute.c what it does.

   Only what the kernels of rigops use is known; all else is an error with its line, as it would be
   if ptxas did not know it. Widths of registers are checked as ptxas checks them. */
#ifndef RIGSIM_PTX_H
#define RIGSIM_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_REGISTERS = 128, MAX_PARAMETERS = 16, MAX_PARAMETER_BYTES = 256, NO_REGISTER = 255 };

enum operation {
    OP_ADD, OP_SUB, OP_MUL, OP_MUL_WIDE, OP_MAD, OP_MAD_WIDE, OP_MIN, OP_MAX,
    OP_AND, OP_OR, OP_XOR, OP_NOT, OP_SHL, OP_SHR, OP_MOVE, OP_SELECT,
    OP_EQUAL, OP_UNEQUAL, OP_LESS, OP_LESS_OR_EQUAL, OP_GREATER, OP_GREATER_OR_EQUAL,
    OP_SPECIAL, OP_PARAMETER, OP_LOAD, OP_STORE,
    OP_RED_ADD, OP_RED_MIN, OP_RED_MAX, OP_EXCHANGE,
    OP_FENCE_BLOCK, OP_FENCE_DEVICE, OP_FENCE_SYSTEM, OP_BRANCH, OP_RETURN,
};

enum special {
    SPECIAL_TID, SPECIAL_TID_Y, SPECIAL_TID_Z, SPECIAL_NTID, SPECIAL_NTID_Y, SPECIAL_NTID_Z,
    SPECIAL_CTAID, SPECIAL_CTAID_Y, SPECIAL_CTAID_Z,
    SPECIAL_NCTAID, SPECIAL_NCTAID_Y, SPECIAL_NCTAID_Z,
    SPECIAL_GLOBALTIMER,
};

/* Registers are slots of 64 bits; constants have slots of their own. `number` is an offset, an
   `enum special` or the target of a branch. */
struct instruction {
    uint8_t operation, bytes; /* `bytes`: of what it works on */
    bool is_signed, is_volatile;
    uint8_t guard; /* NO_REGISTER: always */
    bool negated;
    uint8_t to, a, b, c;
    int64_t number;
    int line;
};

struct parameter {
    char name[32];
    unsigned offset, bytes;
};

struct entry {
    char name[64];
    struct parameter parameters[MAX_PARAMETERS];
    unsigned parameter_count, parameter_bytes;
    struct instruction *code;
    size_t length, room;
    unsigned registers;
    uint64_t constants[MAX_REGISTERS]; /* what the registers hold when a thread starts */
    struct entry *next;
};

struct ptx {
    int version, target; /* 60 is 6.0, 50 is sm_50 */
    struct entry *entries;
    int error_line; /* 0: there is no error */
    char error[128];
};

/* False with error_line and error set. */
bool ptx_read(struct ptx *ptx, const char *text);
void ptx_free(struct ptx *ptx);

#endif
