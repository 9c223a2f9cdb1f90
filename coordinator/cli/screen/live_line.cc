// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/screen/live_line.h"

#include <algorithm>

namespace stretto::cli {

void LiveLine::Rewrite(const std::string& text) {
  if (!terminal_.live) return;
  const size_t width = std::max(terminal_.width - 1, 1);
  terminal_.out << "\r" << text.substr(0, width) << "\x1b[K" << std::flush;
  shown_ = true;
}

void LiveLine::Line(const std::string& text) {
  Clear();
  terminal_.out << text << "\n" << std::flush;
}

void LiveLine::Message(const std::string& text) {
  Clear();
  terminal_.err << text << "\n" << std::flush;
}

void LiveLine::Clear() {
  if (!shown_) return;
  terminal_.out << "\r\x1b[K" << std::flush;
  shown_ = false;
}

}  // namespace stretto::cli
