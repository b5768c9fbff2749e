#include "ptx.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LABELS = 64, MAX_WORD = 64, MAX_OPERANDS = 4, PREDICATE = 1 };

struct name {
    char text[MAX_WORD];
    int bytes; /* PREDICATE, 4 or 8 */
    uint8_t slot;
};

struct label {
    char text[MAX_WORD];
    int64_t at; /* -1: used, not yet defined */
    int line;
};

struct reader {
    struct ptx *ptx;
    const char *at;
    int line;
    struct entry *entry;
    struct name names[MAX_REGISTERS];
    unsigned name_count;
    struct label labels[MAX_LABELS];
    unsigned label_count;
};

/* Of `shape`, one letter for each operand: d and a are of the instruction's type, w is twice and h
   half as wide, s is 32 bits, p a predicate, m an address in memory, P a parameter, l a label; the
   first is written to if it is d, w, h or p. */
static const struct form {
    const char *stem;
    enum operation operation;
    const char *shape, *types;
} forms[] = {
    {"add", OP_ADD, "daa", "u32 s32 u64 s64"},
    {"sub", OP_SUB, "daa", "u32 s32 u64 s64"},
    {"mul.lo", OP_MUL, "daa", "u32 s32 u64 s64"},
    {"mul.wide", OP_MUL_WIDE, "waa", "u32"},
    {"mad.lo", OP_MAD, "daaa", "u32 s32 u64 s64"},
    {"mad.wide", OP_MAD_WIDE, "waaw", "u32"},
    {"min", OP_MIN, "daa", "u32 u64"},
    {"max", OP_MAX, "daa", "u32 u64"},
    {"and", OP_AND, "daa", "b32 b64 pred"},
    {"or", OP_OR, "daa", "b32 b64 pred"},
    {"xor", OP_XOR, "daa", "b32 b64 pred"},
    {"not", OP_NOT, "da", "b32 b64 pred"},
    {"shl", OP_SHL, "das", "b32 b64"},
    {"shr", OP_SHR, "das", "b32 b64 u32 u64"},
    {"mov", OP_MOVE, "da", "u32 s32 b32 u64 s64 b64 pred"},
    {"selp", OP_SELECT, "daap", "u32 s32 b32 u64 s64 b64"},
    {"setp.eq", OP_EQUAL, "paa", "u32 s32 b32 u64 s64 b64"},
    {"setp.ne", OP_UNEQUAL, "paa", "u32 s32 b32 u64 s64 b64"},
    {"setp.lt", OP_LESS, "paa", "u32 s32 u64 s64"},
    {"setp.le", OP_LESS_OR_EQUAL, "paa", "u32 s32 u64 s64"},
    {"setp.gt", OP_GREATER, "paa", "u32 s32 u64 s64"},
    {"setp.ge", OP_GREATER_OR_EQUAL, "paa", "u32 s32 u64 s64"},
    {"cvt.u64", OP_MOVE, "wa", "u32"},
    {"cvt.u32", OP_MOVE, "ha", "u64"},
    {"cvta.to.global", OP_MOVE, "da", "u64"},
    {"ld.param", OP_PARAMETER, "dP", "u32 s32 b32 u64 s64 b64"},
    {"ld.global", OP_LOAD, "dm", "u32 s32 b32 u64 s64 b64"},
    {"ld.volatile.global", OP_LOAD, "dm", "u32 s32 b32 u64 s64 b64"},
    {"st.global", OP_STORE, "ma", "u32 s32 b32 u64 s64 b64"},
    {"st.volatile.global", OP_STORE, "ma", "u32 s32 b32 u64 s64 b64"},
    {"red.global.add", OP_RED_ADD, "ma", "u32 u64"},
    {"red.global.min", OP_RED_MIN, "ma", "u32 u64"},
    {"red.global.max", OP_RED_MAX, "ma", "u32 u64"},
    {"atom.global.add", OP_RED_ADD, "dma", "u32 u64"},
    {"atom.global.min", OP_RED_MIN, "dma", "u32 u64"},
    {"atom.global.max", OP_RED_MAX, "dma", "u32 u64"},
    {"atom.global.exch", OP_EXCHANGE, "dma", "b32 b64"},
    {"membar.cta", OP_FENCE_BLOCK, "", NULL},
    {"membar.gl", OP_FENCE_DEVICE, "", NULL},
    {"membar.sys", OP_FENCE_SYSTEM, "", NULL},
    {"bra", OP_BRANCH, "l", NULL},
    {"bra.uni", OP_BRANCH, "l", NULL},
    {"ret", OP_RETURN, "", NULL},
};

static const struct {
    const char *name;
    enum special special;
    int bytes;
} specials[] = {
    {"%tid.x", SPECIAL_TID, 4},       {"%tid.y", SPECIAL_TID_Y, 4},
    {"%tid.z", SPECIAL_TID_Z, 4},     {"%ntid.x", SPECIAL_NTID, 4},
    {"%ntid.y", SPECIAL_NTID_Y, 4},   {"%ntid.z", SPECIAL_NTID_Z, 4},
    {"%ctaid.x", SPECIAL_CTAID, 4},   {"%ctaid.y", SPECIAL_CTAID_Y, 4},
    {"%ctaid.z", SPECIAL_CTAID_Z, 4}, {"%nctaid.x", SPECIAL_NCTAID, 4},
    {"%nctaid.y", SPECIAL_NCTAID_Y, 4}, {"%nctaid.z", SPECIAL_NCTAID_Z, 4},
    {"%globaltimer", SPECIAL_GLOBALTIMER, 8},
};

static bool fail(struct reader *reader, const char *format, ...) {
    va_list arguments;
    if (reader->ptx->error_line)
        return false;
    reader->ptx->error_line = reader->line;
    va_start(arguments, format);
    vsnprintf(reader->ptx->error, sizeof reader->ptx->error, format, arguments);
    va_end(arguments);
    return false;
}

static void skip_space(struct reader *reader) {
    for (;; reader->at++) {
        if (*reader->at == '\n')
            reader->line++;
        else if (reader->at[0] == '/' && reader->at[1] == '/')
            reader->at += strcspn(reader->at, "\n") - 1;
        else if (!isspace((unsigned char)*reader->at))
            return;
    }
}

static bool is_in_word(char c) {
    return isalnum((unsigned char)c) || (c && strchr("._$%", c));
}

/* Empty where there is none. */
static const char *peek_word(struct reader *reader, char word[MAX_WORD]) {
    size_t length = 0;
    skip_space(reader);
    while (is_in_word(reader->at[length]) && length < MAX_WORD - 1) {
        word[length] = reader->at[length];
        length++;
    }
    word[length] = 0;
    return reader->at + length;
}

static void take_word(struct reader *reader, char word[MAX_WORD]) {
    reader->at = peek_word(reader, word);
}

static bool take(struct reader *reader, char wanted) {
    skip_space(reader);
    if (*reader->at != wanted)
        return false;
    reader->at++;
    return true;
}

static bool expect(struct reader *reader, char wanted) {
    if (take(reader, wanted))
        return true;
    return fail(reader, "Parsing error near '%.*s': '%c' expected",
                (int)strcspn(reader->at, " \n;"), reader->at, wanted);
}

static int bytes_of_type(const char *type) {
    if (!strcmp(type, "pred"))
        return PREDICATE;
    if (!type[0] || !strchr("usb", type[0]))
        return 0;
    return !strcmp(type + 1, "32") ? 4 : !strcmp(type + 1, "64") ? 8 : 0;
}

static bool is_among(const char *word, const char *words) {
    size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += length)
        if ((at == words || at[-1] == ' ') && (!at[length] || at[length] == ' '))
            return true;
    return false;
}

/* ---- registers */

static const struct name *find_name(const struct reader *reader, const char *text) {
    for (unsigned i = 0; i < reader->name_count; i++)
        if (!strcmp(reader->names[i].text, text))
            return &reader->names[i];
    return NULL;
}

static bool declare_register(struct reader *reader, const char *text, int bytes) {
    if (find_name(reader, text))
        return fail(reader, "Duplicate definition of variable '%s'", text);
    if (reader->entry->registers == MAX_REGISTERS)
        return fail(reader, "more registers than this simulation has");
    struct name *name = &reader->names[reader->name_count++];
    snprintf(name->text, sizeof name->text, "%s", text);
    name->bytes = bytes;
    name->slot = (uint8_t)reader->entry->registers++;
    return true;
}

static bool read_range(struct reader *reader, const char *stem, int bytes) {
    char count[MAX_WORD], text[2 * MAX_WORD];
    take_word(reader, count);
    if (!expect(reader, '>'))
        return false;
    for (int i = 0; i < atoi(count); i++) {
        snprintf(text, sizeof text, "%s%d", stem, i);
        if (strlen(text) >= MAX_WORD || !declare_register(reader, text, bytes))
            return false;
    }
    return true;
}

static bool read_declaration(struct reader *reader) {
    char type[MAX_WORD], text[MAX_WORD];
    take_word(reader, type);
    int bytes = *type == '.' ? bytes_of_type(type + 1) : 0;
    if (!bytes)
        return fail(reader, "Parsing error near '%s': type of a register expected", type);
    do {
        take_word(reader, text);
        if (!*text)
            return fail(reader, "Parsing error: name of a register expected");
        if (!(take(reader, '<') ? read_range(reader, text, bytes)
                                : declare_register(reader, text, bytes)))
            return false;
    } while (take(reader, ','));
    return expect(reader, ';');
}

static bool read_constant(struct reader *reader, const char *text, int bytes, uint8_t *slot) {
    char *end;
    uint64_t value = strtoull(text, &end, 0);
    if (*end == 'U')
        end++;
    if (*end || end == text || bytes == PREDICATE)
        return fail(reader, "Unknown symbol '%s'", text);
    if (reader->entry->registers == MAX_REGISTERS)
        return fail(reader, "more registers than this simulation has");
    *slot = (uint8_t)reader->entry->registers++;
    reader->entry->constants[*slot] = bytes == 4 ? (uint32_t)value : value;
    return true;
}

static bool read_register(struct reader *reader, const char *text, int bytes, uint8_t *slot) {
    const struct name *name = find_name(reader, text);
    if (!name)
        return fail(reader, "Unknown symbol '%s'", text);
    if (name->bytes != bytes)
        return fail(reader, "Arguments mismatch for instruction: '%s'", text);
    *slot = name->slot;
    return true;
}

static bool read_value(struct reader *reader, int bytes, uint8_t *slot) {
    char text[MAX_WORD];
    take_word(reader, text);
    return isdigit((unsigned char)*text) ? read_constant(reader, text, bytes, slot)
                                         : read_register(reader, text, bytes, slot);
}

/* ---- operands */

static bool read_offset(struct reader *reader, int64_t *offset) {
    char text[MAX_WORD], *end;
    *offset = 0;
    if (!take(reader, '+'))
        return true;
    take_word(reader, text);
    *offset = strtoll(text, &end, 0);
    return !*end && *text ? true : fail(reader, "Parsing error near '%s': offset expected", text);
}

static bool read_address(struct reader *reader, struct instruction *instruction) {
    char text[MAX_WORD];
    if (!expect(reader, '['))
        return false;
    take_word(reader, text);
    return read_register(reader, text, 8, &instruction->a) &&
           read_offset(reader, &instruction->number) && expect(reader, ']');
}

static bool read_parameter(struct reader *reader, struct instruction *instruction) {
    char text[MAX_WORD];
    if (!expect(reader, '['))
        return false;
    take_word(reader, text);
    for (unsigned i = 0; i < reader->entry->parameter_count; i++) {
        const struct parameter *parameter = &reader->entry->parameters[i];
        if (strcmp(parameter->name, text))
            continue;
        if (parameter->bytes != instruction->bytes)
            return fail(reader, "Arguments mismatch for instruction 'ld': '%s'", text);
        instruction->number = parameter->offset;
        return expect(reader, ']');
    }
    return fail(reader, "Unknown symbol '%s'", text);
}

static struct label *label_named(struct reader *reader, const char *text) {
    for (unsigned i = 0; i < reader->label_count; i++)
        if (!strcmp(reader->labels[i].text, text))
            return &reader->labels[i];
    if (reader->label_count == MAX_LABELS)
        return NULL;
    struct label *label = &reader->labels[reader->label_count++];
    snprintf(label->text, sizeof label->text, "%s", text);
    label->at = -1;
    label->line = reader->line;
    return label;
}

static bool read_target(struct reader *reader, struct instruction *instruction) {
    char text[MAX_WORD];
    take_word(reader, text);
    struct label *label = *text ? label_named(reader, text) : NULL;
    if (!label)
        return fail(reader, "Parsing error: label expected");
    instruction->number = label - reader->labels; /* becomes the target at the end of the entry */
    return true;
}

static bool read_special(struct reader *reader, struct instruction *instruction, bool *found) {
    char text[MAX_WORD];
    const char *after = peek_word(reader, text);
    *found = false;
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        if (strcmp(specials[i].name, text))
            continue;
        if (specials[i].bytes != instruction->bytes)
            return fail(reader, "Arguments mismatch for instruction 'mov': '%s'", text);
        *found = true;
        reader->at = after;
        instruction->operation = OP_SPECIAL;
        instruction->number = specials[i].special;
    }
    return true;
}

static bool read_source(struct reader *reader, struct instruction *instruction, int bytes,
                        int number) {
    uint8_t *const slots[] = {&instruction->a, &instruction->b, &instruction->c};
    return read_value(reader, bytes, slots[number]);
}

static bool read_operands(struct reader *reader, struct instruction *instruction,
                          const char *shape) {
    int sources = 0;
    for (int i = 0; shape[i]; i++) {
        int bytes = shape[i] == 'w'                      ? 2 * instruction->bytes
                    : shape[i] == 'h'                    ? instruction->bytes / 2
                    : shape[i] == 's'                    ? 4
                    : shape[i] == 'p'                    ? PREDICATE
                                                         : instruction->bytes;
        bool read, special = false;
        char text[MAX_WORD];
        if (i && !expect(reader, ','))
            return false;
        if (shape[i] == 'm') {
            read = read_address(reader, instruction);
            sources = 1;
        } else if (shape[i] == 'P') {
            read = read_parameter(reader, instruction);
        } else if (shape[i] == 'l') {
            read = read_target(reader, instruction);
        } else if (!i) {
            take_word(reader, text);
            read = read_register(reader, text, bytes, &instruction->to);
        } else {
            read = instruction->operation != OP_MOVE || read_special(reader, instruction, &special);
            if (read && !special)
                read = read_source(reader, instruction, bytes, sources++);
        }
        if (!read)
            return false;
    }
    return expect(reader, ';');
}

/* ---- instructions */

static const struct form *form_of(struct reader *reader, char *mnemonic, const char **type) {
    *type = "";
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (!forms[i].types && !strcmp(forms[i].stem, mnemonic))
            return &forms[i];
    char *dot = strrchr(mnemonic, '.');
    if (dot) {
        *dot = 0;
        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
            if (forms[i].types && !strcmp(forms[i].stem, mnemonic) &&
                is_among(dot + 1, forms[i].types)) {
                *type = dot + 1;
                return &forms[i];
            }
        *dot = '.';
    }
    fail(reader, "Not a name of any known instruction: '%s'", mnemonic);
    return NULL;
}

static bool read_guard(struct reader *reader, struct instruction *instruction) {
    char text[MAX_WORD];
    instruction->guard = NO_REGISTER;
    if (!take(reader, '@'))
        return true;
    instruction->negated = take(reader, '!');
    take_word(reader, text);
    return read_register(reader, text, PREDICATE, &instruction->guard);
}

static struct instruction *add_instruction(struct entry *entry) {
    if (entry->length == entry->room) {
        size_t room = entry->room ? 2 * entry->room : 64;
        struct instruction *larger = realloc(entry->code, room * sizeof *larger);
        if (!larger)
            return NULL;
        entry->code = larger;
        entry->room = room;
    }
    struct instruction *added = &entry->code[entry->length++];
    memset(added, 0, sizeof *added);
    added->to = NO_REGISTER;
    return added;
}

static bool read_instruction(struct reader *reader) {
    char mnemonic[MAX_WORD];
    const char *type;
    struct instruction *instruction = add_instruction(reader->entry);
    if (!instruction)
        return fail(reader, "out of memory");
    if (!read_guard(reader, instruction))
        return false;
    take_word(reader, mnemonic);
    instruction->line = reader->line;
    const struct form *form = form_of(reader, mnemonic, &type);
    if (!form)
        return false;
    instruction->operation = (uint8_t)form->operation;
    instruction->bytes = (uint8_t)bytes_of_type(type);
    instruction->is_signed = *type == 's';
    instruction->is_volatile = strstr(form->stem, ".volatile") != NULL;
    return read_operands(reader, instruction, form->shape);
}

static bool read_label(struct reader *reader, bool *found) {
    char text[MAX_WORD];
    const char *before = reader->at;
    int line = reader->line;
    take_word(reader, text);
    *found = *text && *text != '.' && take(reader, ':');
    if (!*found) {
        reader->at = before;
        reader->line = line;
        return true;
    }
    struct label *label = label_named(reader, text);
    if (!label || label->at >= 0)
        return fail(reader, "Duplicate definition of label '%s'", text);
    label->at = (int64_t)reader->entry->length;
    return true;
}

static bool resolve_labels(struct reader *reader) {
    for (size_t i = 0; i < reader->entry->length; i++) {
        struct instruction *instruction = &reader->entry->code[i];
        if (instruction->operation != OP_BRANCH)
            continue;
        const struct label *label = &reader->labels[instruction->number];
        if (label->at < 0) {
            reader->line = label->line;
            return fail(reader, "Unknown symbol '%s'", label->text);
        }
        instruction->number = label->at;
    }
    return true;
}

static bool read_body(struct reader *reader) {
    char word[MAX_WORD];
    bool is_label;
    if (!expect(reader, '{'))
        return false;
    while (!take(reader, '}')) {
        if (!*reader->at)
            return fail(reader, "Parsing error: '}' expected");
        const char *after = peek_word(reader, word);
        if (!strcmp(word, ".reg")) {
            reader->at = after;
            if (!read_declaration(reader))
                return false;
        } else if (*word == '.') {
            return fail(reader, "Unexpected directive '%s'", word);
        } else if (!read_label(reader, &is_label) || (!is_label && !read_instruction(reader))) {
            return false;
        }
    }
    /* Running off the end is a return. */
    struct instruction *end = add_instruction(reader->entry);
    if (!end)
        return fail(reader, "out of memory");
    end->operation = OP_RETURN;
    end->guard = NO_REGISTER;
    end->line = reader->line;
    return resolve_labels(reader);
}

/* ---- entries */

static bool read_parameter_declaration(struct reader *reader) {
    char word[MAX_WORD], type[MAX_WORD], name[MAX_WORD];
    struct entry *entry = reader->entry;
    take_word(reader, word);
    take_word(reader, type);
    take_word(reader, name);
    unsigned bytes = *type == '.' ? (unsigned)bytes_of_type(type + 1) : 0;
    if (strcmp(word, ".param") || bytes < 4 || !*name ||
        strlen(name) >= sizeof entry->parameters->name)
        return fail(reader, "Parsing error near '%s': parameter expected", word);
    unsigned offset = (entry->parameter_bytes + bytes - 1) / bytes * bytes;
    if (entry->parameter_count == MAX_PARAMETERS)
        return fail(reader, "more parameters than this simulation has");
    struct parameter *parameter = &entry->parameters[entry->parameter_count++];
    snprintf(parameter->name, sizeof parameter->name, "%s", name);
    parameter->offset = offset;
    parameter->bytes = bytes;
    entry->parameter_bytes = offset + bytes;
    return true;
}

static bool read_entry(struct reader *reader) {
    char name[MAX_WORD];
    struct entry *entry = calloc(1, sizeof *entry);
    if (!entry)
        return fail(reader, "out of memory");
    entry->next = reader->ptx->entries;
    reader->ptx->entries = entry;
    reader->entry = entry;
    reader->name_count = reader->label_count = 0;
    take_word(reader, name);
    if (!*name || *name == '.')
        return fail(reader, "Parsing error: name of an entry expected");
    snprintf(entry->name, sizeof entry->name, "%s", name);
    if (!expect(reader, '('))
        return false;
    if (!take(reader, ')')) {
        do {
            if (!read_parameter_declaration(reader))
                return false;
        } while (take(reader, ','));
        if (!expect(reader, ')'))
            return false;
    }
    return read_body(reader);
}

static bool read_directive(struct reader *reader, const char *word) {
    char value[MAX_WORD];
    int major, minor;
    if (!strcmp(word, ".visible"))
        return true;
    if (!strcmp(word, ".entry")) {
        if (!reader->ptx->version || !reader->ptx->target)
            return fail(reader, "Missing .version or .target directive");
        return read_entry(reader);
    }
    take_word(reader, value);
    if (!strcmp(word, ".version") && sscanf(value, "%d.%d", &major, &minor) == 2)
        reader->ptx->version = 10 * major + minor;
    else if (!strcmp(word, ".target") && sscanf(value, "sm_%d", &major) == 1)
        reader->ptx->target = major;
    else if (strcmp(word, ".address_size") || strcmp(value, "64"))
        return fail(reader, "Parsing error near '%s %s'", word, value);
    return true;
}

bool ptx_read(struct ptx *ptx, const char *text) {
    struct reader *reader = calloc(1, sizeof *reader);
    char word[MAX_WORD];
    if (!reader)
        return false;
    memset(ptx, 0, sizeof *ptx);
    reader->ptx = ptx;
    reader->at = text;
    reader->line = 1;
    for (skip_space(reader); *reader->at; skip_space(reader)) {
        take_word(reader, word);
        if (*word != '.') {
            fail(reader, "Parsing error near '%.*s'", (int)strcspn(reader->at, " \n;"), reader->at);
            break;
        }
        if (!read_directive(reader, word))
            break;
    }
    if (!ptx->error_line && !ptx->version)
        fail(reader, "Missing .version directive");
    free(reader);
    return !ptx->error_line;
}

void ptx_free(struct ptx *ptx) {
    while (ptx->entries) {
        struct entry *entry = ptx->entries;
        ptx->entries = entry->next;
        free(entry->code);
        free(entry);
    }
}
