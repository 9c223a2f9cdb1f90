// SPDX-License-Identifier: Apache-2.0
#pragma once
// A cuBLASLt, and the part of the CUDA runtime that choosing its algorithms needs, made of the CPU:
// products by the definition in cublasLt.h, on a clock that only products move. It checks what its
// callers pass. For tests of kernels/cuda/cublaslt_*.cc without a GPU; linked instead of the
// library.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace stretto {

struct FakeCublasLt {
  // Algorithms by number, in the order in which they are proposed.
  struct Choice {
    double microseconds = 1;
    // Beside company, on all SMs and with an SM target; 0: as alone.
    double beside = 0, limited = 0;
    int splits = 1;                          // of the inner dimension
    int64_t most_tokens = int64_t{1} << 40;  // columns of d that it can run
    bool runs = true;                        // else cublasLtMatmul fails
  };
  std::vector<Choice> choices;
  bool out_of_memory = false;
  bool capturing = false;
  bool busy = false;     // streams never come to rest
  bool company = false;  // until a stream is waited for
  bool no_handle = false;

  // What was asked for.
  int heuristics = 0;
  std::map<int, int> launches;       // by algorithm
  std::map<int, int> sm_targets;     // launches by SM target
  std::vector<uint32_t> alignments;  // of proposals

  static FakeCublasLt& Get();
  void Reset() { *this = FakeCublasLt(); }
};

}  // namespace stretto
