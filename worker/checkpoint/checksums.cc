// SPDX-License-Identifier: Apache-2.0
#include "worker/checkpoint/checksums.h"

#include <openssl/evp.h>

#include <filesystem>

#include "absl/strings/escaping.h"
#include "proto/base/check.h"
#include "proto/base/files.h"

namespace stretto {

Checksums::Checksums() : sha256_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
  STRETTO_CHECK(sha256_ != nullptr && EVP_DigestInit_ex(sha256_.get(), EVP_sha256(), nullptr) == 1);
}

void Checksums::Add(absl::string_view block) {
  size_ += static_cast<int64_t>(block.size());
  crc32c_ = Crc32c(block, crc32c_);
  STRETTO_CHECK(EVP_DigestUpdate(sha256_.get(), block.data(), block.size()) == 1);
}

FileRecord Checksums::Finish(const std::string& path) {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned int length = 0;
  STRETTO_CHECK(EVP_DigestFinal_ex(sha256_.get(), reinterpret_cast<unsigned char*>(digest.data()),
                                   &length) == 1);
  digest.resize(length);
  return {std::filesystem::path(path).filename().string(), size_, crc32c_,
          absl::BytesToHexString(digest)};
}

}  // namespace stretto
