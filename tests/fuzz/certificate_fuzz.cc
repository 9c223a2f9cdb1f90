// SPDX-License-Identifier: Apache-2.0

// Certificates of peers: any bytes give certificates or none, whose names, role and validity are
// read without harm. The bytes are also taken for the URI of one.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/base/check.h"
#include "proto/base/printable.h"
#include "proto/tls/identity.h"
#include "proto/tls/x509.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using namespace stretto::tls;  // NOLINT: all of this target is about it

void CheckIdentity(const std::vector<std::string>& uris) {
  const auto identity = IdentityOf(uris);
  STRETTO_CHECK(identity.ok() || stretto::IsPrintable(identity.status().message()));
  if (!identity.ok()) return;
  STRETTO_CHECK(RoleName(identity->role)[0] != '\0');
  for (const Grant& grant : identity->grants) {
    STRETTO_CHECK(*RoleIn(*identity, grant.project) >= grant.role);
    STRETTO_CHECK(RoleName(grant.role)[0] != '\0');
  }
  RoleIn(*identity, "other");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  const std::string text(stretto::fuzz::TextOf(data, size));
  CheckIdentity({text});
  CheckIdentity({text, "https://other"});
  CheckIdentity({text, text});
  const auto chain = ReadCertificates(text);
  for (const X509Pointer& certificate : chain) {
    CheckIdentity(UrisOf(*certificate));
    SerialOf(*certificate);
    HostsOf(*certificate);
    HasHost(*certificate, "127.0.0.1");
    IssuerOf(*certificate);
    CheckValidAt(*certificate, now).IgnoreError();
  }
  for (const Purpose purpose : {Purpose::kClient, Purpose::kServer}) {
    if (!chain.empty()) CheckChain(chain, chain, now, purpose).IgnoreError();
  }
  return 0;
}
