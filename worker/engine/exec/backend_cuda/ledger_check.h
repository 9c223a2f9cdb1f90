// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks the ledger of a step against CUPTI's record of it. This is a validator, not a mode of
// operation: it traces (cupti_trace.h) and needs every operation on its lane's own stream, which a
// graph does not guarantee, so its steps are issued call by call and are slower.

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
  // `say` receives one line per step. Errors: those of CuptiTrace::Open.
  static absl::StatusOr<std::unique_ptr<LedgerCheck>> Create(
      const std::string& library, const std::vector<Lane>& lanes,
      std::function<void(const std::string&)> say = PrintToStandardError);

  // Call it before anything of a step is issued. Errors: those of CuptiTrace::Start.
  absl::Status Begin();
  // Call it after the host has waited for the whole step. `segments`: by lane, the intervals of the
  // ledger. Errors: Internal (they differ from CUPTI's; the line says where), those of
  // CuptiTrace::Stop and of the device.
  absl::Status End(std::vector<std::vector<Interval>> segments);

  static void PrintToStandardError(const std::string& line);

 private:
  LedgerCheck(std::unique_ptr<CuptiTrace> trace, std::function<void(const std::string&)> say);

  const std::unique_ptr<CuptiTrace> trace_;
  const std::function<void(const std::string&)> say_;
  std::vector<LaneIntervals> lanes_;
};

}  // namespace stretto::cuda
