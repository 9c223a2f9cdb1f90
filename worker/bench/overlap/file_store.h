// SPDX-License-Identifier: Apache-2.0
#pragma once
// A rendezvous for ranks on one machine that have only a folder in common.

#include <string>

#include "worker/comm/store.h"

namespace stretto::bench {

// Stores one file per key in `folder`, which must exist and initially be empty. Stores of other
// names in it have other keys. Thread-safe, and safe between processes. Get polls every few
// milliseconds. Errors: those of Store.
class FileStore final : public Store {
 public:
  explicit FileStore(std::string folder, std::string name = "key")
      : folder_(std::move(folder)), name_(std::move(name)) {}
  absl::Status Set(absl::string_view key, absl::string_view bytes) override;
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Duration timeout) override;

 private:
  std::string PathOf(absl::string_view key) const;

  const std::string folder_, name_;
};

}  // namespace stretto::bench
