/* Asks NVIDIA's occupancy calculator about many launches on one device. */
#include "cuda_occupancy.h"

int blocks(int major, int minor, const long *p, int threads, int registers, long shared, int *out)
{
    cudaOccDeviceProp device = {0};
    cudaOccFuncAttributes function = {0};
    cudaOccDeviceState state = {0};
    cudaOccResult result = {0};
    device.computeMajor = major;
    device.computeMinor = minor;
    device.maxThreadsPerBlock = p[0];
    device.maxThreadsPerMultiprocessor = p[1];
    device.regsPerBlock = p[2];
    device.regsPerMultiprocessor = p[3];
    device.warpSize = 32;
    device.sharedMemPerBlock = 49152;
    device.sharedMemPerMultiprocessor = p[4];
    device.numSms = 1;
    device.sharedMemPerBlockOptin = p[5];
    device.reservedSharedMemPerBlock = p[6];
    function.maxThreadsPerBlock = 0x7fffffff;
    function.numRegs = registers;
    function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    function.maxDynamicSharedSizeBytes = shared;
    state.carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT;
    int error = cudaOccMaxActiveBlocksPerMultiprocessor(
        &result, &device, &function, &state, threads, shared);
    out[0] = result.activeBlocksPerMultiprocessor;
    out[1] = result.blockLimitBlocks;
    out[2] = result.blockLimitWarps;
    out[3] = result.blockLimitRegs;
    out[4] = result.blockLimitSharedMem;
    out[5] = result.limitingFactors;
    return error;
}

int many(int major, int minor, const long *p, int n, const int *threads, const int *registers,
         const long *shared, int *out)
{
    for (int i = 0; i < n; i++) {
        int error = blocks(major, minor, p, threads[i], registers[i], shared[i], out + 6 * i);
        if (error) return error;
    }
    return 0;
}
