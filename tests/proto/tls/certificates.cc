// SPDX-License-Identifier: Apache-2.0
#include "tests/proto/tls/certificates.h"

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"

namespace stretto::tls {
namespace {

std::shared_ptr<EVP_PKEY> NewKey() { return {EVP_EC_gen("P-256"), EVP_PKEY_free}; }

template <class Write>
std::string Pem(Write write) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), BIO_free);
  EXPECT_EQ(write(bio.get()), 1);
  char* text = nullptr;
  const auto length = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<size_t>(length)};
}

std::string PemOf(X509* certificate) {
  return Pem([=](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

void AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()), X509_EXTENSION_free);
  ASSERT_NE(extension, nullptr) << value;
  X509_add_ext(certificate, extension.get(), -1);
}

void SetName(X509_NAME* name, const std::string& text) {
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(text.c_str()), -1, -1, 0);
}

// All but the signature.
std::shared_ptr<X509> Draft(const Certificate& wanted, EVP_PKEY* key, const std::string& subject,
                            const std::string& issuer) {
  std::shared_ptr<X509> draft(X509_new(), X509_free);
  X509_set_version(draft.get(), 2);
  ASN1_INTEGER_set_int64(X509_get_serialNumber(draft.get()), wanted.serial);
  const absl::Time now = absl::Now();
  ASN1_TIME_set(X509_getm_notBefore(draft.get()), absl::ToTimeT(now + wanted.begin));
  ASN1_TIME_set(X509_getm_notAfter(draft.get()), absl::ToTimeT(now + wanted.end));
  SetName(X509_get_subject_name(draft.get()), subject);
  SetName(X509_get_issuer_name(draft.get()), issuer);
  X509_set_pubkey(draft.get(), key);
  return draft;
}

}  // namespace

Certificate WorkerCertificate(const std::string& name) {
  return {.alternative_names =
              absl::StrCat("URI:spiffe://test/stretto/worker", name.empty() ? "" : "/", name)};
}

TestCa::TestCa(const std::string& name) : name_(name), key_(NewKey()) {
  certificate_ = Draft({.begin = -absl::Hours(24), .end = absl::Hours(24)}, key_.get(), name, name);
  AddExtension(certificate_.get(), certificate_.get(), NID_basic_constraints, "critical,CA:TRUE");
  X509_sign(certificate_.get(), key_.get(), EVP_sha256());
}

std::string TestCa::pem() const { return PemOf(certificate_.get()); }

IssuedPem TestCa::Issue(const Certificate& wanted) const {
  const std::shared_ptr<EVP_PKEY> key = NewKey();
  const std::shared_ptr<X509> certificate = Draft(wanted, key.get(), wanted.common_name, name_);
  if (!wanted.alternative_names.empty()) {
    AddExtension(certificate.get(), certificate_.get(), NID_subject_alt_name,
                 wanted.alternative_names);
  }
  if (!wanted.usage.empty()) {
    AddExtension(certificate.get(), certificate_.get(), NID_ext_key_usage, wanted.usage);
  }
  X509_sign(certificate.get(), key_.get(), EVP_sha256());
  return {PemOf(certificate.get()), Pem([&](BIO* bio) {
            return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

std::string TestCa::RevocationList(const std::vector<int64_t>& serials, bool critical) const {
  const std::unique_ptr<X509_CRL, decltype(&X509_CRL_free)> list(X509_CRL_new(), X509_CRL_free);
  const std::unique_ptr<ASN1_TIME, decltype(&ASN1_TIME_free)> now(
      ASN1_TIME_set(nullptr, absl::ToTimeT(absl::Now())), ASN1_TIME_free);
  X509_CRL_set_version(list.get(), 1);
  X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(certificate_.get()));
  X509_CRL_set1_lastUpdate(list.get(), now.get());
  X509_CRL_set1_nextUpdate(list.get(), now.get());  // over at once, which does not matter
  for (const int64_t serial : serials) {
    X509_REVOKED* revoked = X509_REVOKED_new();
    const std::unique_ptr<ASN1_INTEGER, decltype(&ASN1_INTEGER_free)> number(ASN1_INTEGER_new(),
                                                                             ASN1_INTEGER_free);
    ASN1_INTEGER_set_int64(number.get(), serial);
    X509_REVOKED_set_serialNumber(revoked, number.get());
    X509_REVOKED_set_revocationDate(revoked, now.get());
    X509_CRL_add0_revoked(list.get(), revoked);
  }
  if (critical) {
    const std::unique_ptr<ASN1_INTEGER, decltype(&ASN1_INTEGER_free)> number(ASN1_INTEGER_new(),
                                                                             ASN1_INTEGER_free);
    ASN1_INTEGER_set_int64(number.get(), 1);
    EXPECT_EQ(X509_CRL_add1_ext_i2d(list.get(), NID_crl_number, number.get(), 1, 0), 1);
  }
  EXPECT_NE(X509_CRL_sign(list.get(), key_.get(), EVP_sha256()), 0);
  return Pem([&](BIO* bio) { return PEM_write_bio_X509_CRL(bio, list.get()); });
}

Files TestCa::Write(const std::string& folder, const std::string& name,
                    const Certificate& wanted) const {
  const std::string base = absl::StrCat(folder, "/", name);
  const Files files = {base + ".ca", base + ".crt", base + ".key"};
  const IssuedPem issued = Issue(wanted);
  EXPECT_TRUE(WriteFileAtomic(files.key, issued.key).ok());
  EXPECT_EQ(chmod(files.key.c_str(), 0600), 0);
  EXPECT_TRUE(WriteFileAtomic(files.certificate, issued.certificate).ok());
  EXPECT_TRUE(WriteFileAtomic(files.ca, pem()).ok());
  return files;
}

}  // namespace stretto::tls
