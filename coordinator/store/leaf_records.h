// SPDX-License-Identifier: Apache-2.0
#pragma once
// The records in the leaves of tables, wherever their pages are, read without the trees above them.
// Internal to store/.

#include <cstdint>
#include <functional>
#include <vector>

#include "coordinator/store/page_image.h"
#include "coordinator/store/record_checksum.h"

namespace stretto::coordinator {

struct LeafRecord {
  int64_t row_id;
  std::vector<StoredValue> values;
};

// Calls `visit` with every record that decodes in a page of `image`. Bytes may be arbitrary: a
// record that decodes may still be damaged, which IsWhole tells.
void ForEachLeafRecord(const PageImage& image, const std::function<void(LeafRecord)>& visit);

}  // namespace stretto::coordinator
