// SPDX-License-Identifier: Apache-2.0

// Certificates of peers: any bytes give certificates or none, whose names, role and validity are
// read without harm.
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "proto/base/check.h"
#include "proto/base/printable.h"
#include "proto/tls/identity.h"
#include "proto/tls/x509.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stretto::tls;  // NOLINT: all of this target is about it
  const absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  const auto chain = ReadCertificates(stretto::fuzz::TextOf(data, size));
  for (const X509Pointer& certificate : chain) {
    const auto identity = IdentityOf(UrisOf(*certificate));
    STRETTO_CHECK(identity.ok() || stretto::IsPrintable(identity.status().message()));
    HostsOf(*certificate);
    HasHost(*certificate, "127.0.0.1");
    IssuerOf(*certificate);
    CheckValidAt(*certificate, now).IgnoreError();
  }
  if (!chain.empty()) CheckChain(chain, chain, now, Purpose::kClient).IgnoreError();
  return 0;
}
