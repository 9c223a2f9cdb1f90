// SPDX-License-Identifier: Apache-2.0

// Files of a CA: its record, and revocation lists. An input is a record, or the file of a CA, a
// line "==" and the file of its lists. What was read of a record is written and read the same; any
// bytes give lists or a sentence, and no list is taken that is not of the CA.
#include <cstddef>
#include <cstdint>
#include <string>

#include "coordinator/ca/index.h"
#include "proto/base/check.h"
#include "proto/base/printable.h"
#include "proto/tls/revocation.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stretto;  // NOLINT: all of this target is about it
  const absl::string_view text = fuzz::TextOf(data, size);
  const auto index = ca::ParseIndex(text);
  STRETTO_CHECK(index.ok() || IsPrintable(index.status().message()));
  if (index.ok()) {
    std::string again;
    for (const ca::Issued& one : index->issued) again += ca::IssuedLine(one, one.begin);
    for (const ca::Issued& one : index->issued) {
      if (one.revoked) again += ca::RevokedLine(one.serial, one.reason, *one.revoked);
    }
    const auto read = ca::ParseIndex(again);
    STRETTO_CHECK(read.ok() && read->issued.size() == index->issued.size());
    STRETTO_CHECK(read->whole == static_cast<int64_t>(again.size()));
  }
  const size_t cut = text.find("\n==\n");
  if (cut == text.npos) return 0;
  const std::string authority = fuzz::Folder::Get().Write("ca.crt", text.substr(0, cut + 1));
  const std::string lists = fuzz::Folder::Get().Write("ca.crl", text.substr(cut + 4));
  const std::string none = fuzz::Folder::Get().Path("none");
  STRETTO_CHECK(absl::IsNotFound(tls::Revocations::Open(none, lists).status()));
  STRETTO_CHECK(absl::IsNotFound(tls::Revocations::Open(authority, none).status()));
  const auto revocations = tls::Revocations::Open(authority, lists);
  STRETTO_CHECK(revocations.ok() || IsPrintable(revocations.status().message()));
  if (!revocations.ok()) return 0;
  STRETTO_CHECK((*revocations)->count() >= 0);
  const absl::Status checked = (*revocations)->Check(std::string(text.substr(0, cut + 1)));
  STRETTO_CHECK(checked.ok() || IsPrintable(checked.message()));
  // A file that turns bad leaves the lists as they were.
  const int count = (*revocations)->count();
  STRETTO_CHECK(!(*revocations)->Refresh() && (*revocations)->status().ok());
  for (const absl::string_view good : {absl::string_view("none"), text.substr(cut + 4)}) {
    fuzz::Folder::Get().Write("ca.crl", good);
    STRETTO_CHECK((*revocations)->Refresh());
    STRETTO_CHECK((*revocations)->status().ok() == (good != "none"));
    STRETTO_CHECK((*revocations)->count() == count);
  }
  return 0;
}
