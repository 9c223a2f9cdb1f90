// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every bound on what others may send or hold, in one table: the code takes its numbers from here,
// and docs/reference/limits.md is what the table says. A new limit takes an entry here, in
// node_limits.h or in http_limits.h, an entry of kAllLimits, and a test that crosses it, which the
// entry names.

#include <cstdint>

#include "proto/base/http_limits.h"
#include "proto/base/limit.h"
#include "proto/base/node_limits.h"

namespace stretto {
namespace limits {

// ---- requests of users
inline constexpr Limit kSpecBytes{
    "job spec",         int64_t{256} << 10,   kBytes,
    "--max-spec-bytes", "the job is refused", "LimitsTest.ASpecIsRefusedAboveItsBound"};
inline constexpr Limit kUserStreams{"open streams of users: watches, logs, traces",
                                    2'000,
                                    kCount,
                                    "--max-streams",
                                    "the stream is refused",
                                    "LimitsTest.StreamsAreBoundedAndAnEndedOneMakesRoom"};
inline constexpr Limit kStreamsOfUser{"open streams of one user, or without TLS of one machine",
                                      500,
                                      kCount,
                                      "--max-streams-of-user",
                                      "the stream is refused",
                                      "LimitsTest.StreamsOfOneUserAreBounded"};
inline constexpr Limit kWaitingJobs{"jobs of all projects that wait",
                                    20'000,
                                    kCount,
                                    "--max-waiting-jobs",
                                    "the job is refused",
                                    "QueueServiceTest.JobsThatWaitAreBoundedInAll"};
inline constexpr Limit kWaitingSpecBytes{"specs of the jobs that wait, together",
                                         int64_t{256} << 20,
                                         kBytes,
                                         "--max-waiting-spec-bytes",
                                         "the job is refused",
                                         "QueueServiceTest.SpecsOfJobsThatWaitAreBounded"};
inline constexpr Limit kQuotaDevices{
    "slots that the jobs of a project hold",
    0,
    kCount,
    "--quota",
    "a job that needs more waits, or is refused if it always would",
    "QuotaTest.FreedDevicesGoToTheFirstJobOfTheProject"};
inline constexpr Limit kQuotaQueued{"jobs of a project that wait",
                                    0,
                                    kCount,
                                    "--quota",
                                    "the job is refused",
                                    "QueueServiceTest.QuotaIsRefusedWithItsOwnReason"};

inline constexpr Limit kRequestIdBytes{
    "request_id of a new job",        128, kBytes, "", "the job is refused",
    "LimitsTest.RequestIdsAreBounded"};
inline constexpr Limit kTokenBytes{"token of a user",
                                   int64_t{4} << 10,
                                   kBytes,
                                   "",
                                   "the call is refused",
                                   "TokenTest.ALongTokenIsRefusedUnread"};
inline constexpr Limit kPageEntries{"entries of a page of a list",
                                    1'000,
                                    kCount,
                                    "",
                                    "the page has that many",
                                    "ValidateRequest.RefusesBadNamesAndSizes"};
inline constexpr Limit kPageBytes{"page of a list of jobs",
                                  int64_t{2} << 20,
                                  kBytes,
                                  "",
                                  "the page ends with the job that crosses it",
                                  "LimitsTest.APageOfLongJobsEndsEarly"};
inline constexpr Limit kCordonReasonBytes{
    "reason of a cordon",
    200,
    kBytes,
    "",
    "the call is refused",
    "RestartServiceTest.CordonedWorkerShowsWhyAndTakesNothing"};
inline constexpr Limit kBlendParts{"data sets of a blend",
                                   1'024,
                                   kCount,
                                   "",
                                   "the job is refused",
                                   "RefusalsTest.ABlendHasAtMost1024Parts"};
inline constexpr Limit kJobLabels{
    "labels of a job, and of a query", 64, kCount, "", "the call is refused",
    "LabelsTest.AJobHasAtMost64"};
inline constexpr Limit kLabelNameBytes{"name of a label, and its value",
                                       63,
                                       kBytes,
                                       "",
                                       "the call is refused",
                                       "LabelsTest.NamesAndValuesHaveAtMost63Characters"};
inline constexpr Limit kLabelPrefixBytes{"prefix of a label's name",
                                         253,
                                         kBytes,
                                         "",
                                         "the call is refused",
                                         "LabelsTest.PrefixesHaveAtMost253Characters"};
inline constexpr Limit kTailLines{
    "newest lines of a log that are asked for", 100'000, kCount, "", "the call is refused",
    "LineFilterTest.SelectionsAreBounded"};
inline constexpr Limit kGrepBytes{
    "regular expression for lines of a log", 1'000, kBytes, "", "the call is refused",
    "LineFilterTest.SelectionsAreBounded"};
inline constexpr Limit kYamlBytes{
    "file that describes a job",        int64_t{1} << 20, kBytes, "", "`stretto` refuses it",
    "ParseJobFileTest.RefusesHugeFiles"};
inline constexpr Limit kYamlDepth{
    "nesting of such a file; the limit is yaml-cpp's",   500, kCount, "", "`stretto` refuses it",
    "ParseJobFileTest.RefusesDeepNestingWithoutOverflow"};
inline constexpr Limit kEndedJobs{"ended jobs that are kept",
                                  1'000,
                                  kCount,
                                  "--keep-jobs",
                                  "those that ended first are retired",
                                  "RetiredJobsTest.OnlyTheNewestEndedJobsAreKeptWhole"};
inline constexpr Limit kRetiredJobs{"retired jobs, of which about 1 KB is kept",
                                    10'000,
                                    kCount,
                                    "--keep-retired-jobs",
                                    "those that were created first are deleted",
                                    "RetiredJobsTest.TheirNumberIsBounded"};
inline constexpr Limit kStreamsPerConnection{
    "calls that are open on one connection",  1'000, kCount, "", "further calls wait in the client",
    "LimitsTest.CallsOfAConnectionAreBounded"};
inline constexpr Limit kLogReaderBytes{"bytes of a log that wait for one reader",
                                       int64_t{16} << 20,
                                       kBytes,
                                       "",
                                       "the stream ends",
                                       "WorkerServiceTest.SlowLogReaderIsCutOffAtItsBound"};

// ---- connections to the coordinator
inline constexpr Limit kConnections{"connections in all",
                                    8'192,
                                    kCount,
                                    "--max-connections",
                                    "further ones are closed and counted",
                                    "FrontTest.ConnectionsAreBoundedInAllAndByMachine"};
inline constexpr Limit kConnectionsOfMachine{
    "connections of one machine: an IPv4 address, or 64 bits of IPv6",
    2'048,
    kCount,
    "--max-connections-of-machine",
    "further ones are closed and counted",
    "FrontTest.ConnectionsAreBoundedInAllAndByMachine"};
inline constexpr Limit kMemoryBytes{
    "resident memory of the coordinator, while it grows",
    int64_t{512} << 20,
    kBytes,
    "--max-memory-bytes",
    "from three quarters of it on, the connection that sends most is closed and counted",
    "MemoryGuardTest.WhoeverSendsMostIsClosedWhileMemoryGrows"};
inline constexpr Limit kUnreadBytes{
    "bytes of a connection that wait to be read, for 250 ms of a busy coordinator",
    int64_t{128} << 10,
    kBytes,
    "",
    "the connection is closed and counted",
    "MemoryGuardTest.WhoeverSendsFasterThanItIsReadIsClosedWhateverMemoryThereIs"};
inline constexpr Limit kHandshakeSeconds{
    "handshake of a connection: TLS and the first frames of HTTP/2",
    10,
    kSeconds,
    "",
    "the connection is closed",
    "FrontServiceTest.ConnectionsThatDoNotShakeHandsAreClosed"};
inline constexpr Limit kUnpausedMilliseconds{
    "CPU time of a connection that sends without a pause from its beginning",
    30,
    kMilliseconds,
    "",
    "the connection is closed, and others are let in",
    "FrontTest.WhoSendsWithoutAPauseKeepsNobodyOut"};
inline constexpr Limit kIdleSeconds{"connection without a call",
                                    300,
                                    kSeconds,
                                    "",
                                    "the connection is closed; clients open another",
                                    "FrontServiceTest.IdleConnectionsAreClosed"};
inline constexpr Limit kAgeSeconds{"age of a connection",
                                   86'400,
                                   kSeconds,
                                   "",
                                   "new calls take another one; open ones end after 600 s more",
                                   "FrontServiceTest.ACallWhoseMessageNeverEndsIsClosed"};
inline constexpr Limit kMetadataBytes{"headers of a call",
                                      int64_t{8} << 10,
                                      kBytes,
                                      "",
                                      "the call is refused, and gRPC closes its connection",
                                      "FrontServiceTest.HeadersOfACallAreBounded"};

// ---- messages
// gRPC's own default, said on every hop so that no two differ.
inline constexpr Limit kMessageBytes{
    "message between daemons, and request of a user",
    int64_t{4} << 20,
    kBytes,
    "",
    "the call ends; a job whose assignment is longer fails",
    "LimitsTest.AnAssignmentThatAWorkerCannotTakeFailsItsJobAlone"};
// No message of ours contains itself, so only fields that nobody knows can be nested as deep.
inline constexpr Limit kMessageDepth{
    "nesting of a message; the limit is Protobuf's",  100, kCount, "", "the call is refused",
    "LimitsTest.AMessageThatIsNestedTooDeepIsRefused"};
inline constexpr Limit kJsonDepth{
    "nesting of JSON in files of models and checkpoints", 32, kCount, "", "the file is refused",
    "SafetensorsTest.MalformedHeadersAreRefused"};

// ---- audit log
inline constexpr Limit kAuditBytes{"audit log",
                                   int64_t{64} << 20,
                                   kBytes,
                                   "--max-audit-bytes",
                                   "a new one begins; four older ones are kept",
                                   "AuditLogTest.ANewFileBeginsAtTheBoundAndFourOlderOnesAreKept"};

// So that nobody who may change nothing can rotate out what others have changed.
inline constexpr Limit kAuditRefused{
    "refused calls of one caller in the audit log at once",
    100,
    kCount,
    "",
    "one each second is written, with the number of those left out",
    "AuditLogTest.AFloodOfRefusedCallsLeavesRoomForOthers"};

// ---- histories
inline constexpr Limit kHistorySteps{"steps of a job in the coordinator's memory",
                                     200'000,
                                     kCount,
                                     "",
                                     "the oldest are forgotten",
                                     "JobHistoryTest.OldStepsAreForgottenByNumberAndBySize"};
inline constexpr Limit kHistoryBytes{"steps of a job in the coordinator's memory",
                                     int64_t{128} << 20,
                                     kBytes,
                                     "",
                                     "the oldest are forgotten",
                                     "JobHistoryTest.OldStepsAreForgottenByNumberAndBySize"};
inline constexpr Limit kHistorySamples{"steps of which a job keeps sampled texts",
                                       4,
                                       kCount,
                                       "",
                                       "the oldest are forgotten",
                                       "JobHistoryTest.TheNewestSamplesAreKeptAlsoWithTheSummary"};
inline constexpr Limit kHistorySampleBytes{
    "sampled texts of a job",
    int64_t{64} << 10,
    kBytes,
    "",
    "the oldest are forgotten",
    "JobHistoryTest.TheNewestSamplesAreKeptAlsoWithTheSummary"};

// ---- rendezvous
inline constexpr Limit kStoreKeyBytes{"key of the rendezvous of ranks",
                                      512,
                                      kBytes,
                                      "",
                                      "the call is refused",
                                      "WorkerServiceTest.RendezvousIsWriteOnceAndWaits"};
inline constexpr Limit kStoreValueBytes{"value of the rendezvous of ranks",
                                        int64_t{1} << 20,
                                        kBytes,
                                        "",
                                        "the call is refused",
                                        "WorkerServiceTest.RendezvousIsWriteOnceAndWaits"};

inline constexpr Limit kInspectionSeconds{"answer of a worker about a new job",
                                          6,
                                          kSeconds,
                                          "",
                                          "the dry run reports that nobody has looked",
                                          "InspectionsTest.AWorkerThatDoesNotAnswerIsNotWaitedFor"};

}  // namespace limits

inline constexpr const Limit* kAllLimits[] = {
    &limits::kSpecBytes,
    &limits::kUserStreams,
    &limits::kStreamsOfUser,
    &limits::kWaitingJobs,
    &limits::kWaitingSpecBytes,
    &limits::kQuotaDevices,
    &limits::kQuotaQueued,
    &limits::kRequestIdBytes,
    &limits::kTokenBytes,
    &limits::kPageEntries,
    &limits::kPageBytes,
    &limits::kCordonReasonBytes,
    &limits::kBlendParts,
    &limits::kJobLabels,
    &limits::kLabelNameBytes,
    &limits::kLabelPrefixBytes,
    &limits::kTailLines,
    &limits::kGrepBytes,
    &limits::kYamlBytes,
    &limits::kYamlDepth,
    &limits::kEndedJobs,
    &limits::kRetiredJobs,
    &limits::kStreamsPerConnection,
    &limits::kLogReaderBytes,
    &limits::kConnections,
    &limits::kConnectionsOfMachine,
    &limits::kMemoryBytes,
    &limits::kUnreadBytes,
    &limits::kHandshakeSeconds,
    &limits::kUnpausedMilliseconds,
    &limits::kIdleSeconds,
    &limits::kAgeSeconds,
    &limits::kMetadataBytes,
    &limits::kMessageBytes,
    &limits::kMessageDepth,
    &limits::kJsonDepth,
    &limits::kWorkerNameBytes,
    &limits::kWorkerTextBytes,
    &limits::kWorkerListEntries,
    &limits::kWorkerSlots,
    &limits::kHeldRanks,
    &limits::kLedgerEntries,
    &limits::kTraceEntries,
    &limits::kLogChunkBytes,
    &limits::kTraceRecordBytes,
    &limits::kRegisterSeconds,
    &limits::kSessionMessages,
    &limits::kTraceCredit,
    &limits::kStoreAttemptBytes,
    &limits::kProbedSlots,
    &limits::kTrainerThreads,
    &limits::kTrainerFiles,
    &limits::kTrainerMemory,
    &limits::kReportLogBytes,
    &limits::kTrainerLogBytes,
    &limits::kAuditBytes,
    &limits::kAuditRefused,
    &limits::kHistorySteps,
    &limits::kHistoryBytes,
    &limits::kHistorySamples,
    &limits::kHistorySampleBytes,
    &limits::kStoreKeyBytes,
    &limits::kStoreValueBytes,
    &limits::kInspectionSeconds,
    &limits::kMeetingHandshake,
    &limits::kMeetingVisitors,
    &limits::kHttpSeconds,
    &limits::kHttpHeaderBytes,
    &limits::kHttpClients,
    &limits::kScrapes,
    &limits::kPageRequests,
    &limits::kPageSeconds,
    &limits::kPageCurveSteps,
    &limits::kPageRanks,
    &limits::kPageTraceBytes,
};

}  // namespace stretto
