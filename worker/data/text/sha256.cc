// SPDX-License-Identifier: Apache-2.0
#include "worker/data/text/sha256.h"

#include <openssl/sha.h>

#include "absl/strings/escaping.h"

namespace stretto {

std::string Sha256(const std::string& content) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(content.data()), content.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return absl::BytesToHexString(digest);
}

}  // namespace stretto
