// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads and writes fields of stored JSON. A reader leaves the value as it is if the field is
// absent. nlohmann throws on a value of another type; Decode in record_codec.cc catches it.

#include <nlohmann/json.hpp>
#include <optional>

#include "absl/time/time.h"

namespace stretto::coordinator {

using Json = nlohmann::json;

inline Json FromTime(absl::Time time) { return absl::ToUnixNanos(time); }
inline absl::Time ToTime(const Json& json) { return absl::FromUnixNanos(json.get<int64_t>()); }

template <class T>
void Read(const Json& json, const char* key, T* value) {
  if (const auto found = json.find(key); found != json.end()) *value = found->get<T>();
}

// CheckKnown in record_codec.cc finds values that this build does not know.
template <class E>
void ReadEnum(const Json& json, const char* key, E* value) {
  if (const auto found = json.find(key); found != json.end()) {
    *value = static_cast<E>(found->get<int>());
  }
}

inline void ReadTime(const Json& json, const char* key, absl::Time* value) {
  if (const auto found = json.find(key); found != json.end()) *value = ToTime(*found);
}

inline void ReadTime(const Json& json, const char* key, std::optional<absl::Time>* value) {
  if (const auto found = json.find(key); found != json.end()) *value = ToTime(*found);
}

inline void ReadDuration(const Json& json, const char* key, std::optional<absl::Duration>* value) {
  if (const auto found = json.find(key); found != json.end()) {
    *value = absl::Nanoseconds(found->get<int64_t>());
  }
}

}  // namespace stretto::coordinator
