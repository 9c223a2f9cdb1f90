// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks the ledger of a step against what CUPTI saw of it. A validator that is asked for, not a
// way to run: it traces (cupti_trace.h) and needs every operation on its lane's own stream, which a
// graph does not promise, so its steps are issued call by call and are slower.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/exec/backend_cuda/activity.h"
#include "worker/engine/exec/backend_cuda/cupti_trace.h"

namespace stretto::cuda {

class LedgerCheck {
 public:
  struct Lane {
    std::string name;
    void* stream = nullptr;  // cudaStream_t
    bool communicates = false;
  };
  // `say` gets a line per step. Errors: those of CuptiTrace::Open.
  static absl::StatusOr<std::unique_ptr<LedgerCheck>> Create(
      const std::string& library, const std::vector<Lane>& lanes,
      std::function<void(const std::string&)> say = PrintToStandardError);

  // Before anything of a step is issued. Errors: those of CuptiTrace::Start.
  absl::Status Begin();
  // After the host has waited for all of the step. `segments`: by lane, the intervals of the
  // ledger. Errors: Internal (they are not what CUPTI saw; the line says where), those of
  // CuptiTrace::Stop, the device's.
  absl::Status End(std::vector<std::vector<Interval>> segments);

  static void PrintToStandardError(const std::string& line);

 private:
  LedgerCheck(std::unique_ptr<CuptiTrace> trace, std::function<void(const std::string&)> say);

  const std::unique_ptr<CuptiTrace> trace_;
  const std::function<void(const std::string&)> say_;
  std::vector<LaneIntervals> lanes_;
};

}  // namespace stretto::cuda
