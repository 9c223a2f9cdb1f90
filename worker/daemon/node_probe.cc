// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/node_probe.h"

#include <sched.h>
#include <unistd.h>

#include <array>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/base/host_memory.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"

namespace stretto::daemon {
namespace {

constexpr int kMaxSlots = limits::kProbedSlots.value;

std::vector<int> UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

std::string HostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

}  // namespace

absl::StatusOr<Node> ProbeNode(int slots, const std::vector<Gpu>& gpus) {
  if (slots < 0 || slots > kMaxSlots) {
    return absl::InvalidArgumentError(
        absl::StrCat("--slots is ", slots, ", expected 0 (all cores) to ", kMaxSlots));
  }
  const std::vector<int> cores = UsableCores();
  const int count = slots == 0 ? std::ssize(cores) : slots;
  ASSIGN_OR_RETURN(const HostMemory memory, ReadHostMemory());

  Node node;
  node.host = HostName();
  for (int i = 0; i < count; ++i) {
    const int core = cores[i % cores.size()];
    node.slots.push_back({.index = i,
                          .core = core,
                          .description = absl::StrCat("cpu core ", core),
                          .memory_bytes = memory.total / count,
                          .gpu_uuid = "",
                          .fault = ""});
  }
  for (const Gpu& gpu : gpus) {
    const std::string name = gpu.name.empty() ? "unknown" : gpu.name;
    const int index = std::ssize(node.slots);
    node.slots.push_back({.index = index,
                          .kind = SlotKind::kGpu,
                          .description = absl::StrCat(name, " (GPU ", gpu.index, ")"),
                          .memory_bytes = gpu.memory_bytes,
                          .gpu = gpu.index,
                          .gpu_uuid = gpu.uuid,
                          .fault = gpu.fault});
  }
  return node;
}

std::string NameFromHost(absl::string_view host) {
  std::string name;
  for (const char c : host) {
    const char lower = absl::ascii_tolower(static_cast<unsigned char>(c));
    name.push_back(absl::ascii_isalnum(static_cast<unsigned char>(lower)) ? lower : '-');
  }
  name.erase(0, name.find_first_not_of('-'));
  if (!name.empty() && absl::ascii_isdigit(static_cast<unsigned char>(name[0]))) {
    name.insert(0, "w-");
  }
  name = name.substr(0, 63);
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "worker" : name;
}

}  // namespace stretto::daemon
