// SPDX-License-Identifier: Apache-2.0
#include "proto/base/progress_line.h"

#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "proto/base/units.h"

namespace stretto {

std::string ProgressText(int64_t bytes, int64_t total_bytes, int64_t resumed_bytes,
                         absl::Duration elapsed) {
  std::string text = absl::StrCat(FormatBytes(bytes), " of ", FormatBytes(total_bytes));
  const double seconds = absl::ToDoubleSeconds(elapsed);
  if (bytes <= resumed_bytes || seconds <= 0) return text;
  const double rate = static_cast<double>(bytes - resumed_bytes) / seconds;
  const double left = static_cast<double>(total_bytes - bytes) / rate;
  absl::StrAppend(&text, "  ", FormatBytes(static_cast<int64_t>(rate)), "/s  ",
                  stretto::FormatDuration(absl::Seconds(left)), " left");
  return text;
}

ProgressLine::ProgressLine() : live_(::isatty(STDERR_FILENO) == 1), start_(absl::Now()) {}

ProgressLine::~ProgressLine() {
  if (shown_ != absl::InfinitePast()) absl::FPrintF(stderr, "\r\x1b[K");
}

void ProgressLine::Show(int64_t bytes, int64_t total_bytes, int64_t resumed_bytes) {
  const absl::Time now = absl::Now();
  if (!live_ || now - shown_ < absl::Milliseconds(200)) return;
  shown_ = now;
  absl::FPrintF(stderr, "\r%s \x1b[K",
                ProgressText(bytes, total_bytes, resumed_bytes, now - start_));
}

}  // namespace stretto
