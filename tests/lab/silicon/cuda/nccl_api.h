/* What the real nccl.h says about the part of NCCL that is simulated here. */
#ifndef RIGSIM_NCCL_API_H
#define RIGSIM_NCCL_API_H

typedef struct comm *ncclComm_t;

typedef struct { char internal[128]; } ncclUniqueId;

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
} ncclResult_t;

typedef enum { ncclSum = 0 } ncclRedOp_t;

typedef enum {
    ncclInt32 = 2,
    ncclUint32 = 3,
    ncclFloat32 = 7,
} ncclDataType_t;

#endif
