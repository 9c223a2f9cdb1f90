// SPDX-License-Identifier: Apache-2.0

// Wraps OpenSSL. A certificate is drafted with its names, times and extensions, and then signed.
// Each step that can fail is checked, because a certificate without one of its extensions would be
// accepted for more than it was issued for.

#include "coordinator/ca/mint.h"

#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/base/random_bytes.h"
#include "proto/base/status_macros.h"

namespace stretto::ca {
namespace {

using tls::X509Pointer;
using KeyPointer = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using BioPointer = std::unique_ptr<BIO, decltype(&BIO_free)>;
using NumberPointer = std::unique_ptr<BIGNUM, decltype(&BN_free)>;
using IntegerPointer = std::unique_ptr<ASN1_INTEGER, decltype(&ASN1_INTEGER_free)>;
using TimePointer = std::unique_ptr<ASN1_TIME, decltype(&ASN1_TIME_free)>;

constexpr size_t kMostCommonName = 64;

absl::Status Failed(const char* what) {
  std::array<char, 256> text = {};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  ERR_clear_error();
  return absl::InternalError(absl::StrCat("OpenSSL could not ", what, ": ", text.data()));
}

template <class Write>
absl::StatusOr<std::string> PemText(const Write& write) {
  const BioPointer bio(BIO_new(BIO_s_mem()), BIO_free);
  if (bio == nullptr || write(bio.get()) != 1) return Failed("write PEM");
  char* text = nullptr;
  const auto length = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<size_t>(length));
}

absl::StatusOr<Minted> ToMinted(X509* certificate, EVP_PKEY* key) {
  ASSIGN_OR_RETURN(std::string certificate_pem,
                   PemText([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); }));
  ASSIGN_OR_RETURN(std::string key_pem, PemText([&](BIO* bio) {
                     return PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr,
                                                     nullptr);
                   }));
  return Minted{std::move(certificate_pem), std::move(key_pem)};
}

absl::StatusOr<IntegerPointer> Serial(const std::string& text) {
  BIGNUM* number = nullptr;
  const int digits = BN_hex2bn(&number, text.c_str());
  const NumberPointer owner(number, BN_free);
  if (digits == 0 || static_cast<size_t>(digits) != text.size() || BN_is_negative(number) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "serial number: found \"", absl::CHexEscape(text), "\", expected hexadecimal digits"));
  }
  IntegerPointer integer(BN_to_ASN1_INTEGER(number, nullptr), ASN1_INTEGER_free);
  if (integer == nullptr) return Failed("make a serial number");
  return integer;
}

absl::StatusOr<TimePointer> Asn1Time(absl::Time time) {
  TimePointer result(ASN1_TIME_set(nullptr, absl::ToTimeT(time)), ASN1_TIME_free);
  if (result == nullptr) return Failed("make a time");
  return result;
}

absl::Status AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()), X509_EXTENSION_free);
  if (extension == nullptr || X509_add_ext(certificate, extension.get(), -1) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError(absl::StrCat("extension ", OBJ_nid2sn(nid), ": found \"",
                                                   absl::CHexEscape(value),
                                                   "\", expected a value of its form"));
  }
  return absl::OkStatus();
}

struct Extension {
  int nid;
  std::string value;
};

// All but the signature. `issuer` is null for a certificate that signs itself.
absl::StatusOr<X509Pointer> Draft(const Wanted& wanted, EVP_PKEY* key, X509* issuer,
                                  const std::vector<Extension>& extensions) {
  X509Pointer draft(X509_new());
  if (draft == nullptr) return Failed("make a certificate");
  X509* const certificate = draft.get();
  ASSIGN_OR_RETURN(const IntegerPointer serial, Serial(wanted.serial));
  ASSIGN_OR_RETURN(const TimePointer begin, Asn1Time(wanted.begin));
  ASSIGN_OR_RETURN(const TimePointer end, Asn1Time(wanted.end));
  const std::string name = wanted.common_name.substr(0, kMostCommonName);
  X509_NAME* const subject = X509_get_subject_name(certificate);
  const bool done =
      X509_set_version(certificate, 2) == 1 &&
      X509_set_serialNumber(certificate, serial.get()) == 1 &&
      X509_set1_notBefore(certificate, begin.get()) == 1 &&
      X509_set1_notAfter(certificate, end.get()) == 1 &&
      X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(name.data()),
                                 static_cast<int>(name.size()), -1, 0) == 1 &&
      X509_set_issuer_name(certificate,
                           issuer == nullptr ? subject : X509_get_subject_name(issuer)) == 1 &&
      X509_set_pubkey(certificate, key) == 1;
  if (!done) return Failed("make a certificate");
  for (const Extension& extension : extensions) {
    RETURN_IF_ERROR(AddExtension(certificate, issuer == nullptr ? certificate : issuer,
                                 extension.nid, extension.value));
  }
  return draft;
}

absl::StatusOr<KeyPointer> NewKey() {
  KeyPointer key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  if (key == nullptr) return Failed("make a key");
  return key;
}

absl::Status AddRevoked(X509_CRL* list, const RevokedSerial& revoked) {
  ASSIGN_OR_RETURN(const IntegerPointer serial, Serial(revoked.serial));
  ASSIGN_OR_RETURN(const TimePointer time, Asn1Time(revoked.time));
  std::unique_ptr<X509_REVOKED, decltype(&X509_REVOKED_free)> entry(X509_REVOKED_new(),
                                                                    X509_REVOKED_free);
  if (entry == nullptr || X509_REVOKED_set_serialNumber(entry.get(), serial.get()) != 1 ||
      X509_REVOKED_set_revocationDate(entry.get(), time.get()) != 1 ||
      X509_CRL_add0_revoked(list, entry.get()) != 1) {
    return Failed("make a revocation list");
  }
  static_cast<void>(entry.release());  // the list owns it
  return absl::OkStatus();
}

}  // namespace

std::string NewSerial() {
  constexpr size_t kSerialBytes = 16;
  std::string bytes = RandomBytes(kSerialBytes);
  bytes[0] = static_cast<char>((bytes[0] & 0x3f) | 0x40);  // positive, of one length
  return absl::BytesToHexString(bytes);
}

absl::StatusOr<Minted> MintCa(const std::string& name, absl::Time begin, absl::Time end) {
  ASSIGN_OR_RETURN(const KeyPointer key, NewKey());
  ASSIGN_OR_RETURN(const X509Pointer certificate,
                   Draft({.serial = NewSerial(),
                          .common_name = name,
                          .alternative_names = "",
                          .begin = begin,
                          .end = end},
                         key.get(), nullptr,
                         {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                          {NID_key_usage, "critical,keyCertSign,cRLSign"},
                          {NID_subject_key_identifier, "hash"}}));
  if (X509_sign(certificate.get(), key.get(), EVP_sha256()) == 0) return Failed("sign a CA");
  return ToMinted(certificate.get(), key.get());
}

absl::StatusOr<Signer> Signer::Read(const std::string& certificate, const std::string& key) {
  std::vector<X509Pointer> found = tls::ReadCertificates(certificate);
  if (found.size() != 1 || X509_check_ca(found[0].get()) == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "found ", found.size(), " certificates, expected that of the CA alone, in PEM form"));
  }
  const BioPointer bio(BIO_new_mem_buf(key.data(), static_cast<int>(key.size())), BIO_free);
  const auto no_passphrase = [](char*, int, int, void*) { return -1; };
  Key own(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr), EVP_PKEY_free);
  const bool fits = own != nullptr && X509_check_private_key(found[0].get(), own.get()) == 1;
  ERR_clear_error();
  if (fits) return Signer(std::move(found[0]), std::move(own));
  return absl::InvalidArgumentError(
      own == nullptr ? "found no private key that can be read, expected that of the CA, unencrypted"
                     : "found the key of another certificate, expected that of the CA");
}

absl::StatusOr<Minted> Signer::Issue(const Wanted& wanted) const {
  ASSIGN_OR_RETURN(const KeyPointer key, NewKey());
  ASSIGN_OR_RETURN(const X509Pointer certificate,
                   Draft(wanted, key.get(), certificate_.get(),
                         {{NID_basic_constraints, "critical,CA:FALSE"},
                          {NID_key_usage, "critical,digitalSignature"},
                          {NID_ext_key_usage, "serverAuth,clientAuth"},
                          {NID_subject_key_identifier, "hash"},
                          {NID_authority_key_identifier, "keyid"},
                          {NID_subject_alt_name, wanted.alternative_names}}));
  if (X509_sign(certificate.get(), key_.get(), EVP_sha256()) == 0) {
    return Failed("sign a certificate");
  }
  return ToMinted(certificate.get(), key.get());
}

absl::StatusOr<std::string> Signer::List(const std::vector<RevokedSerial>& revoked, int64_t number,
                                         absl::Time now) const {
  const std::unique_ptr<X509_CRL, decltype(&X509_CRL_free)> list(X509_CRL_new(), X509_CRL_free);
  ASSIGN_OR_RETURN(const TimePointer begin, Asn1Time(now));
  const IntegerPointer count(ASN1_INTEGER_new(), ASN1_INTEGER_free);
  if (list == nullptr || count == nullptr || ASN1_INTEGER_set_int64(count.get(), number) != 1 ||
      X509_CRL_set_version(list.get(), 1) != 1 ||
      X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(certificate_.get())) != 1 ||
      X509_CRL_set1_lastUpdate(list.get(), begin.get()) != 1 ||
      X509_CRL_set1_nextUpdate(list.get(), X509_get0_notAfter(certificate_.get())) != 1 ||
      X509_CRL_add1_ext_i2d(list.get(), NID_crl_number, count.get(), 0, 0) != 1) {
    return Failed("make a revocation list");
  }
  for (const RevokedSerial& one : revoked) RETURN_IF_ERROR(AddRevoked(list.get(), one));
  if (X509_CRL_sort(list.get()) != 1 || X509_CRL_sign(list.get(), key_.get(), EVP_sha256()) == 0) {
    return Failed("sign a revocation list");
  }
  return PemText([&](BIO* bio) { return PEM_write_bio_X509_CRL(bio, list.get()); });
}

}  // namespace stretto::ca
