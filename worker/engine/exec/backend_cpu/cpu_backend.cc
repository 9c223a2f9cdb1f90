// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/backend_cpu/cpu_backend.h"

#include <utility>

#include "proto/base/host_memory.h"
#include "proto/base/status_macros.h"
#include "worker/engine/exec/backend_cpu/cpu_executor.h"

namespace stretto {
namespace {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(Ops& ops) : ops_(ops) {}

  std::string Describe() const override { return "cpu"; }

  absl::StatusOr<int64_t> FreeMemory() const override {
    ASSIGN_OR_RETURN(const HostMemory memory, ReadHostMemory());
    return memory.available;
  }

  absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(ExecutorRequest request) override {
    CpuExecutorOptions options;
    for (const GroupLink& link : request.links) options.communicators.push_back(link.host);
    options.on_begin = std::move(request.on_begin);
    options.borrowed = std::move(request.borrowed);
    return MakeCpuExecutor(std::move(request.program), request.arenas, &ops_, std::move(options));
  }

 private:
  Ops& ops_;
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend(Ops& ops) { return std::make_unique<CpuBackend>(ops); }

}  // namespace stretto
