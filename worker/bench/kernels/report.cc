// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/kernels/report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "worker/bench/options/spec_flags.h"

namespace stretto::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string RateOf(const KernelResult& result) {
  if (result.bound_by_products()) {
    return absl::StrFormat("%9.2f TFLOP/s", result.flops_per_second() * 1e-12);
  }
  return absl::StrFormat("%9.1f GB/s   ", result.bytes_per_second() * 1e-9);
}

Json JsonOf(const KernelResult& result) {
  Json row = {{"operation", result.timed.operation},
              {"place", result.timed.place},
              {"count", result.timed.count},
              {"bytes", result.timed.work.bytes},
              {"flops", result.timed.work.flops}};
  if (!result.failed.empty()) {
    row["failed"] = result.failed;
    return row;
  }
  row["seconds"] = result.seconds;
  row["bytes_per_second"] = result.bytes_per_second();
  row["flops_per_second"] = result.flops_per_second();
  return row;
}

}  // namespace

double KernelsReport::ShareOfLimit(const KernelResult& result) const {
  return result.bound_by_products() ? result.flops_per_second() / product.flops_per_second()
                                    : result.bytes_per_second() / copy.bytes_per_second();
}

double KernelsReport::gemm_share() const {
  double gemm = 0, all = 0;
  for (const KernelResult& result : kernels) {
    const double seconds = result.seconds * result.timed.count;
    all += seconds;
    if (absl::StartsWith(result.timed.operation, "gemm")) gemm += seconds;
  }
  return all > 0 ? gemm / all : 0;
}

std::string HeadText(const KernelsReport& report, const Machine& machine) {
  return absl::StrFormat(
      "%s (%s)\n%s, %s, tp %d\nlimits: copy %.1f GB/s, product %.2f TFLOP/s\n\n"
      "%12s  %17s  %8s  %6s  %s\n",
      machine.name, machine.backend->Describe(), report.model, NameOf(report.spec.dtype),
      report.spec.tp_size, report.copy.bytes_per_second() * 1e-9,
      report.product.flops_per_second() * 1e-12, "time", "rate", "of limit", "a step", "operation");
}

std::string RowText(const KernelsReport& report, const KernelResult& result) {
  if (!result.failed.empty()) {
    return absl::StrFormat("%12s  %s %s: %s\n", "failed", result.timed.place,
                           result.timed.operation, result.failed);
  }
  return absl::StrFormat("%9.1f us  %17s  %6.1f %%  %5dx  %-28s %s\n", result.seconds * 1e6,
                         RateOf(result), 100 * report.ShareOfLimit(result), result.timed.count,
                         result.timed.place, result.timed.operation);
}

std::string TailText(const KernelsReport& report) {
  return absl::StrFormat("\nmatrix products: %.1f %% of the time of all calls of a step\n",
                         100 * report.gemm_share());
}

std::string ToJson(const KernelsReport& report, const Machine& machine) {
  Json json = {{"machine", ToJson(machine)},
               {"model", report.model},
               {"dtype", NameOf(report.spec.dtype)},
               {"tp_size", report.spec.tp_size},
               {"work", WorkOf(report.spec)},
               {"copy", JsonOf(report.copy)},
               {"product", JsonOf(report.product)},
               {"gemm_share", report.gemm_share()},
               {"kernels", Json::array()}};
  for (const KernelResult& result : report.kernels) {
    Json row = JsonOf(result);
    row["limit"] = result.bound_by_products() ? "product" : "copy";
    if (result.failed.empty()) row["share_of_limit"] = report.ShareOfLimit(result);
    json["kernels"].push_back(std::move(row));
  }
  return json.dump(2);
}

}  // namespace stretto::bench
