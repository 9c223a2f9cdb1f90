// SPDX-License-Identifier: Apache-2.0

// What a store in etcd does beyond the suite of every store: leaders that follow each other,
// answers that are lost, commits that are too large for a transaction, and contents that it
// refuses.

#include "coordinator/store/etcd/etcd_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "coordinator/store/etcd/etcd_parts.h"
#include "coordinator/store/etcd/etcd_rows.h"
#include "coordinator/store/schema.h"
#include "tests/coordinator/store/etcd_proxy.h"
#include "tests/coordinator/store/etcd_server.h"
#include "tests/coordinator/store/etcd_subject.h"
#include "tests/coordinator/store/records.h"

namespace stretto::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class EtcdStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!EtcdServer::Installed()) GTEST_SKIP() << EtcdServer::kSkipped;
    client_ = ConnectEtcd(Endpoint());
  }
  static std::string Endpoint() { return SharedEtcd().endpoint(); }
  std::unique_ptr<EtcdSubject> Open(EtcdStoreOptions options = {}) {
    options.prefix = prefix_;
    return std::make_unique<EtcdSubject>(Endpoint(), options);
  }
  // As somebody else writes it.
  void Write(const std::string& key, std::optional<std::string> value) {
    const auto done =
        client_->Commit({.compares = {},
                         .writes = {{.key = prefix_ + key, .value = std::move(value)}},
                         .reads = {}},
                        kEtcdCall);
    ASSERT_TRUE(done.ok()) << done.status();
  }
  std::vector<std::string> KeysUnder(const std::string& key) {
    const auto found = client_->Range({.key = prefix_ + key, .prefix = true}, kEtcdCall);
    EXPECT_TRUE(found.ok()) << found.status();
    std::vector<std::string> keys;
    for (const EtcdValue& value : found->values) keys.push_back(value.key.substr(prefix_.size()));
    return keys;
  }
  static std::string IdOf(JobStore& store) { return store.Load()->cluster_id; }

  const std::string prefix_ = TestFolder();
  std::unique_ptr<EtcdClient> client_;
};

std::vector<Record> Workers(int count) {
  std::vector<Record> workers;
  for (int i = 0; i < count; ++i) workers.emplace_back(FullWorker(absl::StrCat("w", i)));
  return workers;
}

TEST_F(EtcdStoreTest, ACommitThatIsTooLargeForATransactionIsStoredTogether) {
  const auto store = Open({.max_operations = 10});
  ASSERT_TRUE(store->Commit({PlainJob("gone", 1)}).ok());
  std::vector<Record> records = Workers(35);
  records.emplace_back(JobErased{"gone"});
  records.emplace_back(EpochRecord{Epoch(7)});
  ASSERT_EQ(store->Commit(records), absl::OkStatus());
  const auto snapshot = store->Load();
  EXPECT_THAT(snapshot->workers, SizeIs(35));
  EXPECT_THAT(snapshot->jobs, IsEmpty());
  EXPECT_EQ(snapshot->epoch.last, Epoch(7));
  EXPECT_THAT(KeysUnder("parts/"), IsEmpty());
  EXPECT_TRUE(store->Commit({PlainJob("next", 2)}).ok());
}

TEST_F(EtcdStoreTest, RecordsOfMoreBytesThanARequestTakesAreStored) {
  const auto store = Open();
  JobRecord a = PlainJob("a", 1), b = PlainJob("b", 2);
  a.spec = b.spec = std::string(900'000, 's');
  ASSERT_EQ(store->Commit({a, b}), absl::OkStatus());
  EXPECT_THAT(store->Load()->jobs, ElementsAre(a, b));
}

TEST_F(EtcdStoreTest, ARecordThatNoRequestTakesIsRefusedAndNamed) {
  const auto store = Open();
  JobRecord large = PlainJob("large", 1);
  large.spec = std::string(2'000'000, 's');
  const absl::Status status = store->Commit({PlainJob("small", 2), large});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("jobs/large has 2000"));
  EXPECT_THAT(store->Load()->jobs, IsEmpty());
  EXPECT_TRUE(store->Commit({PlainJob("small", 1)}).ok());
}

// As a leader leaves it that dies after the moment at which all is stored.
TEST_F(EtcdStoreTest, TheNextLeaderCarriesOutTheRestOfACommit) {
  Open();
  EtcdWrites first, second;
  first[prefix_ + "workers/w"] = EncodeRow("workers", ColumnsOf(FullWorker("w")));
  second[prefix_ + "jobs/j"] = EncodeRow("jobs", ColumnsOf(PlainJob("j", 1)));
  Write("parts/c/0", EncodePart(first));
  Write("parts/c/1", EncodePart(second));
  Write("commit", EncodeRow("commit", ColumnsOf(CommitRow{.id = "c", .parts = 2})));
  const auto store = Open();
  ASSERT_TRUE(store->status.ok()) << store->status;
  EXPECT_THAT(store->Load()->jobs, ElementsAre(PlainJob("j", 1)));
  EXPECT_THAT(store->Load()->workers, ElementsAre(FullWorker("w")));
  EXPECT_THAT(KeysUnder("parts/"), IsEmpty());
}

// And before it.
TEST_F(EtcdStoreTest, PartsOfACommitThatWasNeverCompletedAreNothing) {
  Open();
  EtcdWrites part;
  part[prefix_ + "jobs/j"] = EncodeRow("jobs", ColumnsOf(PlainJob("j", 1)));
  Write("parts/c/0", EncodePart(part));
  const auto store = Open({.max_operations = 10});
  EXPECT_THAT(store->Load()->jobs, IsEmpty());
  ASSERT_TRUE(store->Commit(Workers(30)).ok());
  EXPECT_THAT(KeysUnder("parts/"), IsEmpty());
}

TEST_F(EtcdStoreTest, AnEarlierLeaderStoresNothing) {
  const auto earlier = Open();
  ASSERT_TRUE(earlier->Commit({PlainJob("j", 1)}).ok());
  EndLease(Endpoint(), prefix_);
  const auto later = Open();
  ASSERT_TRUE(later->status.ok()) << later->status;
  const absl::Status refused = earlier->Commit({PlainJob("k", 2)});
  EXPECT_EQ(refused.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(refused.message(), absl::StrCat("this coordinator no longer leads under ", prefix_,
                                            " of etcd at ", Endpoint()));
  EXPECT_THAT(earlier->losses.All(), ElementsAre(EndsWith("the leader is a:1")));
  EXPECT_THAT(later->Load()->jobs, ElementsAre(PlainJob("j", 1)));
  EXPECT_TRUE(later->Commit({PlainJob("k", 2)}).ok());
}

TEST_F(EtcdStoreTest, AnEarlierLeaderStoresNoLargeCommitEither) {
  const auto earlier = Open({.max_operations = 10});
  EndLease(Endpoint(), prefix_);
  const auto later = Open();
  EXPECT_EQ(earlier->Commit(Workers(30)).code(), absl::StatusCode::kAborted);
  EXPECT_THAT(later->Load()->workers, IsEmpty());
}

// ---- answers that are lost

class EtcdFaultTest : public EtcdStoreTest {
 protected:
  void SetUp() override {
    EtcdStoreTest::SetUp();
    if (IsSkipped()) return;
    proxy_ = std::make_unique<EtcdProxy>(Endpoint());
    store_ = std::make_unique<EtcdSubject>(
        proxy_->endpoint(),
        EtcdStoreOptions{.prefix = prefix_, .commit_within = absl::Milliseconds(200)});
    ASSERT_TRUE(store_->status.ok()) << store_->status;
  }
  static constexpr int kAll = 1'000'000;
  std::unique_ptr<EtcdProxy> proxy_;
  std::unique_ptr<EtcdSubject> store_;
};

TEST_F(EtcdFaultTest, ACommitWhoseAnswerIsLostIsFoundToBeStored) {
  const int before = proxy_->transactions();
  proxy_->Fail(EtcdProxy::Fault::kAnswerLost, 1);
  EXPECT_EQ(store_->Commit({PlainJob("j", 1)}), absl::OkStatus());
  EXPECT_EQ(proxy_->transactions(), before + 2);
  EXPECT_THAT(store_->Load()->jobs, ElementsAre(PlainJob("j", 1)));
  EXPECT_EQ(store_->Commit({PlainJob("k", 2)}), absl::OkStatus());
}

TEST_F(EtcdFaultTest, ACommitThatIsLostOnTheWayIsSentAgain) {
  proxy_->Fail(EtcdProxy::Fault::kRequestLost, 2);
  EXPECT_EQ(store_->Commit({PlainJob("j", 1)}), absl::OkStatus());
  EXPECT_THAT(store_->Load()->jobs, SizeIs(1));
}

TEST_F(EtcdFaultTest, AnOutcomeThatStaysUnknownIsFoundOutBeforeTheNextCommit) {
  proxy_->Fail(EtcdProxy::Fault::kAnswerLost, kAll);
  const absl::Status unknown = store_->Commit({PlainJob("j", 1), EpochRecord{Epoch(5)}});
  EXPECT_EQ(unknown.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("no answer within 200ms"));
  proxy_->Fail(EtcdProxy::Fault::kNone, 0);
  JobRecord same_uid = PlainJob("k", 2);
  same_uid.uid = "uid-j";
  EXPECT_EQ(store_->Commit({same_uid}).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->Commit({EpochRecord{Epoch(4)}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->Commit({PlainJob("k", 2)}), absl::OkStatus());
  EXPECT_THAT(store_->Load()->jobs, SizeIs(2));
}

TEST_F(EtcdFaultTest, ACommitThatNeverArrivedLeavesNothing) {
  proxy_->Fail(EtcdProxy::Fault::kRequestLost, kAll);
  EXPECT_EQ(store_->Commit({PlainJob("j", 1), EpochRecord{Epoch(5)}}).code(),
            absl::StatusCode::kUnavailable);
  proxy_->Fail(EtcdProxy::Fault::kNone, 0);
  JobRecord same_uid = PlainJob("k", 1);
  same_uid.uid = "uid-j";
  EXPECT_EQ(store_->Commit({same_uid, EpochRecord{Epoch(4)}}), absl::OkStatus());
  EXPECT_THAT(store_->Load()->jobs, ElementsAre(same_uid));
}

// etcd carries out late what was given up: it must not come on top of what was stored since.
TEST_F(EtcdFaultTest, ACommitThatArrivesLateIsRefused) {
  proxy_->Fail(EtcdProxy::Fault::kRequestLost, kAll);
  proxy_->KeepLost();
  EXPECT_FALSE(store_->Commit({PlainJob("j", 1)}).ok());
  proxy_->Fail(EtcdProxy::Fault::kNone, 0);
  ASSERT_EQ(store_->Commit({PlainJob("k", 2)}), absl::OkStatus());
  EXPECT_FALSE(proxy_->SendLost());
  EXPECT_THAT(store_->Load()->jobs, ElementsAre(PlainJob("k", 2)));
}

// ---- contents

TEST_F(EtcdStoreTest, NewerSchemaIsRefusedNamingBothVersions) {
  Open();
  Write("schema", EncodeRow("schema", {int64_t{99}}));
  EXPECT_EQ(Open()->status, absl::FailedPreconditionError(
                                absl::StrCat(prefix_, " of etcd at ", Endpoint(),
                                             " has schema version 99; this build knows "
                                             "version ",
                                             SchemaVersion(), ". Use a newer coordinator")));
}

TEST_F(EtcdStoreTest, AnotherClustersPrefixIsRefusedNamingBoth) {
  const std::string id = IdOf(*Open());
  const absl::Status status = Open({.cluster_id = "mine"})->status;
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("belongs to cluster ", id,
                                     "; this coordinator belongs to cluster mine")));
  EXPECT_TRUE(Open({.cluster_id = id})->status.ok());
}

TEST_F(EtcdStoreTest, AnEmptyPrefixIsNoNewClusterForWhoHasOne) {
  const absl::Status status = Open({.cluster_id = "mine"})->status;
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("found no cluster, expected mine"));
  EXPECT_THAT(KeysUnder("schema"), IsEmpty());
}

TEST_F(EtcdStoreTest, MissingKeysAreDataLoss) {
  for (const std::string key : {"schema", "cluster", "epoch", "commit"}) {
    Open();
    Write(key, std::nullopt);
    const absl::Status status = Open()->status;
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << key;
    EXPECT_THAT(std::string(status.message()), HasSubstr(key));
    client_
        ->Commit({.compares = {}, .writes = {{.key = prefix_, .prefix = true}}, .reads = {}},
                 kEtcdCall)
        .IgnoreError();
  }
}

TEST_F(EtcdStoreTest, ADamagedRecordIsDataLossNamingIt) {
  ASSERT_TRUE(Open()->Commit({PlainJob("j", 1), FullWorker("w")}).ok());
  std::string row = client_->Range({.key = prefix_ + "jobs/j"}, kEtcdCall)->values[0].value;
  row[row.size() / 2] ^= 1;
  Write("jobs/j", row);
  const absl::Status status = Open()->status;
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("key ", prefix_, "jobs/j in etcd is damaged: ")));
}

TEST_F(EtcdStoreTest, ARecordUnderAnothersKeyIsDataLoss) {
  Open();
  Write("jobs/k", EncodeRow("jobs", ColumnsOf(PlainJob("j", 1))));
  EXPECT_THAT(std::string(Open()->status.message()), HasSubstr("found the record of \"j\""));
}

TEST_F(EtcdStoreTest, OldValuesAreDropped) {
  const auto store = Open({.commits_per_compaction = 3});
  const int64_t then = client_->Range({.key = prefix_}, kEtcdCall)->revision;
  for (int64_t i = 1; i <= 6; ++i) ASSERT_TRUE(store->Commit({EpochRecord{Epoch(i)}}).ok());
  EXPECT_EQ(client_->Range({.key = prefix_, .revision = then}, kEtcdCall).status().code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(store->Load()->epoch.last, Epoch(6));
}

TEST_F(EtcdStoreTest, AFullEtcdIsResourceExhaustedAndTheStoreGoesOn) {
  EtcdServer small(prefix_, {"--quota-backend-bytes=1000000"});
  EtcdSubject store(small.endpoint(), {.prefix = "/full/"});
  ASSERT_TRUE(store.status.ok()) << store.status;
  JobRecord large = PlainJob("large", 1);
  large.spec = std::string(300'000, 's');
  absl::Status status;
  // etcd notices it with its next write to disk.
  for (int i = 0; i < 1000 && status.ok(); ++i) status = store.Commit({large});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            absl::StrCat("etcd at ", small.endpoint(),
                         ": etcdserver: mvcc: database space exceeded. Nothing new is accepted "
                         "until it has room; jobs that run continue"));
  EXPECT_TRUE(store.leadership->Held());
  EXPECT_THAT(store.Load()->jobs, SizeIs(1));
  if (::access("/usr/bin/etcdctl", X_OK) != 0) {
    GTEST_SKIP() << "skipped: no /usr/bin/etcdctl (Debian package etcd-client) to make room";
  }
  // As RUN.md says.
  const int64_t now = store.client->Range({.key = "/full/"}, kEtcdCall)->revision;
  ASSERT_TRUE(store.client->Compact(now, kEtcdCall).ok());
  for (const char* command : {"defrag", "alarm disarm"}) {
    ASSERT_EQ(std::system(absl::StrCat("ETCDCTL_API=3 etcdctl --endpoints ", small.endpoint(), " ",
                                       command, " > /dev/null 2>&1")
                              .c_str()),
              0)
        << command;
  }
  EXPECT_EQ(store.Commit({PlainJob("more", 2)}), absl::OkStatus());
}

// ---- leadership

TEST_F(EtcdStoreTest, OneLeadsAndTheOtherLearnsItsAddress) {
  const auto first = Open();
  const auto other =
      TryToLead(*client_, {.prefix = prefix_, .address = "b:2"}, Leadership::LeaseClock(), {});
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->won, nullptr);
  EXPECT_EQ(other->leader, "a:1");
}

TEST_F(EtcdStoreTest, ALeaderThatEndsLeavesTheLeadershipAtOnce) {
  Open();
  EXPECT_THAT(KeysUnder("leader"), IsEmpty());
}

TEST_F(EtcdStoreTest, ALeaderStopsByItsOwnClock) {
  FakeClock clock;
  EtcdSubject store(Endpoint(), {.prefix = prefix_}, clock);
  clock.Advance(absl::Seconds(5));
  EXPECT_FALSE(store.leadership->Held());
  EXPECT_EQ(store.Commit({PlainJob("j", 1)}).code(), absl::StatusCode::kAborted);
  EXPECT_THAT(store.losses.All(), ElementsAre(EndsWith("no renewal of its lease of 4s in time")));
  EXPECT_THAT(store.Load()->jobs, IsEmpty());
}

TEST_F(EtcdStoreTest, ALeaderWithoutEtcdStops) {
  EtcdServer mortal(prefix_);
  EtcdSubject store(mortal.endpoint(), {.prefix = "/mortal/"});
  ASSERT_TRUE(store.status.ok()) << store.status;
  mortal.Kill();
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (store.losses.All().empty() && absl::Now() < deadline)
    absl::SleepFor(absl::Milliseconds(5));
  EXPECT_THAT(store.losses.All(), SizeIs(1));
  EXPECT_EQ(store.Commit({PlainJob("j", 1)}).code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace stretto::coordinator
