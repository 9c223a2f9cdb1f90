// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "tests/cuda_emulator/state.h"

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorIllegalState:
      return "cudaErrorIllegalState";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureUnjoined:
      return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
  }
  return "?";
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

namespace cuda_emulator {

void Reset() {
  Seed(0);
  ResetMemory();
  ResetStreams();
  ResetGraphs();
}

int Leaks() { return AllocationsLeft() + StreamsAndEventsLeft() + GraphsLeft(); }

}  // namespace cuda_emulator
