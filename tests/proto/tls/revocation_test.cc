// SPDX-License-Identifier: Apache-2.0
#include "proto/tls/revocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "tests/proto/tls/certificates.h"
#include "tests/worker/daemon/temp_dir.h"

namespace stretto::tls {
namespace {

using ::testing::HasSubstr;

class RevocationTest : public ::testing::Test {
 protected:
  RevocationTest() {
    EXPECT_TRUE(WriteFileAtomic(ca_file_, ca_.pem()).ok());
    Write(ca_.RevocationList({}));
  }
  void Write(const std::string& lists) const { EXPECT_TRUE(WriteFileAtomic(path_, lists).ok()); }
  absl::StatusOr<std::unique_ptr<Revocations>> Open() const {
    return Revocations::Open(ca_file_, path_);
  }
  std::string Fault() const { return std::string(Open().status().message()); }
  static std::string Of(const TestCa& ca, int64_t serial) {
    Certificate certificate = kUserCertificate;
    certificate.serial = serial;
    return ca.Issue(certificate).certificate;
  }

  daemon::TempDir dir_;
  TestCa ca_;
  const std::string ca_file_ = dir_.path() + "/ca.crt", path_ = dir_.path() + "/ca.crl";
};

TEST_F(RevocationTest, RevokesByNumberOfItsCaAlone) {
  Write(ca_.RevocationList({7, 300}));
  const auto revocations = Open();
  ASSERT_TRUE(revocations.ok()) << revocations.status();
  EXPECT_EQ((*revocations)->count(), 2);
  for (int round = 0; round < 2; ++round) {  // the second from memory
    EXPECT_TRUE((*revocations)->Check(Of(ca_, 8)).ok());
    const absl::Status revoked = (*revocations)->Check(Of(ca_, 300));
    EXPECT_TRUE(absl::IsUnauthenticated(revoked));
    EXPECT_EQ(revoked.message(),
              "certificate 012c (spiffe://test/stretto/user/alice): found it revoked by its CA, "
              "expected one that is valid; ask for a new one");
    EXPECT_TRUE((*revocations)->Check(Of(TestCa("other CA"), 7)).ok());
  }
}

TEST_F(RevocationTest, ACertificateThatCannotBeReadIsRefused) {
  const auto revocations = Open();
  ASSERT_TRUE(revocations.ok()) << revocations.status();
  for (const std::string& text :
       {std::string(), std::string("rubbish"), absl::StrCat(Of(ca_, 1), Of(ca_, 2))}) {
    EXPECT_TRUE(absl::IsUnauthenticated((*revocations)->Check(text))) << text;
  }
}

TEST_F(RevocationTest, AChangedFileIsReadAgain) {
  const auto opened = Open();
  ASSERT_TRUE(opened.ok()) << opened.status();
  Revocations& revocations = **opened;
  const std::string certificate = Of(ca_, 5);
  EXPECT_TRUE(revocations.Check(certificate).ok());
  EXPECT_FALSE(revocations.Refresh());
  Write(ca_.RevocationList({5}));
  EXPECT_TRUE(revocations.Refresh());
  EXPECT_TRUE(absl::IsUnauthenticated(revocations.Check(certificate)));
  EXPECT_FALSE(revocations.Refresh());
  Write(ca_.RevocationList({}));
  EXPECT_TRUE(revocations.Refresh());
  EXPECT_TRUE(revocations.Check(certificate).ok());
}

TEST_F(RevocationTest, TheLastGoodListsHoldWhileTheFileIsNone) {
  Write(ca_.RevocationList({5}));
  const auto opened = Open();
  ASSERT_TRUE(opened.ok()) << opened.status();
  Revocations& revocations = **opened;
  const std::string good = ca_.RevocationList({});
  const auto keeps = [&](const std::string& fault) {
    EXPECT_TRUE(revocations.Refresh());
    EXPECT_THAT(std::string(revocations.status().message()), HasSubstr(fault));
    EXPECT_EQ(revocations.count(), 1);
    EXPECT_TRUE(absl::IsUnauthenticated(revocations.Check(Of(ca_, 5))));
    EXPECT_TRUE(revocations.Check(Of(ca_, 6)).ok());
    EXPECT_FALSE(revocations.Refresh());  // tried once
    EXPECT_FALSE(revocations.status().ok());
  };
  Write(good.substr(0, good.size() / 2));
  keeps("0 whole revocation lists in 1 beginnings and 0 ends");
  Write("");
  keeps("found no revocation list");
  Write(TestCa("other CA").RevocationList({}));
  keeps("found a list by CN=other CA");
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  keeps("--tls-crl: open ");
  Write(good);
  EXPECT_TRUE(revocations.Refresh());
  EXPECT_TRUE(revocations.status().ok()) << revocations.status();
  EXPECT_EQ(revocations.count(), 0);
}

TEST_F(RevocationTest, ListsOfAnotherCaAreRefused) {
  // By name, and by key.
  for (const TestCa& other : {TestCa("other CA"), TestCa()}) {
    Write(other.RevocationList({1}));
    EXPECT_THAT(Fault(), testing::MatchesRegex(
                             absl::StrCat("--tls-crl ", path_,
                                          ": found a list by CN=[a-z]+ CA that no CA in "
                                          "--tls-ca ",
                                          ca_file_, " has signed, expected lists of that CA")));
    Write(absl::StrCat(ca_.RevocationList({1}), other.RevocationList({1})));
    EXPECT_TRUE(absl::IsFailedPrecondition(Open().status()));
  }
  // Both CAs, as while one replaces the other.
  const TestCa next("next CA");
  ASSERT_TRUE(WriteFileAtomic(ca_file_, ca_.pem() + next.pem()).ok());
  Write(absl::StrCat(ca_.RevocationList({1}), next.RevocationList({2})));
  const auto both = Open();
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_FALSE((*both)->Check(Of(next, 2)).ok());
  EXPECT_TRUE((*both)->Check(Of(next, 1)).ok());
}

TEST_F(RevocationTest, AFileWithSomethingElseIsRefused) {
  const std::string list = ca_.RevocationList({1});
  const std::string at = absl::StrCat("--tls-crl ", path_, ": ");
  Write("");
  EXPECT_EQ(Fault(), at + "found no revocation list, expected one in PEM form");
  Write(ca_.pem());
  EXPECT_EQ(Fault(), at + "found 0 whole revocation lists in 1 beginnings and 1 ends of PEM, "
                          "expected lists alone, each whole");
  Write(list + list.substr(0, list.size() - 30));
  EXPECT_THAT(Fault(), HasSubstr("found 1 whole revocation lists in 2 beginnings"));
  Write(ca_.RevocationList({1}, /*critical=*/true));
  EXPECT_EQ(Fault(), at + "found a list by CN=test CA with the critical extension X509v3 CRL "
                          "Number, expected a complete list");
  Write(std::string((4 << 20) + 1, '\n'));
  EXPECT_THAT(Fault(), HasSubstr("found 4194305 bytes, expected at most 4194304"));
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  ASSERT_EQ(::mkdir(path_.c_str(), 0700), 0);
  EXPECT_THAT(Fault(), HasSubstr("expected a regular file"));
}

// Seeded damage: a list is taken whole or refused, and never revokes fewer certificates.
TEST_F(RevocationTest, DamagedListsGiveAStatus) {
  const std::string good = ca_.RevocationList({1, 2, 3});
  uint32_t state = 1;
  const auto random = [&state] { return state = state * 1664525u + 1013904223u, state >> 8; };
  int refused = 0;
  for (int i = 0; i < 200; ++i) {
    std::string bad = good.substr(0, good.size() - random() % 3);
    bad[random() % bad.size()] ^= static_cast<char>(1u << random() % 8);
    Write(bad);
    const auto opened = Open();
    if (opened.ok()) {
      EXPECT_EQ((*opened)->count(), 3) << bad;
    } else {
      ++refused;
      EXPECT_THAT(std::string(opened.status().message()), testing::StartsWith("--tls-crl "));
    }
  }
  EXPECT_GT(refused, 150);
}

}  // namespace
}  // namespace stretto::tls
