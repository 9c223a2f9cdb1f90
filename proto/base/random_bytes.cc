// SPDX-License-Identifier: Apache-2.0
#include "proto/base/random_bytes.h"

#include <unistd.h>

#include "proto/base/check.h"

namespace stretto {

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  STRETTO_CHECK(::getentropy(bytes.data(), count) == 0);  // fails only for more than 256
  return bytes;
}

}  // namespace stretto
