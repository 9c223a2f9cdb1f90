// SPDX-License-Identifier: Apache-2.0
#pragma once
// The files of the folder files/, as the build found them (embed.cmake).

#include "absl/types/span.h"

namespace stretto::page {

struct File {
  const char* path;  // "/main.js"
  const char* type;  // "text/javascript; charset=utf-8"
  const char* content;
};

absl::Span<const File> Files();

}  // namespace stretto::page
