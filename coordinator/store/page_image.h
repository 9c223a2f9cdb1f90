// SPDX-License-Identifier: Apache-2.0
#pragma once
// The pages of a database file with the transactions of its write-ahead log applied, read without
// SQLite, which gives up where the file is damaged. Also finds damage in a log: SQLite ends at the
// first frame whose checksum is wrong, in silence, because a crash leaves such a frame too.
// Internal to store/.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stretto::coordinator {

inline constexpr int64_t kPageBytes = 4096;

struct PageImage {
  // Page n is at (n - 1) * kPageBytes. Parts of the file that the disk could not read are zero.
  std::string pages;
  // Where the log is damaged: transactions from there on were acknowledged and are not in `pages`.
  // A damaged last transaction is not found: it looks like one that a crash interrupted.
  std::optional<int64_t> log_damage;
  // If so, the pages with all frames after that applied too, right or wrong: what it may have been.
  std::string later_pages;

  int64_t count() const { return static_cast<int64_t>(pages.size()) / kPageBytes; }
  // `page` is 1 to count().
  absl::string_view page(int64_t page) const {
    return absl::string_view(pages).substr((page - 1) * kPageBytes, kPageBytes);
  }
};

// Reads `path` and, if there is one, its log. Nobody may have the database open, this process
// included. Errors: those of opening a file.
absl::StatusOr<PageImage> ReadPageImage(const std::string& path);

// Returns DataLoss, which names the log and where it is damaged, if acknowledged transactions are
// lost in it. Conditions and other errors as above.
absl::Status CheckLog(const std::string& path);

}  // namespace stretto::coordinator
