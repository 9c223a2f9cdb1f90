// SPDX-License-Identifier: Apache-2.0
#pragma once
// The limits of the service that flags can change, with the defaults of the table.

#include <cstdint>

#include "proto/base/limits.h"

namespace stretto::service {

struct Limits {
  int64_t max_spec_bytes = limits::kSpecBytes.value;
  int64_t most_streams = limits::kUserStreams.value;
  // To a worker. No flag changes it, because workers of every release accept that much.
  int64_t max_message_bytes = limits::kMessageBytes.value;
};

}  // namespace stretto::service
