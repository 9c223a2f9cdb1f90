// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/faults/slow_calls.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"

namespace stretto::integration {

SlowCalls::SlowCalls(const std::string& page) : page_name_(page) {
  const FileDescriptor file(open(page.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  EXPECT_EQ(ftruncate(file.get(), sizeof(SlowCallsPage)), 0) << page;
  void* mapped =
      mmap(nullptr, sizeof(SlowCallsPage), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  EXPECT_NE(mapped, MAP_FAILED) << std::strerror(errno);
  page_ = static_cast<SlowCallsPage*>(mapped);
}

SlowCalls::~SlowCalls() {
  Preload(false);
  munmap(page_, sizeof(SlowCallsPage));
}

void SlowCalls::Preload(bool on) const {
  if (on) {
    setenv("LD_PRELOAD", STRETTO_SLOW_CALLS, 1);
    setenv(kSlowCallsPage, page_name_.c_str(), 1);
  } else {
    unsetenv("LD_PRELOAD");
    unsetenv(kSlowCallsPage);
  }
}

void SlowCalls::Wrap(const std::string& program, const std::string& path) const {
  const std::string script =
      absl::StrCat("#!/bin/sh\nLD_PRELOAD=" STRETTO_SLOW_CALLS " ", kSlowCallsPage, "=", page_name_,
                   " exec ", program, " \"$@\"\n");
  EXPECT_TRUE(WriteFileAtomic(path, script).ok());
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

void SlowCalls::DelaySync(absl::Duration duration) {
  __atomic_store_n(&page_->sync_ns, absl::ToInt64Nanoseconds(duration), __ATOMIC_RELAXED);
}

void SlowCalls::DelayOpen(absl::Duration duration) {
  __atomic_store_n(&page_->open_ns, absl::ToInt64Nanoseconds(duration), __ATOMIC_RELAXED);
}

bool SlowCalls::delays() const {
  return __atomic_load_n(&page_->sync_ns, __ATOMIC_RELAXED) != 0 ||
         __atomic_load_n(&page_->open_ns, __ATOMIC_RELAXED) != 0;
}

void SlowCalls::SetClock(absl::Duration ahead) {
  __atomic_store_n(&page_->clock_ahead_ns, absl::ToInt64Nanoseconds(ahead), __ATOMIC_RELAXED);
}

}  // namespace stretto::integration
