// SPDX-License-Identifier: Apache-2.0

// main of tests that need a GPU: where there is none, prints why and returns 77 (skipped).
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdio>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (!testing::GTEST_FLAG(list_tests) && (error != cudaSuccess || count == 0)) {
    std::printf("skipped: no GPU: %s\n", cudaGetErrorString(error));
    return 77;
  }
  return RUN_ALL_TESTS();
}
