// SPDX-License-Identifier: Apache-2.0

// A libcuda with which cuDNN compiles plans on a machine without a driver: it takes every kernel
// and has no device. cuInit is missing on purpose, so that nothing takes it for a driver.

#define DOES_NOTHING(name) \
  int name() { return 0; }

extern "C" {
DOES_NOTHING(cuGetErrorName)
DOES_NOTHING(cuGetErrorString)
DOES_NOTHING(cuCtxGetCurrent)
DOES_NOTHING(cuCtxGetLimit)
DOES_NOTHING(cuCtxPopCurrent)
DOES_NOTHING(cuCtxPushCurrent)
DOES_NOTHING(cuStreamGetCtx)
DOES_NOTHING(cuLinkCreate)
DOES_NOTHING(cuLinkAddData)
DOES_NOTHING(cuLinkComplete)
DOES_NOTHING(cuLinkDestroy)
DOES_NOTHING(cuLaunchKernel)
DOES_NOTHING(cuLaunchCooperativeKernel)
DOES_NOTHING(cuLaunchKernelEx)
DOES_NOTHING(cuDeviceGetCount)
DOES_NOTHING(cuDeviceGet)
DOES_NOTHING(cuLibraryUnload)
DOES_NOTHING(cuKernelSetAttribute)
DOES_NOTHING(cuKernelGetAttribute)
DOES_NOTHING(cuOccupancyMaxPotentialClusterSize)

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cuLibraryLoadData(void** library, const void*, void*, void*, unsigned, void*, void*, unsigned) {
  *library = library;
  return 0;
}
int cuLibraryLoadFromFile(void** library, const char*, void*, void*, unsigned, void*, void*,
                          unsigned) {
  *library = library;
  return 0;
}
int cuLibraryGetKernel(void** kernel, void*, const char*) {
  *kernel = kernel;
  return 0;
}
}
