// SPDX-License-Identifier: Apache-2.0
#pragma once
// A rendezvous for ranks on one machine that share nothing but a folder.

#include <string>

#include "worker/comm/store.h"

namespace stretto::bench {

// One file per key in `folder`, which must exist and be empty at first. Thread-safe, and safe among
// processes. Get looks again every few milliseconds. Errors: those of Store.
class FileStore final : public Store {
 public:
  explicit FileStore(std::string folder) : folder_(std::move(folder)) {}
  absl::Status Set(absl::string_view key, absl::string_view bytes) override;
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Duration timeout) override;

 private:
  std::string PathOf(absl::string_view key) const;

  const std::string folder_;
};

}  // namespace stretto::bench
