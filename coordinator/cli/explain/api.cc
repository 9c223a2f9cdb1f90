// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/explain/api.h"

#include "google/protobuf/descriptor.pb.h"
#include "proto/base/check.h"

// Embeds protoc's descriptor set (CMakeLists.txt).
asm(".pushsection .rodata\n"
    ".global stretto_api_begin\n"
    ".global stretto_api_end\n"
    "stretto_api_begin: .incbin \"" STRETTO_API_FILE
    "\"\n"
    "stretto_api_end:\n"
    ".popsection\n");
extern "C" {
extern const char stretto_api_begin[];
extern const char stretto_api_end[];
}

namespace stretto::cli {

const google::protobuf::FileDescriptor& ApiFile() {
  static const google::protobuf::FileDescriptor& file =
      []() -> const google::protobuf::FileDescriptor& {
    google::protobuf::FileDescriptorSet set;
    const ptrdiff_t size = stretto_api_end - stretto_api_begin;
    STRETTO_CHECK(set.ParseFromArray(stretto_api_begin, static_cast<int>(size)));
    auto* pool = new google::protobuf::DescriptorPool;  // never freed: descriptors point into it
    const google::protobuf::FileDescriptor* last = nullptr;
    for (const auto& proto : set.file()) last = pool->BuildFile(proto);  // imports come first
    STRETTO_CHECK(last != nullptr);
    return *last;
  }();
  return file;
}

}  // namespace stretto::cli
