// SPDX-License-Identifier: Apache-2.0

// One table of plans by shape and SM limit. The first call of a shape makes its plan and chooses
// the algorithm: from the stored tunings, else by timing the proposals, else (while a stream is
// being captured, or without memory for a measurement) the first proposal. With `pin`, all numbers
// of tokens share the algorithm chosen for one typical number, so that slices of a batch are
// bitwise equal to the whole; with company too, the one whose times alone and beside it add up to
// the least.

#include "kernels/cuda/cublaslt_products.h"

#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/cublaslt_plan.h"

namespace stretto {
namespace cuda {
namespace {

using Handle = Owned<cublasLtHandle_t, cublasLtDestroy>;

constexpr absl::string_view kNoneRuns = "no algorithm that cuBLASLt proposes runs";

std::string NameOf(const Product& p) {
  return absl::StrCat("product of m ", p.m, " n ", p.n, " k ", p.k, " in ", stretto::NameOf(p.in),
                      p.accumulate ? ", accumulating" : "", p.bias ? ", with bias" : "",
                      ", aligned to ", p.alignment);
}

class CublasLtProducts final : public MatrixProducts {
 public:
  CublasLtProducts(const CublasLtOptions& options, Handle handle)
      : options_(options),
        workspace_{options.workspace, static_cast<cudaStream_t>(options.stream), options.patience},
        handle_(std::move(handle)) {}

  void Gemm(TensorView x, TensorView w, TensorView bias, TensorView y) override {
    Run(ForwardProduct(x, w, bias, y));
  }
  void GemmDgrad(TensorView dy, TensorView w, int64_t first_column, TensorView dx) override {
    Run(DgradProduct(dy, w, first_column, dx));
  }
  void GemmWgrad(TensorView dy, TensorView x, TensorView dw) override {
    Run(WgradProduct(dy, x, dw));
  }
  void LimitSms(int sms) override { sms_ = sms; }
  const char* error() const override { return error_.c_str(); }

 private:
  void Run(const ProductCall& call) {
    if (!error_.empty()) return;
    const TuningKey key{call.product, sms_};
    auto at = plans_.find(key);
    if (at == plans_.end()) {
      absl::StatusOr<Plan> plan = Prepare(key);
      if (!plan.ok()) return Fail(call.product, plan.status().message());
      at = plans_.emplace(key, *std::move(plan)).first;
    }
    const cublasStatus_t status =
        Launch(handle_.get(), at->second, at->second.algorithm, call, workspace_);
    if (status != CUBLAS_STATUS_SUCCESS)
      Fail(call.product, CublasStatus(status, "cublasLtMatmul").message());
  }

  absl::StatusOr<Plan> Prepare(const TuningKey& key) {
    absl::StatusOr<Plan> plan = MakePlan(key.product, key.sms);
    if (!plan.ok()) return plan;
    absl::StatusOr<Algorithm> algorithm = AlgorithmFor(key, *plan);
    if (!algorithm.ok()) return algorithm.status();
    if (!algorithm->limited && key.sms > 0) plan = MakePlan(key.product, 0);
    if (!plan.ok()) return plan;
    plan->algorithm = WordsOf(*algorithm);
    return plan;
  }

  absl::StatusOr<Algorithm> AlgorithmFor(const TuningKey& key, const Plan& plan) {
    const TuningKey stored_as =
        options_.pin ? Pinned(key, {options_.pinned_tokens, options_.company.sms_left}) : key;
    const Product& typical = stored_as.product;  // represents all shapes that share the choice
    const absl::StatusOr<Plan> typical_plan = MakePlan(typical, key.sms);
    if (!typical_plan.ok()) return typical_plan.status();
    const Algorithm* known = options_.tunings->Find(stored_as);
    if (known != nullptr && CanRun(handle_.get(), *typical_plan, *known)) {
      if (CanRun(handle_.get(), plan, *known)) return *known;
      // Another algorithm would give other bits than those of the rest of the batch.
      return absl::InternalError("its pinned algorithm cannot run this number of tokens");
    }
    absl::StatusOr<std::vector<Algorithm>> proposals = ProposalsFor(typical, key.sms);
    if (!proposals.ok()) return proposals.status();
    std::erase_if(*proposals, [&](const Algorithm& a) { return !CanRun(handle_.get(), plan, a); });
    absl::StatusOr<Algorithm> chosen = Choose(*proposals, typical, *typical_plan);
    if (!chosen.ok()) return chosen;
    options_.tunings->Put(stored_as, *chosen);
    if (options_.on_choice) options_.on_choice();
    return chosen;
  }

  bool HasCompany() const { return options_.pin && options_.company.sms_left > 0; }

  // Returns those for all SMs (or `sms`), and behind them those for the SMs that company leaves.
  absl::StatusOr<std::vector<Algorithm>> ProposalsFor(const Product& product, int sms) {
    std::vector<int> targets = {sms};
    if (HasCompany()) targets = {0, options_.company.sms_left};
    std::vector<Algorithm> all;
    for (const int target : targets) {
      const absl::StatusOr<Plan> plan = MakePlan(product, target);
      if (!plan.ok()) return plan.status();
      absl::StatusOr<std::vector<Algorithm>> some =
          Proposals(handle_.get(), product, *plan, options_.pin);
      if (!some.ok()) return some;
      for (const Algorithm& each : *some) {
        if (!absl::c_linear_search(all, each)) all.push_back(each);
      }
    }
    return all;
  }

  absl::StatusOr<Algorithm> Choose(const std::vector<Algorithm>& proposals, const Product& typical,
                                   const Plan& typical_plan) {
    if (proposals.empty()) return absl::UnimplementedError("cuBLASLt proposes no algorithm");
    Algorithm guess = proposals.front();
    guess.stored = false;
    if (!options_.tune || Capturing()) return guess;
    absl::StatusOr<Algorithm> best = HasCompany() ? FastestBesideCompany(proposals, typical)
                                                  : FastestAlone(proposals, typical, typical_plan);
    // Without memory for a measurement, the library's first proposal is the best choice. It is
    // kept: a run that resumes from a checkpoint may have the memory, and would choose other bits.
    if (absl::IsResourceExhausted(best.status())) return proposals.front();
    return best;
  }

  absl::StatusOr<Algorithm> FastestAlone(const std::vector<Algorithm>& proposals,
                                         const Product& typical, const Plan& plan) {
    std::vector<Candidate> candidates;
    for (const Algorithm& each : proposals) candidates.push_back({&each, &plan});
    const absl::StatusOr<std::vector<std::vector<double>>> times =
        TimesOf(handle_.get(), typical, candidates, workspace_);
    if (!times.ok()) return times.status();
    const int best = FastestOf(*times);
    if (best < 0) return absl::UnavailableError(kNoneRuns);
    Algorithm algorithm = proposals[best];
    algorithm.microseconds = MedianOf((*times)[best]);
    return algorithm;
  }

  // Times all alone, and those that are not far from the fastest beside company too: under its
  // limit, and with all SMs.
  absl::StatusOr<Algorithm> FastestBesideCompany(const std::vector<Algorithm>& proposals,
                                                 const Product& typical) {
    constexpr double kFar = 1.3;
    const absl::StatusOr<Plan> all_sms = MakePlan(typical, 0),
                               limited = MakePlan(typical, options_.company.sms_left);
    if (!all_sms.ok()) return all_sms.status();
    if (!limited.ok()) return limited.status();
    std::vector<Candidate> candidates;
    for (const Algorithm& each : proposals) candidates.push_back({&each, &*all_sms});
    const absl::StatusOr<std::vector<std::vector<double>>> alone =
        TimesOf(handle_.get(), typical, candidates, workspace_);
    if (!alone.ok()) return alone.status();
    const int fastest = FastestOf(*alone);
    if (fastest < 0) return absl::UnavailableError(kNoneRuns);
    const double most = kFar * MedianOf((*alone)[fastest]);
    candidates.clear();
    for (size_t i = 0; i < proposals.size(); ++i) {
      const double time = (*alone)[i].empty() ? 0 : MedianOf((*alone)[i]);
      if (time == 0 || time > most) continue;
      candidates.push_back({&proposals[i], &*limited, time});
      candidates.push_back({&proposals[i], &*all_sms, time});
    }
    const absl::StatusOr<std::vector<std::vector<double>>> beside =
        TimesOf(handle_.get(), typical, candidates, workspace_, options_.company);
    if (!beside.ok()) return beside.status();
    std::vector<std::vector<double>> both(candidates.size());
    for (size_t i = 0; i < candidates.size(); ++i) {
      if ((*beside)[i].empty()) continue;
      both[i] = {candidates[i].microseconds + MedianOf((*beside)[i])};
    }
    const int best = FastestOf(both);
    if (best < 0) return absl::UnavailableError(kNoneRuns);
    Algorithm algorithm = *candidates[best].algorithm;
    algorithm.microseconds = candidates[best].microseconds;
    algorithm.limited = candidates[best].plan == &*limited;
    return algorithm;
  }

  bool Capturing() const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(workspace_.stream, &status) != cudaSuccess ||
           status != cudaStreamCaptureStatusNone;
  }

  void Fail(const Product& product, absl::string_view why) {
    error_ = absl::StrCat(NameOf(product), ": ", why);
  }

  const CublasLtOptions options_;
  const Workspace workspace_;
  const Handle handle_;
  int sms_ = 0;
  std::map<TuningKey, Plan> plans_;
  std::string error_;
};

}  // namespace
}  // namespace cuda

absl::StatusOr<std::unique_ptr<MatrixProducts>> MakeCublasLtProducts(
    const CublasLtOptions& options) {
  cublasLtHandle_t handle = nullptr;
  const absl::Status status = cuda::CublasStatus(cublasLtCreate(&handle), "cublasLtCreate");
  if (!status.ok()) return status;
  return std::make_unique<cuda::CublasLtProducts>(options, cuda::Handle(handle));
}

absl::StatusOr<cuda::Tunings> TuningsOfDevice() {
  int device = 0;
  cudaDeviceProp properties = {};
  absl::Status status = cuda::CudaStatus(cudaGetDevice(&device), "cudaGetDevice");
  if (status.ok()) {
    status =
        cuda::CudaStatus(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  }
  if (!status.ok()) return status;
  return cuda::Tunings(properties.name, static_cast<int64_t>(cublasLtGetVersion()));
}

}  // namespace stretto
