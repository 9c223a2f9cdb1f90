// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/kernels/epilogues.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace stretto::bench {
namespace {

struct Fusion {
  Epilogue epilogue;
  std::vector<std::string> places;  // the product comes first
};

const std::vector<Fusion>& Fusions() {
  static const auto* const fusions = new std::vector<Fusion>{
      {Epilogue::kGelu, {"fwd fc1 gemm", "fwd act gelu"}},
      {Epilogue::kGeluGrad, {"bwd fc2 gemm_dgrad", "bwd act gelu_grad"}},
      {Epilogue::kGeluGradBias, {"bwd fc2 gemm_dgrad", "bwd act gelu_grad", "bwd fc1 bias_grad"}},
      {Epilogue::kBiasGrad, {"bwd fc2 gemm_wgrad", "bwd fc2 bias_grad"}},
      {Epilogue::kBiasGrad, {"bwd fc1 gemm_wgrad", "bwd fc1 bias_grad"}},
      {Epilogue::kBiasGrad, {"bwd qkv gemm_wgrad", "bwd qkv bias_grad"}}};
  return *fusions;
}

const KernelResult* Find(const std::vector<KernelResult>& rows, const std::string& place) {
  for (const KernelResult& row : rows) {
    if (row.timed.place == place && row.failed.empty()) return &row;
  }
  return nullptr;
}

// Maps a product of Ops: x or dy, then the weight, or the other activation of a weight gradient.
EpilogueProduct ProductOf(Epilogue epilogue, const KernelCase& timed) {
  const Op& op = timed.ops[0];
  const auto buffer = [&](size_t i) -> const Buffer& { return timed.buffers[op.in[i]]; };
  const int64_t columns = buffer(0).shape.back(), others = buffer(1).shape.back();
  const bool forward = epilogue == Epilogue::kGelu;
  return {.epilogue = epilogue,
          .dtype = buffer(0).dtype,
          .tokens = buffer(0).count() / columns,
          .in = forward ? columns : others,
          .out = forward ? buffer(1).count() / others : columns};
}

}  // namespace

absl::StatusOr<std::vector<EpilogueResult>> TimeEpilogues(const std::vector<KernelResult>& rows,
                                                          const Machine& machine) {
  if (!machine.time_epilogue) {
    return absl::UnimplementedError(absl::StrCat("--epilogues: found --device ", machine.device,
                                                 ", expected cuda: they are cuBLASLt's"));
  }
  std::vector<EpilogueResult> results;
  for (const Fusion& fusion : Fusions()) {
    EpilogueResult result;
    bool complete = true;
    for (const std::string& place : fusion.places) {
      const KernelResult* const row = Find(rows, place);
      complete &= row != nullptr;
      if (row == nullptr) break;
      absl::StrAppend(&result.calls, result.calls.empty() ? "" : " + ", place);
      result.separate_seconds += row->seconds;
    }
    if (!complete) continue;
    result.product = ProductOf(fusion.epilogue, Find(rows, fusion.places[0])->timed);
    const absl::StatusOr<double> fused = machine.time_epilogue(result.product);
    if (fused.ok()) {
      result.fused_seconds = *fused;
    } else if (absl::IsUnimplemented(fused.status())) {
      result.why = std::string(fused.status().message());
    } else {
      return fused.status();
    }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace stretto::bench
