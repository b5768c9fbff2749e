/* Initialisation, enumeration, and what can be asked about devices and pairs. */
#include <ctype.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "state.h"

#ifndef VERSION
#error "VERSION, the driver's version as a string, has to be given"
#endif

struct conf conf;
struct context contexts[MAX_GPUS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t initialised_by;
static int visible[MAX_GPUS];
static int visible_count;

void unlock(void) {
    pthread_mutex_unlock(&lock);
}

void let_others_in(unsigned microseconds) {
    pthread_mutex_unlock(&lock);
    usleep(microseconds);
    pthread_mutex_lock(&lock);
    conf_refresh(&conf);
}

void come_to(const char *step) {
    if (strcmp(conf.step, step))
        return;
    int file = open(conf.at_step, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0)
        fprintf(stderr, "rigsim: cannot make %s\n", conf.at_step);
    else
        close(file);
    while (!strcmp(conf.step, step))
        let_others_in(20000);
}

/* A fork inherits the state but not the driver's files: the real library says 3 there, too. */
CUresult enter_initialised(void) {
    pthread_mutex_lock(&lock);
    if (initialised_by != getpid())
        return leave(CUDA_ERROR_NOT_INITIALIZED);
    conf_refresh(&conf);
    return CUDA_SUCCESS;
}

static bool has_fallen(const struct gpu *gpu) {
    struct stat copies;
    return gpu->falls_with && !stat(gpu->copies, &copies) && copies.st_size >= gpu->falls_with;
}

bool is_lost(int device) {
    return device >= conf.gpus || conf.gpu[device].lost || has_fallen(&conf.gpu[device]);
}

void count_copy(int device) {
    const struct gpu *gpu = &conf.gpu[device];
    if (!gpu->falls_with)
        return;
    int file = open(gpu->copies, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0 || write(file, "x", 1) != 1)
        fprintf(stderr, "rigsim: cannot count a copy in %s\n", gpu->copies);
    if (file >= 0)
        close(file);
}

CUresult device_of(CUdevice ordinal, int *device) {
    if (ordinal < 0 || ordinal >= visible_count)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = visible[ordinal];
    return CUDA_SUCCESS;
}

int ordinal_of(int device) {
    for (int ordinal = 0; ordinal < visible_count; ordinal++)
        if (visible[ordinal] == device)
            return ordinal;
    return -1;
}

static void *write_for_ever(void *path) {
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file >= 0 && write(file, "x", 1) >= 0)
        close(file);
    return NULL;
}

/* A write to a frozen file system leaves a thread in state D, and with it the whole process, as a
   wedged driver does. */
void start_hanging(void) {
    pthread_t thread;
    if (*conf.unkillable && !pthread_create(&thread, NULL, write_for_ever, conf.unkillable))
        pthread_detach(thread);
}

static bool is_faster(const struct gpu *a, const struct gpu *b) {
    if (a->major != b->major)
        return a->major > b->major;
    if (a->minor != b->minor)
        return a->minor > b->minor;
    return a->bytes > b->bytes;
}

/* CUDA numbers the fastest card first, whatever the bus says, unless it is told otherwise. */
static void order_devices(int *order) {
    const char *wish = getenv("CUDA_DEVICE_ORDER");
    bool by_bus = wish && !strcmp(wish, "PCI_BUS_ID");
    for (int next = 0; next < conf.gpus; next++) {
        int at = next;
        while (!by_bus && at && is_faster(&conf.gpu[next], &conf.gpu[order[at - 1]])) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = next;
    }
}

static int device_named(const char *word, const int *order) {
    char *end;
    long number = strtol(word, &end, 10);
    if (end != word && !*end)
        return number >= 0 && number < conf.gpus ? order[number] : -1;
    for (int device = 0; device < conf.gpus; device++)
        if (!strncmp(word, "GPU-", 4) && !strncmp(conf.gpu[device].uuid, word, strlen(word)))
            return device;
    return -1;
}

static void enumerate(void) {
    int order[MAX_GPUS];
    order_devices(order);
    const char *wish = getenv("CUDA_VISIBLE_DEVICES");
    visible_count = 0;
    if (!wish) {
        for (int at = 0; at < conf.gpus; at++)
            if (!conf.lost_are_gone || !is_lost(order[at]))
                visible[visible_count++] = order[at];
        return;
    }
    char *words = strdup(wish), *rest = words, *word;
    while (words && (word = strsep(&rest, ",")) && visible_count < MAX_GPUS) {
        int device = device_named(word, order);
        if (device < 0)
            break; /* as documented: the first invalid entry ends the list */
        visible[visible_count++] = device;
    }
    free(words);
}

static void hang_here(void) {
    start_hanging();
    while (conf.init_hangs)
        let_others_in(100000);
}

static CUresult initialise(void) {
    enum conf_read read = conf_refresh(&conf);
    if (read == CONF_MISSING)
        return CUDA_ERROR_NO_DEVICE;
    if (read == CONF_BROKEN)
        return CUDA_ERROR_UNKNOWN;
    if (!*conf.driver)
        return CUDA_ERROR_NO_DEVICE;
    if (strcmp(conf.driver, VERSION))
        return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    if (conf.init_hangs)
        hang_here();
    come_to("init");
    enumerate();
    if (!visible_count)
        return CUDA_ERROR_NO_DEVICE;
    for (int device = 0; device < MAX_GPUS; device++)
        contexts[device].device = device;
    remove_stale_memory();
    initialised_by = getpid();
    return CUDA_SUCCESS;
}

CUAPI CUresult cuInit(unsigned flags) {
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    if (initialised_by == getpid())
        return leave(CUDA_SUCCESS);
    return leave(initialised_by ? CUDA_ERROR_NOT_INITIALIZED : initialise());
}

CUAPI CUresult cuDriverGetVersion(int *version) {
    static const int known[][2] = {{580, 13000}, {575, 12090}, {570, 12080}, {565, 12070},
                                   {560, 12060}, {555, 12050}, {550, 12040}, {545, 12030},
                                   {535, 12020}, {530, 12010}, {525, 12000}, {520, 11080},
                                   {515, 11070}, {510, 11060}, {470, 11040}};
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    int branch = atoi(VERSION);
    *version = known[sizeof known / sizeof *known - 1][1];
    for (size_t i = sizeof known / sizeof *known; i-- > 0;)
        if (branch >= known[i][0])
            *version = known[i][1];
    return CUDA_SUCCESS;
}

/* The newest form of a name is the one that a caller of a current CUDA version gets. */
static void *newest(const char *name) {
    Dl_info self;
    char suffixed[128];
    void *library, *found;
    if (!dladdr((void *)&lock, &self))
        return NULL;
    if (!(library = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD)))
        return NULL;
    snprintf(suffixed, sizeof suffixed, "%s_v2", name);
    if (!(found = dlsym(library, suffixed)))
        found = dlsym(library, name);
    dlclose(library);
    return found;
}

CUAPI CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                                   CUdriverProcAddressQueryResult *status) {
    int own;
    (void)flags;
    cuDriverGetVersion(&own);
    if (!name || !function || version > own)
        return CUDA_ERROR_INVALID_VALUE;
    *function = newest(name);
    if (status)
        *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *function || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUAPI CUresult cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}

CUAPI CUresult cuDeviceGetCount(int *count) {
    CUresult result = enter_initialised();
    if (result)
        return result;
    *count = visible_count;
    return leave(CUDA_SUCCESS);
}

/* The lock stays taken on success, so that what is read about the device is of one moment. */
static CUresult enter_device(CUdevice ordinal, int *device) {
    CUresult result = enter_initialised();
    if (result)
        return result;
    result = device_of(ordinal, device);
    return result ? leave(result) : CUDA_SUCCESS;
}

CUAPI CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    int found;
    CUresult result = enter_device(ordinal, &found);
    if (result)
        return result;
    *device = ordinal;
    return leave(CUDA_SUCCESS);
}

CUAPI CUresult cuDeviceGetName(char *name, int length, CUdevice ordinal) {
    int device;
    CUresult result = enter_device(ordinal, &device);
    if (result)
        return result;
    const char *known = conf.gpu[device].name;
    const char *maker = strncmp(known, "NVIDIA ", 7) ? "NVIDIA " : "";
    snprintf(name, (size_t)length, "%s%s", maker, known);
    return leave(CUDA_SUCCESS);
}

CUAPI CUresult cuDeviceGetPCIBusId(char *address, int length, CUdevice ordinal) {
    int device;
    CUresult result = enter_device(ordinal, &device);
    if (result)
        return result;
    snprintf(address, (size_t)length, "%s", conf.gpu[device].address);
    for (char *c = address; *c; c++)
        *c = (char)toupper(*c);
    return leave(CUDA_SUCCESS);
}

CUAPI CUresult cuDeviceGetByPCIBusId(CUdevice *found, const char *address) {
    CUresult result = enter_initialised();
    if (result)
        return result;
    for (int ordinal = 0; ordinal < visible_count; ordinal++)
        if (!strcasecmp(conf.gpu[visible[ordinal]].address, address)) {
            *found = ordinal;
            return leave(CUDA_SUCCESS);
        }
    return leave(CUDA_ERROR_INVALID_DEVICE);
}

CUAPI CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice ordinal) {
    int device;
    CUresult result = enter_device(ordinal, &device);
    if (result)
        return result;
    *bytes = conf.gpu[device].bytes;
    return leave(CUDA_SUCCESS);
}

CUAPI CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice ordinal) {
    int device, filled = 0;
    CUresult result = enter_device(ordinal, &device);
    if (result)
        return result;
    const char *text = conf.gpu[device].uuid + strlen("GPU-");
    memset(uuid, 0, sizeof *uuid);
    for (; *text && filled < 32; text++)
        if (isxdigit((unsigned char)*text)) {
            unsigned digit = (unsigned)(isdigit((unsigned char)*text) ? *text - '0'
                                                                      : tolower(*text) - 'a' + 10);
            uuid->bytes[filled / 2] |= (unsigned char)(filled % 2 ? digit : digit << 4);
            filled++;
        }
    return leave(CUDA_SUCCESS);
}

CUAPI CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice ordinal) {
    return cuDeviceGetUuid(uuid, ordinal);
}

static CUresult attribute(const struct gpu *gpu, int wanted, int *value) {
    unsigned domain = 0, bus = 0, slot = 0;
    sscanf(gpu->address, "%x:%x:%x", &domain, &bus, &slot);
    switch (wanted) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS: *value = 1; break;
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: *value = (int)bus; break;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID: *value = (int)slot; break;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: *value = 2; break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: *value = 1; break;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID: *value = (int)domain; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = gpu->major; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = gpu->minor; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUAPI CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute wanted, CUdevice ordinal) {
    int device;
    CUresult result = enter_device(ordinal, &device);
    return result ? result : leave(attribute(&conf.gpu[device], wanted, value));
}

/* Like enter_device, for two. */
static CUresult enter_pair(CUdevice a, CUdevice b, int *from, int *to) {
    CUresult result = enter_device(a, from);
    if (result)
        return result;
    result = device_of(b, to);
    return result ? leave(result) : CUDA_SUCCESS;
}

CUAPI CUresult cuDeviceCanAccessPeer(int *can, CUdevice ordinal, CUdevice peer) {
    int from, to;
    CUresult result = enter_pair(ordinal, peer, &from, &to);
    if (result)
        return result;
    *can = from != to && conf.pair[from][to].granted;
    return leave(CUDA_SUCCESS);
}

static CUresult p2p_attribute(const struct pair *pair, int wanted, int *value) {
    switch (wanted) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK: *value = pair->granted && !pair->nvlink; break;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED: *value = pair->granted; break;
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
        *value = pair->granted && pair->nvlink;
        break;
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED: *value = pair->granted; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUAPI CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute wanted, CUdevice source,
                                       CUdevice target) {
    int from, to;
    CUresult result = enter_pair(source, target, &from, &to);
    if (result)
        return result;
    if (from == to)
        return leave(CUDA_ERROR_INVALID_DEVICE);
    return leave(p2p_attribute(&conf.pair[from][to], wanted, value));
}
