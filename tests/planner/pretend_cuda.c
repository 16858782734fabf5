/* A CUDA device that is not there: memory is counted and never given, kernels do nothing. With it llama.cpp's real CUDA
   backend plans on a machine without a GPU. What is not written here gets a body that returns 0 (llama_engine.py). */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver_types.h"

#define DEVICES 16

static size_t taken[DEVICES];
static int current;
static uintptr_t next = 0x600000000000ULL;

static long setting(const char *name, long usual) {
  const char *text = getenv(name);
  return text ? atol(text) : usual;
}

/* PRETEND_MIB: of all devices, or of one after the other ("24564,12288") */
static size_t capacity(int device) {
  const char *text = getenv("PRETEND_MIB");
  for (; text && device > 0 && strchr(text, ','); device--) text = strchr(text, ',') + 1;
  return (size_t)(text ? atol(text) : 81559) << 20;
}

static void *hand_out(size_t size) {
  void *at = (void *)next;
  next += (size + 0x3fffff) & ~(uintptr_t)0x1fffff;
  taken[current] += size;
  return at;
}

int cudaGetDeviceCount(int *n) { *n = (int)setting("PRETEND_GPUS", 1); return 0; }
int cudaGetDevice(int *n) { *n = current; return 0; }
int cudaSetDevice(int n) { current = n % DEVICES; return 0; }

int cudaGetDeviceProperties(struct cudaDeviceProp *p, int n) {
  int version = (int)setting("PRETEND_CC", 90);
  memset(p, 0, sizeof *p);
  strcpy(p->name, "pretended");
  p->major = version / 10;
  p->minor = version % 10;
  p->totalGlobalMem = capacity(n);
  p->multiProcessorCount = (int)setting("PRETEND_SM", 132);
  p->warpSize = 32;
  p->regsPerBlock = 65536;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsPerMultiProcessor = 2048;
  p->sharedMemPerBlock = 49152;
  p->sharedMemPerBlockOptin = (size_t)setting("PRETEND_SHARED", 232448);
  p->sharedMemPerMultiprocessor = 233472;
  p->canMapHostMemory = 1;
  p->pciBusID = n + 1;
  return 0;
}

int cudaDeviceGetAttribute(int *value, int what, int n) { (void)what; (void)n; *value = 1; return 0; }
int cudaDeviceGetPCIBusId(char *text, int size, int n) { snprintf(text, (size_t)size, "0000:%02x:00.0", n + 1); return 0; }
int cudaDeviceCanAccessPeer(int *yes, int a, int b) { (void)a; (void)b; *yes = 0; return 0; }
int cudaMemGetInfo(size_t *available, size_t *all) { *all = capacity(current); *available = *all - taken[current]; return 0; }
int cudaMalloc(void **at, size_t size) { *at = hand_out(size); return 0; }
int cudaMallocManaged(void **at, size_t size, unsigned flags) { (void)flags; return cudaMalloc(at, size); }
int cudaMallocHost(void **at, size_t size) { return posix_memalign(at, 4096, size ? size : 1) ? 2 : 0; }
int cudaHostAlloc(void **at, size_t size, unsigned flags) { (void)flags; return cudaMallocHost(at, size); }
int cudaFreeHost(void *at) { free(at); return 0; }
int cudaStreamCreateWithFlags(void **stream, unsigned flags) { (void)flags; *stream = malloc(1); return 0; }
int cudaEventCreateWithFlags(void **event, unsigned flags) { (void)flags; *event = malloc(1); return 0; }
int cudaStreamIsCapturing(void *stream, int *state) { (void)stream; *state = 0; return 0; }

int cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *kernel) {
  (void)kernel;
  memset(a, 0, sizeof *a);
  a->binaryVersion = a->ptxVersion = (int)setting("PRETEND_CC", 90);
  a->numRegs = 128;
  a->maxThreadsPerBlock = 1024;
  a->maxDynamicSharedSizeBytes = 232448;
  return 0;
}

int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, const void *k, int b, size_t s, unsigned f) {
  (void)k; (void)b; (void)s; (void)f;
  *n = 1;
  return 0;
}

const char *cudaGetErrorString(int code) { (void)code; return "pretended"; }
void **__cudaRegisterFatBinary(void *binary) { static void *handle; (void)binary; return &handle; }
int cublasCreate_v2(void **handle) { *handle = malloc(1); return 0; }
const char *cublasGetStatusString(int code) { (void)code; return "pretended"; }
int cuDeviceGet(int *device, int n) { *device = n; return 0; }
int cuDeviceGetAttribute(int *value, int what, int device) { (void)what; (void)device; *value = 1; return 0; }
int cuMemGetAllocationGranularity(size_t *size, void *props, int what) { (void)props; (void)what; *size = 2u << 20; return 0; }
int cuMemAddressReserve(uint64_t *at, size_t size, size_t align, uint64_t where, uint64_t flags) {
  (void)align; (void)where; (void)flags;
  *at = next;
  next += size;
  return 0;
}
int cuMemCreate(uint64_t *handle, size_t size, void *props, uint64_t flags) {
  (void)props; (void)flags;
  taken[current] += size;
  *handle = 1;
  return 0;
}
int cuGetErrorString(int code, const char **text) { (void)code; *text = "pretended"; return 0; }
