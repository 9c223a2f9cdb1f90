// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/trainer_environment.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace stretto::daemon {

std::string InterfaceWith(const std::string& address) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return "";
  std::string name;
  for (const ifaddrs* at = all; at != nullptr && name.empty(); at = at->ifa_next) {
    const int family = at->ifa_addr == nullptr ? AF_UNSPEC : at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(at->ifa_addr, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) ==
            0 &&
        address == text.data())
      name = at->ifa_name;
  }
  ::freeifaddrs(all);
  return name;
}

std::vector<std::string> TrainerEnvironment(const std::string& gpu_uuid,
                                            const std::string& address) {
  static constexpr std::array<const char*, 17> kAllowed = {"PATH",
                                                           "HOME",
                                                           "LANG",
                                                           "LC_ALL",
                                                           "TZ",
                                                           "TMPDIR",
                                                           "LD_LIBRARY_PATH",
                                                           "DNNL_MAX_CPU_ISA",
                                                           "STRETTO_CUDA_LIBRARIES",
                                                           "STRETTO_CUDNN",
                                                           "STRETTO_CUPTI",
                                                           "STRETTO_LOG",
                                                           "STRETTO_PLUGIN_PATH",
                                                           "ASAN_OPTIONS",
                                                           "LSAN_OPTIONS",
                                                           "TSAN_OPTIONS",
                                                           "UBSAN_OPTIONS"};
  std::vector<std::string> env;
  for (const char* name : kAllowed) {
    if (const char* value = std::getenv(name)) env.push_back(absl::StrCat(name, "=", value));
  }
  env.push_back("OMP_NUM_THREADS=1");
  if (gpu_uuid.empty()) return env;
  env.push_back(absl::StrCat("CUDA_VISIBLE_DEVICES=", gpu_uuid));
  // With fewer hardware queues, independent streams would wait for each other.
  env.push_back("CUDA_DEVICE_MAX_CONNECTIONS=32");
  // With lazy loading, the first launch of a kernel waits for the device, and so possibly for a
  // peer that is gone.
  env.push_back("CUDA_MODULE_LOADING=EAGER");
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const absl::string_view text = *variable;
    const bool ours = absl::StartsWith(text, "NCCL_LAUNCH_ORDER_IMPLICIT=") ||
                      absl::StartsWith(text, "NCCL_RUNTIME_CONNECT=") ||
                      absl::StartsWith(text, "NCCL_GRAPH_REGISTER=");
    if (absl::StartsWith(text, "NCCL_") && !ours) env.emplace_back(text);
  }
  // Concurrent collectives of two groups start in the order of issue, on all ranks.
  env.push_back("NCCL_LAUNCH_ORDER_IMPLICIT=1");
  // Groups connect when they are made. Otherwise the host waits for the peers in the first call of
  // a group, and two stages that begin with receives from each other would wait forever.
  env.push_back("NCCL_RUNTIME_CONNECT=0");
  // We register the arenas. NCCL would forget buffers that a graph registered only at a later
  // launch, when the memory may belong to something else.
  env.push_back("NCCL_GRAPH_REGISTER=0");
  const std::string interface = InterfaceWith(address);
  if (std::getenv("NCCL_SOCKET_IFNAME") == nullptr && !interface.empty())
    env.push_back(absl::StrCat("NCCL_SOCKET_IFNAME==", interface));  // "=": exact name
  return env;
}

}  // namespace stretto::daemon
