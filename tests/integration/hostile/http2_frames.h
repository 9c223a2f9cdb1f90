// SPDX-License-Identifier: Apache-2.0
#pragma once
// Frames of HTTP/2 by hand (RFC 9113), also those that no library sends.

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace stretto::integration::http2 {

inline constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
enum Type : uint8_t {
  kData,
  kHeaders,
  kPriority,
  kReset,
  kSettings,
  kPush,
  kPing,
  kGoAway,
  kWindow,
  kContinuation
};
inline constexpr uint8_t kEndStream = 1, kEndHeaders = 4, kPadded = 8;

inline std::string Number(uint32_t value, int bytes = 4) {
  std::string out;
  for (int i = bytes - 1; i >= 0; --i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return out;
}
inline constexpr char kGet[] = "/stretto.v1alpha1.JobService/GetJob";

// With a length that may be a lie.
inline std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, absl::string_view payload,
                         int64_t length = -1) {
  return absl::StrCat(Number(static_cast<uint32_t>(length < 0 ? payload.size() : length), 3),
                      Number(type, 1), Number(flags, 1), Number(stream), payload);
}
// A header that is not indexed, of names and values below 127 bytes.
inline std::string Header(absl::string_view name, absl::string_view value) {
  return absl::StrCat(Number(0, 1), Number(static_cast<uint32_t>(name.size()), 1), name,
                      Number(static_cast<uint32_t>(value.size()), 1), value);
}
// The head of a call of gRPC.
inline std::string Call(absl::string_view path) {
  return absl::StrCat(Header(":method", "POST"), Header(":scheme", "http"), Header(":path", path),
                      Header(":authority", "a"), Header("te", "trailers"),
                      Header("content-type", "application/grpc"));
}
inline std::string Begin() { return absl::StrCat(kPreface, Frame(kSettings, 0, 0, "")); }

}  // namespace stretto::integration::http2
