// SPDX-License-Identifier: Apache-2.0

// A CA in a folder, judged by those that will judge its certificates: tls::CheckFiles and
// tls::Revocations.

#include "coordinator/ca/authority.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/files.h"
#include "proto/tls/files.h"
#include "proto/tls/revocation.h"
#include "tests/worker/daemon/temp_dir.h"

namespace stretto::ca {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using tls::Role;

constexpr absl::Duration kDay = absl::Hours(24);

class AuthorityTest : public ::testing::Test {
 protected:
  Authority Create() const {
    absl::StatusOr<Authority> made = Authority::Create(folder_, "test CA", 3650 * kDay, now_);
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }
  Authority Open() const {
    absl::StatusOr<Authority> opened = Authority::Open(folder_);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *std::move(opened);
  }
  static Holder User(const std::string& user) { return UserHolder(user).value(); }
  Issued Issue(Authority& authority, const Holder& holder, absl::Duration life = 90 * kDay) const {
    const absl::StatusOr<Issued> issued = authority.Issue(holder, life, now_);
    EXPECT_TRUE(issued.ok()) << issued.status();
    return *issued;
  }
  tls::Files FilesOf(const std::string& name) const {
    return {Path("ca.crt"), Path(name + ".crt"), Path(name + ".key")};
  }
  absl::Status Judge(const std::string& name, Role role, absl::Time at) const {
    return tls::CheckFiles(FilesOf(name), role, at).status();
  }
  std::string Path(const std::string& file) const { return folder_ + "/" + file; }
  std::string Content(const std::string& file) const { return ReadFile(Path(file)).value_or(""); }
  unsigned Mode(const std::string& path) const {
    struct stat info = {};
    EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 0777u;
  }

  daemon::TempDir dir_;
  const std::string folder_ = dir_.path() + "/new/tls";
  const absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
};

TEST_F(AuthorityTest, ItsCertificatesPassWhereTheyAreUsed) {
  Authority authority = Create();
  EXPECT_EQ(authority.name(), "CN=test CA");
  EXPECT_EQ(authority.end(), now_ + 3650 * kDay);
  Issue(authority, CoordinatorHolder({"localhost", "10.0.0.1", "::1"}).value());
  Issue(authority, WorkerHolder("node-a").value());
  Issue(authority, User("alice/submitter/speech/viewer"));
  const std::pair<const char*, Role> all[] = {{"coordinator", Role::kCoordinator},
                                              {"worker-node-a", Role::kWorker},
                                              {"user-alice", Role::kUser}};
  for (const auto& [name, role] : all) {
    const auto identity = tls::CheckFiles(FilesOf(name), role, now_);
    ASSERT_TRUE(identity.ok()) << identity.status();
    EXPECT_TRUE(Judge(name, role, now_ - absl::Minutes(4)).ok()) << "a clock that is behind";
    EXPECT_TRUE(Judge(name, role, now_ + 89 * kDay).ok());
    EXPECT_FALSE(Judge(name, role, now_ + 91 * kDay).ok());
    EXPECT_EQ(Mode(Path(std::string(name) + ".key")), 0600u);
  }
  const auto alice = tls::CheckFiles(FilesOf("user-alice"), Role::kUser, now_);
  EXPECT_EQ(tls::RoleIn(*alice, "speech"), tls::UserRole::kSubmitter);
  EXPECT_EQ(tls::RoleIn(*alice, "text"), tls::UserRole::kViewer);
  const auto leaf = tls::ReadCertificates(Content("coordinator.crt"));
  ASSERT_EQ(leaf.size(), 1u);
  for (const char* host : {"localhost", "10.0.0.1", "::1"}) {
    EXPECT_TRUE(tls::HasHost(*leaf[0], host)) << host;
  }
  EXPECT_FALSE(tls::HasHost(*leaf[0], "coordinator"));
  EXPECT_EQ(Mode(Path("ca.key")), 0600u);
  EXPECT_EQ(Mode(folder_), 0700u);
  // A certificate is no CA.
  EXPECT_FALSE(Signer::Read(Content("user-alice.crt"), Content("user-alice.key")).ok());
}

TEST_F(AuthorityTest, TheIndexHasEveryCertificate) {
  {
    Authority authority = Create();
    Issue(authority, User("alice"));
    Issue(authority, User("alice"), 30 * kDay);
  }
  const absl::StatusOr<Index> index = ReadIndex(folder_);
  ASSERT_TRUE(index.ok()) << index.status();
  ASSERT_EQ(index->issued.size(), 2u);
  const Issued& last = index->issued[1];
  EXPECT_EQ(last.name, "user-alice");
  EXPECT_EQ(last.alternative_names, "URI:spiffe://stretto.local/stretto/user/alice");
  EXPECT_EQ(last.begin, now_ - kBackdate);
  EXPECT_EQ(last.end, now_ + 30 * kDay);
  EXPECT_NE(last.serial, index->issued[0].serial);
  EXPECT_EQ(tls::SerialOf(*tls::ReadCertificates(Content("user-alice.crt"))[0]), last.serial);
  EXPECT_FALSE(last.DueAt(now_ + 19 * kDay));
  EXPECT_TRUE(last.DueAt(now_ + 20 * kDay));
  EXPECT_THAT(Content("index"),
              MatchesRegex("(2027-01-15T08:00:00Z issued [0-9a-f]{32} user-alice [^ ]+ [^ ]+ "
                           "URI:spiffe://stretto.local/stretto/user/alice\n)+"));
}

TEST_F(AuthorityTest, ARevokedCertificateIsInTheList) {
  Authority authority = Create();
  const auto lists = tls::Revocations::Open(Path("ca.crt"), Path("ca.crl"));
  ASSERT_TRUE(lists.ok()) << lists.status();
  Issue(authority, User("bob"));
  const std::string first = Content("user-bob.crt");
  const Issued second = Issue(authority, User("bob"));
  Issue(authority, User("alice"));
  const auto revoked = [&](const std::string& certificate) {
    (*lists)->Refresh();
    EXPECT_TRUE((*lists)->status().ok()) << (*lists)->status();
    return !(*lists)->Check(certificate).ok();
  };
  EXPECT_FALSE(revoked(first));
  // One by its number, in any case of letters.
  ASSERT_TRUE(authority.Revoke(absl::AsciiStrToUpper(second.serial), "superseded", now_).ok());
  EXPECT_TRUE(revoked(Content("user-bob.crt")));
  EXPECT_FALSE(revoked(first));
  // All of a name.
  const auto all = authority.Revoke("user-bob", "keyCompromise", now_);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ((*all)[0].reason, "keyCompromise");
  EXPECT_EQ((*all)[1].reason, "superseded") << "is left as it is";
  EXPECT_TRUE(revoked(first));
  EXPECT_FALSE(revoked(Content("user-alice.crt")));
  EXPECT_EQ((*lists)->count(), 2);
  // The next one is valid, and the record is read again as it is.
  const Issued third = Issue(authority, User("bob"));
  EXPECT_FALSE(revoked(Content("user-bob.crt")));
  const absl::StatusOr<Index> index = ReadIndex(folder_);
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->issued[0].revoked, now_);
  EXPECT_FALSE(index->issued[3].revoked);
  EXPECT_EQ(index->issued[3].serial, third.serial);
}

TEST_F(AuthorityTest, WhatIsNotThereIsNotRevoked) {
  Authority authority = Create();
  Issue(authority, User("alice"));
  const auto fault = [&](const std::string& what, absl::Time now) {
    return std::string(authority.Revoke(what, "unspecified", now).status().message());
  };
  EXPECT_EQ(fault("user-alise", now_),
            absl::StrCat("found no valid certificate with the name or the serial number "
                         "\"user-alise\" in ",
                         Path("index"), ", expected one that `stretto ca list ", folder_,
                         "` shows; did you mean \"user-alice\"?"));
  EXPECT_THAT(fault("user-alice", now_ + 91 * kDay), HasSubstr("found no valid certificate"));
  EXPECT_TRUE(ReadIndex(folder_)->issued[0].ValidAt(now_));
}

TEST_F(AuthorityTest, ACertificateDoesNotOutliveItsCa) {
  Authority authority = Create();
  EXPECT_EQ(authority.Issue(User("alice"), 3651 * kDay, now_).status().message(),
            "user-alice: found an end at 2037-01-13, expected one before that of the CA, at "
            "2037-01-12");
  EXPECT_TRUE(ReadIndex(folder_)->issued.empty());
  EXPECT_FALSE(std::filesystem::exists(Path("user-alice.key")));
}

TEST_F(AuthorityTest, ACaIsMadeOnce) {
  { const Authority made = Create(); }
  const std::string certificate = Content("ca.crt");
  const auto again = Authority::Create(folder_, "other", kDay, now_);
  EXPECT_TRUE(absl::IsAlreadyExists(again.status()));
  EXPECT_THAT(std::string(again.status().message()), HasSubstr(folder_ + ": found a CA"));
  EXPECT_EQ(Content("ca.crt"), certificate);
  // An attempt that was interrupted before the certificate was there has made no CA.
  ASSERT_TRUE(std::filesystem::remove(Path("ca.crt")));
  EXPECT_TRUE(absl::IsNotFound(Authority::Open(folder_).status()));
  Authority made = Create();
  Issue(made, User("alice"));
  EXPECT_TRUE(Judge("user-alice", Role::kUser, now_).ok());
}

TEST_F(AuthorityTest, ALineThatACrashCutOffIsDropped) {
  {
    Authority authority = Create();
    Issue(authority, User("alice"));
  }
  const std::string whole = Content("index");
  std::ofstream(Path("index"), std::ios::app) << "2027-01-15T08:00:00Z issued 12";
  EXPECT_EQ(ReadIndex(folder_)->issued.size(), 1u);
  Authority authority = Open();
  EXPECT_EQ(Content("index"), whole);
  Issue(authority, User("bob"));
  EXPECT_EQ(ReadIndex(folder_)->issued.size(), 2u);
}

// A crash between the record and what it records.
TEST_F(AuthorityTest, TheSameCommandAgainCompletesWhatACrashLeft) {
  std::string list;
  {
    Authority authority = Create();
    Issue(authority, User("alice"));
    list = Content("ca.crl");
    ASSERT_TRUE(authority.Revoke("user-alice", "unspecified", now_).ok());
  }
  ASSERT_TRUE(WriteFileAtomic(Path("ca.crl"), list).ok());
  std::ofstream(Path("user-bob.key.new")) << "half a key";
  Authority authority = Open();
  ASSERT_TRUE(authority.Revoke("user-alice", "unspecified", now_).ok());
  EXPECT_EQ((*tls::Revocations::Open(Path("ca.crt"), Path("ca.crl")))->count(), 1);
  EXPECT_EQ(ReadIndex(folder_)->lines, 2);
  Issue(authority, User("bob"));
  EXPECT_TRUE(Judge("user-bob", Role::kUser, now_).ok());
}

TEST_F(AuthorityTest, DamagedFilesAreNamed) {
  {
    Authority authority = Create();
    Issue(authority, User("alice"));
  }
  const std::string index = Content("index");
  const auto fault = [&] { return std::string(Authority::Open(folder_).status().message()); };
  std::ofstream(Path("index")) << index << "rubbish\n";
  EXPECT_THAT(fault(), HasSubstr(Path("index:2: found \"rubbish\", expected \"TIME issued ")));
  std::ofstream(Path("index")) << "2027-01-15T08:00:00Z revoked 1234 unspecified\n";
  EXPECT_THAT(fault(), HasSubstr("index:1: found certificate 1234 revoked, expected one that was"));
  std::string bad_time = index;
  bad_time.replace(bad_time.find("user-alice ") + 11, 4, "soon");
  std::ofstream(Path("index")) << bad_time;
  EXPECT_THAT(fault(), HasSubstr("\", expected a time like "));
  std::ofstream(Path("index")) << index;
  const std::string key = Content("ca.key");
  std::ofstream(Path("ca.key")) << Content("user-alice.key");
  EXPECT_EQ(fault(), absl::StrCat(Path("ca.crt"),
                                  " and ca.key: found the key of another "
                                  "certificate, expected that of the CA"));
  std::ofstream(Path("ca.key")) << "rubbish";
  EXPECT_THAT(fault(), HasSubstr("found no private key that can be read"));
  std::ofstream(Path("ca.key")) << key;
  std::ofstream(Path("ca.crt")) << Content("user-alice.crt");
  EXPECT_THAT(fault(), HasSubstr("found 1 certificates, expected that of the CA alone"));
  EXPECT_THAT(std::string(ReadIndex(dir_.path()).status().message()),
              HasSubstr("found no CA in " + dir_.path()));
}

TEST_F(AuthorityTest, AKeyThatEverybodyCanReadIsRefused) {
  { const Authority made = Create(); }
  ASSERT_EQ(chmod(Path("ca.key").c_str(), 0644), 0);
  EXPECT_THAT(std::string(Authority::Open(folder_).status().message()),
              testing::StartsWith(Path("ca.key: found mode 0644, which lets everybody")));
}

TEST_F(AuthorityTest, WithoutItsKeyNoCertificateIsWritten) {
  Authority authority = Create();
  ASSERT_TRUE(std::filesystem::create_directory(Path("user-alice.key")));
  std::ofstream(Path("user-alice.key/file")) << "in the way";
  EXPECT_THAT(std::string(authority.Issue(User("alice"), kDay, now_).status().message()),
              HasSubstr("user-alice.key: Is a directory"));
  EXPECT_EQ(ReadIndex(folder_)->issued.size(), 1u) << "recorded before it would be there";
  EXPECT_FALSE(std::filesystem::exists(Path("user-alice.crt")));
}

TEST(HolderTest, NamesThatMeanSomethingElseAreRefused) {
  for (const char* host : {"", "a b", "a,DNS:b", "-a", ".a", "a:80", "a/b", "[::1]", "*.a"}) {
    const auto refused = CoordinatorHolder({host});
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << host;
    EXPECT_THAT(std::string(refused.status().message()),
                HasSubstr(absl::StrCat("--coordinator-host: found \"", host, "\", expected ")));
  }
  EXPECT_FALSE(CoordinatorHolder({}).ok());
  for (const char* worker : {"", "a/b", "a b", "a,URI:spiffe://x/stretto/user/ada/admin"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(WorkerHolder(worker).status())) << worker;
  }
  for (const char* user : {"", "a/boss", "local", "a/admin/", "a/viewer/Speech", "a,DNS:b", "/a"}) {
    const auto refused = UserHolder(user);
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << user;
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("NAME[/ROLE/PROJECT]..."));
  }
  EXPECT_EQ(WorkerHolder("node.a_1")->name, "worker-node.a_1");
  EXPECT_EQ(CoordinatorHolder({"a", "::1", "10.0.0.1"})->alternative_names,
            "URI:spiffe://stretto.local/stretto/coordinator,DNS:a,IP:::1,IP:10.0.0.1");
}

TEST(MintTest, FaultsOfTheCallerAreErrors) {
  const absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  const auto ca = MintCa("test CA", now, now + kDay);
  ASSERT_TRUE(ca.ok()) << ca.status();
  const auto signer = Signer::Read(ca->certificate, ca->key);
  ASSERT_TRUE(signer.ok()) << signer.status();
  Wanted wanted{.serial = "0a",
                .common_name = std::string(200, 'a'),
                .alternative_names = "DNS:a",
                .begin = now,
                .end = now + kDay};
  EXPECT_TRUE(signer->Issue(wanted).ok());
  for (const char* serial : {"", "xyz", "-1", "1g"}) {
    wanted.serial = serial;
    EXPECT_TRUE(absl::IsInvalidArgument(signer->Issue(wanted).status())) << serial;
  }
  wanted.serial = "0a";
  for (const char* names : {"", "nonsense", "IP:300.0.0.1"}) {
    wanted.alternative_names = names;
    EXPECT_TRUE(absl::IsInvalidArgument(signer->Issue(wanted).status())) << names;
  }
  EXPECT_THAT(NewSerial(), testing::MatchesRegex("[4-7][0-9a-f]{31}"));
}

}  // namespace
}  // namespace stretto::ca
