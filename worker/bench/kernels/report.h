// SPDX-License-Identifier: Apache-2.0
#pragma once
// The report of `stretto-bench kernels` as text, in the parts in which it is printed while it is
// measured, and as JSON (docs/BENCHMARKS.md defines its terms).

#include <string>
#include <vector>

#include "worker/bench/common/machine.h"
#include "worker/bench/kernels/cases.h"
#include "worker/engine/spec/spec.h"

namespace stretto::bench {

struct KernelResult {
  KernelCase timed = {};
  double seconds = 0;       // of one call; 0 if it failed
  std::string failed = {};  // why; empty: it did not

  double flops_per_second() const { return timed.work.flops / seconds; }
  double bytes_per_second() const { return timed.work.bytes / seconds; }
  // Whether the product or the copy is its limit.
  bool bound_by_products() const { return timed.work.flops > 0; }
};

struct KernelsReport {
  std::string model = {};
  EngineSpec spec = {};
  KernelResult copy = {}, product = {};  // the limits
  std::vector<KernelResult> kernels = {};

  // Of a result that did not fail.
  double ShareOfLimit(const KernelResult& result) const;
  // Returns the share of matrix products, without those of attention, in the time of all calls of a
  // step in sequence.
  double gemm_share() const;
};

// What is printed before the rows, one row, and what is printed after them.
std::string HeadText(const KernelsReport& report, const Machine& machine);
std::string RowText(const KernelsReport& report, const KernelResult& result);
std::string TailText(const KernelsReport& report);

// Of the rows that the report has, which may be the first ones only.
std::string ToJson(const KernelsReport& report, const Machine& machine);

}  // namespace stretto::bench
