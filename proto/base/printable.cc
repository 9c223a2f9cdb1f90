// SPDX-License-Identifier: Apache-2.0
#include "proto/base/printable.h"

#include <cstddef>

#include "absl/strings/ascii.h"

namespace stretto {

std::string Printable(absl::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (absl::ascii_iscntrl(c) && c != '\n' && c != '\t') c = '?';
  }
  // U+0080 to U+009F are control characters for a terminal too.
  for (size_t i = 0; i + 1 < out.size(); ++i) {
    const bool control = out[i] == '\xc2' && static_cast<unsigned char>(out[i + 1]) >= 0x80 &&
                         static_cast<unsigned char>(out[i + 1]) < 0xa0;
    if (control) out[i] = out[i + 1] = '?';
  }
  return out;
}

}  // namespace stretto
