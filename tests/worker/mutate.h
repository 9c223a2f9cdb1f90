// SPDX-License-Identifier: Apache-2.0
#pragma once
// Seeded damage to a valid file, for parsers that must answer with a Status and never crash.

#include <algorithm>
#include <random>
#include <string>

namespace stretto {

// Flips, overwrites, cuts, doubles or inserts bytes; one to four times.
inline std::string Mutate(std::string content, std::mt19937_64* random) {
  auto below = [&](size_t n) { return static_cast<size_t>((*random)() % n); };
  for (size_t i = 0, count = 1 + below(4); i < count && !content.empty(); ++i) {
    const size_t at = below(content.size());
    switch (below(6)) {
      case 0:
        content[at] = static_cast<char>(content[at] ^ (1 << below(8)));
        break;
      case 1:
        content[at] = "\xff\x7f\x80\x00{}[]\",:-09ea"[below(17)];
        break;
      case 2:
        content.resize(at);
        break;
      case 3:
        content.insert(at, content.substr(at, 1 + below(16)));
        break;
      case 4:
        content.erase(at, 1 + below(8));
        break;
      case 5:  // a field of eight bytes at its extremes
        for (size_t b = at; b < std::min(at + 8, content.size()); ++b) {
          content[b] = static_cast<char>(b % 2 == 0 ? 0xff : 0x7f);
        }
    }
  }
  return content;
}

}  // namespace stretto
