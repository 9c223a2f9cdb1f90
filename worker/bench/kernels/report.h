// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `stretto-bench kernels` found, for people and for programs (docs/BENCHMARKS.md has its
// words).

#include <optional>
#include <string>
#include <vector>

#include "kernels/epilogue.h"
#include "worker/bench/common/machine.h"
#include "worker/bench/kernels/cases.h"
#include "worker/engine/spec/spec.h"

namespace stretto::bench {

struct KernelResult {
  KernelCase timed = {};
  double seconds = 0;  // of one call

  double flops_per_second() const { return timed.work.flops / seconds; }
  double bytes_per_second() const { return timed.work.bytes / seconds; }
  // By its products, or by memory.
  bool bound_by_products() const { return timed.work.flops > 0; }
};

// What a fused epilogue takes beside the calls that it could stand for.
struct EpilogueResult {
  std::string calls;  // "fwd fc1 gemm + fwd act gelu"
  EpilogueProduct product;
  double separate_seconds = 0;  // of the calls, one after the other
  std::optional<double> fused_seconds;
  std::string why;  // there are none
};

struct KernelsReport {
  std::string model = {};
  EngineSpec spec = {};
  KernelResult copy = {}, product = {};  // the limits
  std::vector<KernelResult> kernels = {};
  std::vector<EpilogueResult> epilogues = {};  // where they were asked for

  double ShareOfLimit(const KernelResult& result) const;
  // Of the time of all calls of a step, one after the other: that of its matrix products;
  // attention's are not among them.
  double gemm_share() const;
};

std::string ToText(const KernelsReport& report, const Machine& machine);
std::string ToJson(const KernelsReport& report, const Machine& machine);

}  // namespace stretto::bench
