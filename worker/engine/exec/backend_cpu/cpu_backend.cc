// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/backend_cpu/cpu_backend.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "proto/base/units.h"
#include "worker/engine/exec/backend_cpu/cpu_executor.h"

namespace stretto {
namespace {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(Ops& ops) : ops_(ops) {}

  std::string Describe() const override { return "cpu"; }

  absl::StatusOr<int64_t> FreeMemory() const override { return FreeMemoryOfNode(); }

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

absl::StatusOr<int64_t> FreeMemoryOfNode() {
  ASSIGN_OR_RETURN(const std::string meminfo, ReadFile("/proc/meminfo"));
  return AvailableMemory(meminfo);
}

absl::StatusOr<int64_t> AvailableMemory(absl::string_view meminfo) {
  for (absl::string_view line : absl::StrSplit(meminfo, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    int64_t kib = 0;
    if (words.size() == 3 && words[0] == "MemAvailable:" && words[2] == "kB" &&
        absl::SimpleAtoi(words[1], &kib)) {
      return kib * kKiB;
    }
  }
  return absl::InternalError("/proc/meminfo: found no line 'MemAvailable: N kB'");
}

}  // namespace stretto
