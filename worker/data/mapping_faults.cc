// SPDX-License-Identifier: Apache-2.0

// The handler may run at any instruction of any thread, so it takes no lock and allocates nothing:
// mappings are in a list of nodes that are never freed, only used again. mmap is no function of
// POSIX's list for handlers, but a bare system call on Linux.

#include "worker/data/mapping_faults.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/base/mutex.h"

namespace stretto {
namespace {

constexpr size_t kPathBytes = 1024;  // longer paths are cut

struct Mapping {
  std::atomic<uintptr_t> begin{0};  // 0: not in use
  std::atomic<size_t> size{0};
  char path[kPathBytes] = {};
  Mapping* next = nullptr;
};

Mutex mu;  // of writers
std::atomic<Mapping*> mappings{nullptr};
std::atomic<const Mapping*> lost{nullptr};
char lost_path[kPathBytes] = {};
std::atomic<bool> told{false};  // lost_path is written

// Copies, because the mapping may be forgotten before somebody asks.
void NoteLost(const Mapping& mapping) {
  const Mapping* none = nullptr;
  if (!lost.compare_exchange_strong(none, &mapping)) return;
  std::memcpy(lost_path, mapping.path, kPathBytes);
  told.store(true);
}

// Puts zeros in place of the pages of a mapped file from `at` on.
bool Replace(void* at) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  for (const Mapping* mapping = mappings.load(); mapping != nullptr; mapping = mapping->next) {
    const uintptr_t begin = mapping->begin.load();
    const uintptr_t end = begin + mapping->size.load();
    if (begin == 0 || address < begin || address >= end) continue;
    const uintptr_t into = address % page;
    void* const zeros = ::mmap(static_cast<char*>(at) - into, end - (address - into), PROT_READ,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (zeros == MAP_FAILED) return false;
    NoteLost(*mapping);
    return true;
  }
  return false;
}

void OnBusError(int signal, siginfo_t* info, void*) {
  const int error = errno;
  if (info->si_code != BUS_ADRERR || !Replace(info->si_addr)) {
    // The instruction is tried again, and the signal then ends the process as it always did.
    ::signal(signal, SIG_DFL);
  }
  errno = error;
}

}  // namespace

void CatchMappingFaults() {
  struct sigaction action = {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

absl::Status MappingFault() {
  if (!told.load(std::memory_order_acquire)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      lost_path,
      ": found fewer bytes than when it was opened; expected data that is replaced by rename and "
      "never made shorter while a job reads it"));
}

void NoteMapping(const void* data, size_t size, const std::string& path) {
  const MutexLock lock(mu);
  Mapping* mapping = mappings.load();
  while (mapping != nullptr && mapping->begin.load() != 0) mapping = mapping->next;
  if (mapping == nullptr) {
    mapping = new Mapping;
    mapping->next = mappings.load();
    mappings.store(mapping);
  }
  const size_t length = std::min(path.size(), kPathBytes - 1);
  std::memcpy(mapping->path, path.data(), length);
  mapping->path[length] = '\0';
  mapping->size.store(size);
  mapping->begin.store(reinterpret_cast<uintptr_t>(data));
}

void ForgetMapping(const void* data) {
  const MutexLock lock(mu);
  for (Mapping* mapping = mappings.load(); mapping != nullptr; mapping = mapping->next) {
    if (mapping->begin.load() != reinterpret_cast<uintptr_t>(data)) continue;
    mapping->begin.store(0);
    return;
  }
}

}  // namespace stretto
