// SPDX-License-Identifier: Apache-2.0
#include "proto/tls/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "tests/proto/tls/certificates.h"
#include "tests/worker/daemon/temp_dir.h"

namespace stretto::tls {
namespace {

using ::testing::HasSubstr;

class FilesTest : public ::testing::Test {
 protected:
  Files Write(const Certificate& wanted, const std::string& name = "own") {
    return ca_.Write(dir_.path(), name, wanted);
  }
  static std::string Fault(const Files& files, Role role = Role::kUser) {
    const auto checked = CheckFiles(files, role, absl::Now());
    return checked.ok() ? "" : std::string(checked.status().message());
  }
  std::string Overwrite(const std::string& path, const std::string& content) {
    EXPECT_TRUE(WriteFileAtomic(path, content).ok());
    EXPECT_EQ(chmod(path.c_str(), 0600), 0);
    return path;
  }

  daemon::TempDir dir_;
  TestCa ca_;
};

TEST_F(FilesTest, GoodOnesTellWhoWeAre) {
  const auto identity = CheckFiles(Write(kUserCertificate), Role::kUser, absl::Now());
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(identity->name, "alice");
}

TEST_F(FilesTest, AllThreeOrNone) {
  Files files = Write(kUserCertificate);
  files.key = "";
  EXPECT_EQ(Fault(files),
            "TLS: found only --tls-ca and --tls-certificate, expected --tls-ca, --tls-certificate "
            "and --tls-key, or none of them");
  EXPECT_FALSE(files.empty());
  EXPECT_TRUE(Files().empty());
}

// Who gives a secret by value must not find it in a message that somebody keeps.
TEST_F(FilesTest, ASecretByValueIsRefusedAndNotShown) {
  const Files good = Write(kUserCertificate);
  Files files = good;
  files.key = *ReadFile(good.key);
  EXPECT_EQ(Fault(files), "--tls-key: found PEM text, expected the path of a file that has it");
  files = good;
  files.certificate = *ReadFile(good.certificate) + files.key;
  EXPECT_EQ(Fault(files),
            "--tls-certificate: found PEM text, expected the path of a file that has it");
  files.key = "";  // before anything else is said about them
  EXPECT_THAT(Fault(files), HasSubstr("--tls-certificate: found PEM text"));
}

// As for etcd: its CA alone, or with any certificate of ours.
TEST_F(FilesTest, AClientOfAStrangerNeedsTheCaAlone) {
  const auto fault = [](const Files& files) {
    return std::string(CheckClientFiles(files, absl::Now()).message());
  };
  Files files = TestCa("another").Write(dir_.path(), "theirs", {});
  files.flags = "--etcd-";
  files.ca = Write(kUserCertificate).ca;
  EXPECT_EQ(fault(files), "");
  EXPECT_EQ(fault({.ca = files.ca}), "");
  Files broken = files;
  broken.key = "";
  EXPECT_EQ(fault(broken),
            "TLS: found only --etcd-ca and --etcd-certificate, expected --etcd-ca, "
            "--etcd-certificate and --etcd-key, or the CA alone");
  broken = files;
  broken.ca = files.key;
  EXPECT_EQ(fault(broken), absl::StrCat("--etcd-ca ", files.key,
                                        ": found 0 certificates, none of a CA; expected that of "
                                        "the CA in PEM form"));
  broken = files;
  broken.key = Write(kUserCertificate, "other").key;
  EXPECT_EQ(fault(broken), absl::StrCat("--etcd-key ", broken.key,
                                        ": found the key of another certificate, expected that "
                                        "of ",
                                        files.certificate));
  const Files expired = TestCa("another").Write(dir_.path(), "old", {.end = -absl::Minutes(1)});
  EXPECT_THAT(fault(expired), HasSubstr("found a certificate that expired at"));
}

TEST_F(FilesTest, MissingFilesAreNamed) {
  const Files good = Write(kUserCertificate);
  Files files = good;
  files.ca = "/no/ca";
  EXPECT_EQ(Fault(files), "--tls-ca: open /no/ca: No such file or directory");
  files = good;
  files.certificate = "/no/crt";
  EXPECT_EQ(Fault(files), "--tls-certificate: open /no/crt: No such file or directory");
  files = good;
  files.key = "/no/key";
  EXPECT_EQ(Fault(files), "--tls-key: open /no/key: No such file or directory");
  files.key = dir_.path();
  EXPECT_EQ(Fault(files), absl::StrCat("--tls-key: read ", dir_.path(), ": Is a directory"));
}

TEST_F(FilesTest, UnreadableFileIsNamed) {
  if (geteuid() == 0) GTEST_SKIP() << "root reads every file";
  const Files files = Write(kUserCertificate);
  chmod(files.key.c_str(), 0000);
  EXPECT_THAT(Fault(files), HasSubstr("--tls-key: open " + files.key + ": Permission denied"));
}

TEST_F(FilesTest, KeyThatEverybodyCanReadIsRefused) {
  const Files files = Write(kUserCertificate);
  chmod(files.key.c_str(), 0644);
  EXPECT_EQ(Fault(files), absl::StrCat("--tls-key ", files.key,
                                       ": found mode 0644, which lets everybody on this machine "
                                       "have the key; expected 0600, or 0640 for a group"));
  chmod(files.key.c_str(), 0640);
  EXPECT_EQ(Fault(files), "");
}

TEST_F(FilesTest, KeyOfAnotherCertificateIsRefused) {
  Files files = Write(kUserCertificate);
  files.key = Write(kUserCertificate, "other").key;
  EXPECT_EQ(Fault(files), absl::StrCat("--tls-key ", files.key,
                                       ": found the key of another certificate, expected that of ",
                                       files.certificate));
}

TEST_F(FilesTest, KeyMustBePlainPem) {
  const Files files = Write(kUserCertificate);
  const std::string expected = absl::StrCat(
      "--tls-key ", files.key,
      ": found no private key that can be read, expected one in PEM form, unencrypted");
  const auto key = *ReadFile(files.key);
  Overwrite(files.key, "rubbish");
  EXPECT_EQ(Fault(files), expected);
  Overwrite(files.key, "");
  EXPECT_EQ(Fault(files), expected);
  // With a passphrase: nobody must be asked for it.
  BIO* in = BIO_new_mem_buf(key.data(), static_cast<int>(key.size()));
  EVP_PKEY* plain = PEM_read_bio_PrivateKey(in, nullptr, nullptr, nullptr);
  BIO* out = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(out, plain, EVP_aes_256_cbc(),
                           reinterpret_cast<const unsigned char*>("secret"), 6, nullptr, nullptr);
  char* text = nullptr;
  const auto length = BIO_get_mem_data(out, &text);
  Overwrite(files.key, std::string(text, static_cast<size_t>(length)));
  EXPECT_EQ(Fault(files), expected);
  BIO_free(in);
  BIO_free(out);
  EVP_PKEY_free(plain);
}

TEST_F(FilesTest, CertificateMustBeValidNow) {
  Certificate expired = kUserCertificate;
  expired.end = -absl::Minutes(1);
  Files files = Write(expired);
  EXPECT_THAT(Fault(files), testing::MatchesRegex(absl::StrCat(
                                "--tls-certificate ", files.certificate,
                                ": found a certificate that expired at 20[-0-9T:]+Z, expected one "
                                "valid now, at 20[-0-9T:]+Z")));
  Certificate early = kUserCertificate;
  early.begin = absl::Minutes(1);
  EXPECT_THAT(Fault(Write(early)), HasSubstr("found a certificate that is not valid before 20"));
}

TEST_F(FilesTest, CertificateFileNeedsOne) {
  const Files files = Write(kUserCertificate);
  Overwrite(files.certificate, *ReadFile(files.key));
  EXPECT_EQ(Fault(files), absl::StrCat("--tls-certificate ", files.certificate,
                                       ": found no certificate, expected one in PEM form"));
}

TEST_F(FilesTest, CaFileNeedsACa) {
  const Files files = Write(kUserCertificate);
  Overwrite(files.ca, *ReadFile(files.certificate));
  EXPECT_EQ(Fault(files), absl::StrCat("--tls-ca ", files.ca,
                                       ": found 1 certificates, none of a CA; expected that of the "
                                       "CA in PEM form"));
  Overwrite(files.ca, "");
  EXPECT_THAT(Fault(files), HasSubstr("found 0 certificates"));
}

TEST_F(FilesTest, CertificateOfAnotherCaIsRefused) {
  const Files files = Write(kUserCertificate);
  const TestCa other("other CA");
  Overwrite(files.ca, other.pem());
  EXPECT_EQ(Fault(files),
            absl::StrCat("--tls-certificate ", files.certificate,
                         ": found a certificate by CN=test CA that does not lead to ", files.ca,
                         " (unable to get local issuer certificate), expected one of that CA"));
  // Both CAs, as while one replaces the other.
  Overwrite(files.ca, other.pem() + ca_.pem());
  EXPECT_EQ(Fault(files), "");
}

TEST_F(FilesTest, UsageMustFitTheRole) {
  Certificate user = kUserCertificate;
  user.usage = "clientAuth";
  EXPECT_EQ(Fault(Write(user)), "");
  user.usage = "serverAuth";
  EXPECT_THAT(Fault(Write(user)), HasSubstr("purpose"));
  Certificate coordinator = kCoordinatorCertificate;
  coordinator.usage = "serverAuth";
  EXPECT_EQ(Fault(Write(coordinator), Role::kCoordinator), "");
  coordinator.usage = "clientAuth";
  EXPECT_THAT(Fault(Write(coordinator), Role::kCoordinator), HasSubstr("purpose"));
}

TEST_F(FilesTest, RoleMustFitTheProgram) {
  const Files files = Write(kUserCertificate);
  EXPECT_EQ(Fault(files, Role::kCoordinator),
            absl::StrCat("--tls-certificate ", files.certificate,
                         ": found role user (spiffe://test/stretto/user/alice), expected role "
                         "coordinator"));
  EXPECT_THAT(Fault(Write({.alternative_names = "DNS:a"})), HasSubstr("found no URI"));
  EXPECT_THAT(Fault(Write({})), HasSubstr("found no URI"));
}

TEST_F(FilesTest, LifetimesAreThoseOfOursAndOfItsCa) {
  EXPECT_TRUE(ReadLifetimes({}).empty());
  Certificate wanted = kUserCertificate;
  wanted.end = -absl::Minutes(10);  // expired, and shown nevertheless
  const absl::Time now = absl::Now();
  const Files files = Write(wanted);
  // Another CA is first in the file, as while one replaces the other.
  Overwrite(files.ca, TestCa("other CA").pem() + ca_.pem());
  const std::vector<Lifetime> both = ReadLifetimes(files);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].of, "own");
  EXPECT_LT(absl::AbsDuration(both[0].end - (now - absl::Minutes(10))), absl::Minutes(1));
  EXPECT_LT(absl::AbsDuration(both[0].begin - (now - absl::Hours(1))), absl::Minutes(1));
  EXPECT_EQ(both[1].of, "ca");
  EXPECT_LT(absl::AbsDuration(both[1].end - (now + absl::Hours(24))), absl::Minutes(1));
  Overwrite(files.ca, TestCa("other CA").pem());
  EXPECT_EQ(ReadLifetimes(files).size(), 1u);
  Overwrite(files.certificate, "rubbish");
  EXPECT_TRUE(ReadLifetimes(files).empty());
}

// Seeded damage: never a crash, always a sentence or a file that is still good.
TEST_F(FilesTest, DamagedFilesGiveAStatus) {
  const Files files = Write(kUserCertificate);
  uint32_t state = 1;
  const auto random = [&state] { return state = state * 1664525u + 1013904223u, state >> 8; };
  for (const std::string& path : {files.ca, files.certificate, files.key}) {
    const std::string good = *ReadFile(path);
    for (int i = 0; i < 60; ++i) {
      std::string bad = good.substr(0, random() % (good.size() + 1));
      if (!bad.empty()) bad[random() % bad.size()] ^= static_cast<char>(1u << random() % 8);
      Overwrite(path, bad);
      const std::string fault = Fault(files);
      EXPECT_TRUE(fault.empty() || fault.rfind("--tls-", 0) == 0) << fault;
    }
    Overwrite(path, good);
  }
  EXPECT_EQ(Fault(files), "");
}

}  // namespace
}  // namespace stretto::tls
