// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bytes of a record that are large and replaced as a whole. Copies of the record share them.

#include <memory>
#include <string>
#include <utility>

namespace stretto::coordinator {

// A value: equal if the bytes are. Different copies may be used by different threads.
class SharedBytes {
 public:
  SharedBytes() = default;
  SharedBytes(std::string bytes)  // NOLINT(google-explicit-constructor): as any value of bytes
      : bytes_(bytes.empty() ? nullptr : std::make_shared<const std::string>(std::move(bytes))) {}

  bool empty() const { return bytes_ == nullptr; }
  const std::string& str() const {
    static const std::string kNone;
    return bytes_ == nullptr ? kNone : *bytes_;
  }
  bool operator==(const SharedBytes& other) const {
    return bytes_ == other.bytes_ || str() == other.str();
  }

 private:
  std::shared_ptr<const std::string> bytes_;  // null if there are none
};

}  // namespace stretto::coordinator
