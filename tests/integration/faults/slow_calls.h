// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/time/time.h"
#include "tests/integration/faults/slow_calls_page.h"

namespace stretto::integration {

// Calls of the C library in chosen processes, made slow or wrong (slow_calls_library.cc).
class SlowCalls {
 public:
  // `page` is a new file that those processes map.
  explicit SlowCalls(const std::string& page);
  ~SlowCalls();
  SlowCalls(const SlowCalls&) = delete;
  SlowCalls& operator=(const SlowCalls&) = delete;

  // Whether processes that are started from now on obey this object.
  void Preload(bool on) const;
  // Writes a program that runs `program` with its arguments under this object. Daemons give their
  // trainers only parts of their environment.
  void Wrap(const std::string& program, const std::string& path) const;

  // The next fsync or fdatasync takes this long.
  void DelaySync(absl::Duration duration);
  // The next open of a file of tensors for reading takes this long.
  void DelayOpen(absl::Duration duration);
  bool delays() const;  // whether a delay is still to come
  // What the wall clock is ahead by.
  void SetClock(absl::Duration ahead);

 private:
  std::string page_name_;
  SlowCallsPage* page_ = nullptr;
};

}  // namespace stretto::integration
