#include "conf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct stat last_read;

static const char *conf_path(void) {
    const char *path = getenv("RIGSIM_CUDA_CONF");
    return path ? path : "/run/rigsim/cuda.conf";
}

static bool is_last_read(const struct stat *now) {
    return now->st_ino == last_read.st_ino && now->st_size == last_read.st_size &&
           now->st_mtim.tv_sec == last_read.st_mtim.tv_sec &&
           now->st_mtim.tv_nsec == last_read.st_mtim.tv_nsec;
}

static bool parse_gpu(struct conf *conf, const char *line) {
    struct gpu gpu = {0};
    char state[8];
    int index, name_at = 0;
    if (sscanf(line, "gpu %d %15s %63s %d.%d %zu %7s %n", &index, gpu.address, gpu.uuid, &gpu.major,
               &gpu.minor, &gpu.bytes, state, &name_at) != 7)
        return false;
    if (index != conf->gpus || index >= MAX_GPUS || !name_at)
        return false;
    gpu.lost = !strcmp(state, "lost");
    gpu.corrupts = !strcmp(state, "corrupt");
    if (strcmp(state, "ok") && !gpu.lost && !gpu.corrupts)
        return false;
    snprintf(gpu.name, sizeof gpu.name, "%s", line + name_at);
    conf->gpu[conf->gpus++] = gpu;
    return true;
}

static bool parse_behaviour(enum behaviour *copy, const char *word) {
    static const char *const words[] = {"ok",        "hang",        "wrong",       "mirror",
                                        "stale",     "slow",        "kernel-hang", "loads-wrong",
                                        "no-flags",  "map-fails",   "ipc-refused",
                                        "crowd-wrong", "crowd-hang", "overrun", "wraps",
                                        "crowd-slow"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(word, words[i])) {
            *copy = (enum behaviour)i;
            return true;
        }
    return false;
}

static bool parse_pair(struct conf *conf, const char *line) {
    struct pair pair = {0};
    int from, to, granted;
    char copy[16], link[16];
    if (sscanf(line,
               "pair %d %d granted=%d copy=%15s rate=%lf both=%lf latency=%lf staged=%lf link=%15s",
               &from, &to, &granted, copy, &pair.rate, &pair.both, &pair.latency, &pair.staged,
               link) != 9)
        return false;
    if (from < 0 || to < 0 || from >= MAX_GPUS || to >= MAX_GPUS || from == to)
        return false;
    if (!parse_behaviour(&pair.copy, copy) || pair.rate <= 0 || pair.both <= 0 || pair.staged <= 0)
        return false;
    pair.granted = granted != 0;
    pair.nvlink = !strcmp(link, "nvlink");
    conf->pair[from][to] = pair;
    return true;
}

/* After the lines of cards. */
static bool parse_fall(struct conf *conf, const char *line) {
    char copies[sizeof conf->gpu[0].copies];
    long with;
    int index;
    if (sscanf(line, "falls %d %ld %191s", &index, &with, copies) != 3)
        return false;
    if (index < 0 || index >= conf->gpus || with < 1)
        return false;
    conf->gpu[index].falls_with = with;
    strcpy(conf->gpu[index].copies, copies);
    return true;
}

/* After the lines of cards. */
static bool parse_switch(struct conf *conf, const char *numbers) {
    char *end;
    conf->switches++;
    for (; *numbers; numbers = end) {
        long index = strtol(numbers, &end, 10);
        if (end == numbers || index < 0 || index >= conf->gpus)
            return false;
        conf->gpu[index].behind = conf->switches;
    }
    return true;
}

static bool parse_line(struct conf *conf, const char *line) {
    if (!*line || *line == '#')
        return true;
    if (!strncmp(line, "gpu ", 4))
        return parse_gpu(conf, line);
    if (!strncmp(line, "pair ", 5))
        return parse_pair(conf, line);
    if (!strncmp(line, "driver ", 7))
        return sscanf(line, "driver %31s", conf->driver) == 1;
    if (!strncmp(line, "falls ", 6))
        return parse_fall(conf, line);
    if (!strncmp(line, "switch ", 7))
        return parse_switch(conf, line + 7);
    if (!strncmp(line, "waits ", 6))
        return sscanf(line, "waits %23s %191s", conf->step, conf->at_step) == 2;
    if (!strcmp(line, "lost are gone"))
        return conf->lost_are_gone = true;
    if (!strcmp(line, "init hang"))
        return conf->init_hangs = true;
    if (!strncmp(line, "unkillable ", 11))
        return sscanf(line, "unkillable %255s", conf->unkillable) == 1;
    return false;
}

static bool every_pair_is_there(const struct conf *conf) {
    for (int from = 0; from < conf->gpus; from++)
        for (int to = 0; to < conf->gpus; to++)
            if (from != to && conf->pair[from][to].rate <= 0)
                return false;
    return true;
}

static bool parse(struct conf *conf, FILE *file) {
    char line[512];
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (!parse_line(conf, line)) {
            fprintf(stderr, "rigsim: cannot read this line of %s: %s\n", conf_path(), line);
            return false;
        }
    }
    if (!every_pair_is_there(conf)) {
        fprintf(stderr, "rigsim: %s lacks a pair line\n", conf_path());
        return false;
    }
    return true;
}

enum conf_read conf_refresh(struct conf *conf) {
    static struct conf fresh;
    struct stat now;
    if (stat(conf_path(), &now))
        return CONF_MISSING;
    if (is_last_read(&now))
        return CONF_SAME;
    FILE *file = fopen(conf_path(), "re");
    if (!file)
        return CONF_MISSING;
    memset(&fresh, 0, sizeof fresh);
    bool readable = !fstat(fileno(file), &now) && parse(&fresh, file);
    fclose(file);
    if (!readable)
        return CONF_BROKEN;
    last_read = now;
    *conf = fresh;
    return CONF_NEW;
}
