// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which lines of a log somebody wants.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stretto/v1alpha1/job.pb.h"

namespace re2 {
class RE2;
}

namespace stretto {

// Selects lines by the `since` and the `grep` of a LogSelection. Lines must come in the order of
// the log. One thread.
class LineFilter {
 public:
  LineFilter();  // selects all
  ~LineFilter();
  LineFilter(LineFilter&&);
  LineFilter& operator=(LineFilter&&);

  // Errors: InvalidArgument "grep: found ..., expected ..." or "tail_lines: ...".
  static absl::StatusOr<LineFilter> Make(const v1alpha1::LogSelection& selection);

  // `line` is without its newline. A line without a time (proto/base/log.h has its form) is as old
  // as the line before it.
  bool Selects(absl::string_view line);

  // Returns those of `lines` that are selected. The last one may lack its newline.
  std::string Take(absl::string_view lines);

 private:
  std::string since_;  // as lines have it; empty: no matter when
  bool begun_ = true;  // a line since then has come
  std::unique_ptr<re2::RE2> grep_;
};

}  // namespace stretto
