// SPDX-License-Identifier: Apache-2.0
#include "worker/tool/progress_line.h"

#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "proto/base/units.h"

namespace stretto {

ProgressLine::ProgressLine() : live_(::isatty(STDERR_FILENO) == 1), start_(absl::Now()) {}

ProgressLine::~ProgressLine() {
  if (shown_ != absl::InfinitePast()) absl::FPrintF(stderr, "\r\x1b[K");
}

void ProgressLine::Show(int64_t bytes, int64_t total_bytes) {
  const absl::Time now = absl::Now();
  if (!live_ || now - shown_ < absl::Milliseconds(200)) return;
  shown_ = now;
  const double rate = static_cast<double>(bytes) / absl::ToDoubleSeconds(now - start_);
  absl::FPrintF(stderr, "\r%s of %s  %s/s \x1b[K", FormatBytes(bytes), FormatBytes(total_bytes),
                FormatBytes(static_cast<int64_t>(rate)));
}

}  // namespace stretto
