// SPDX-License-Identifier: Apache-2.0

// What the page of the metrics port answers, from a real coordinator with scripted workers.
#include "coordinator/page/page.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>

#include "absl/strings/str_replace.h"
#include "coordinator/page/files.h"
#include "proto/base/limits.h"
#include "tests/coordinator/cli/trace/records.h"
#include "tests/coordinator/service/harness.h"

namespace stretto::page {
namespace {

using Json = nlohmann::json;
using monitoring::Answer;
using service::FakeWorker;
using service::ServiceTest;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using v1alpha1::LogRequest;
using v1alpha1::WorkerMessage;

class PageTest : public ServiceTest {
 protected:
  PageTest() { page_.Show(server_->reader()); }

  Answer Get(const std::string& path, const std::string& query = "",
             const std::string& host = "127.0.0.1:9090") {
    return page_.Get({.path = path, .query = query, .host = host});
  }
  std::future<Answer> GetLater(const std::string& path, const std::string& query = "") {
    return std::async(std::launch::async, [this, path, query] { return Get(path, query); });
  }
  Json GetJson(const std::string& path, const std::string& query = "") {
    const Answer answer = Get(path, query);
    EXPECT_EQ(answer.code, 200) << answer.body;
    EXPECT_EQ(answer.type, "application/json; charset=utf-8");
    return Json::parse(answer.body);
  }
  void ExpectRefused(const Answer& answer, int code, const std::vector<std::string>& facts) {
    EXPECT_EQ(answer.code, code) << answer.body;
    EXPECT_EQ(answer.type, "text/plain; charset=utf-8");
    EXPECT_THAT(answer.headers, HasSubstr("Content-Security-Policy: default-src 'none'"));
    golden_.Add(answer.body, facts);
  }

  // The next trace that the coordinator asks of a worker.
  static LogRequest AskedTrace(FakeWorker& worker) {
    LogRequest request;
    while (!request.has_trace()) request = worker.Next().log_request();
    return request;
  }
  static void SendRecord(FakeWorker& worker, int64_t stream, const v1alpha1::TraceRecord& record) {
    WorkerMessage message;
    message.mutable_log_data()->set_stream(stream);
    *message.mutable_log_data()->mutable_record() = record;
    worker.Write(message);
  }
  static void SendEnd(FakeWorker& worker, int64_t stream) {
    WorkerMessage message;
    message.mutable_log_data()->set_stream(stream);
    message.mutable_log_data()->set_end(true);
    worker.Write(message);
  }
  // Answers with steps that wait for checkpoints, but for `plain`.
  static void SendSteps(FakeWorker& worker, const LogRequest& asked, int64_t plain) {
    v1alpha1::TraceRecord record;
    *record.mutable_program() = cli::MakeProgram();
    SendRecord(worker, asked.stream(), record);
    for (int64_t step = asked.trace().first_step(); step <= asked.trace().last_step(); ++step) {
      *record.mutable_step() = cli::MakeStep(step);
      if (step == plain) record.mutable_step()->clear_checkpoint_waits();
      SendRecord(worker, asked.stream(), record);
    }
    SendEnd(worker, asked.stream());
  }

  Page page_{absl::OkStatus()};
};

TEST_F(PageTest, FilesAreConfinedAndNeedNothingElse) {
  const Answer index = Get("/");
  EXPECT_EQ(index.code, 200);
  EXPECT_EQ(index.type, "text/html; charset=utf-8");
  EXPECT_THAT(index.body, StartsWith("<!doctype html>"));
  for (const char* header :
       {"Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; ",
        "frame-ancestors 'none'\r\n", "X-Content-Type-Options: nosniff\r\n",
        "Cross-Origin-Resource-Policy: same-origin\r\n", "Referrer-Policy: no-referrer\r\n"}) {
    EXPECT_THAT(index.headers, HasSubstr(header));
  }
  EXPECT_GT(Files().size(), 5u);
  for (const File& file : Files()) {
    EXPECT_EQ(Get(file.path).body, file.content) << file.path;
    const std::string text =
        absl::StrReplaceAll(file.content, {{"http://www.w3.org/2000/svg", ""}});
    for (const char* danger : {"http://", "https://", "//cdn", "innerHTML", "outerHTML",
                               "insertAdjacent", "document.write", "eval(", "Function(",
                               "onclick=", "style=\"", "<style", "<script>", "javascript:"}) {
      EXPECT_THAT(text, Not(HasSubstr(danger))) << file.path;
    }
    // What a file imports or names is there.
    for (const char* quote : {"from \"./", "src=\"/", "href=\"/"}) {
      for (size_t at = text.find(quote); at != std::string::npos; at = text.find(quote, at + 1)) {
        const size_t begin = text.find('/', at);
        const std::string named = text.substr(begin, text.find('"', begin) - begin);
        EXPECT_EQ(Get(named).code, 200) << file.path << " names " << named;
      }
    }
  }
}

TEST_F(PageTest, ColoursAreThoseOfThePalette) {
  const Answer palette = Get("/palette.css");
  EXPECT_EQ(palette.type, "text/css; charset=utf-8");
  EXPECT_THAT(palette.body, HasSubstr("--exposed: #c2412d;"));
  EXPECT_THAT(palette.body, HasSubstr("@media (prefers-color-scheme: dark)"));
  const std::string css = Get("/page.css").body;
  EXPECT_THAT(css, HasSubstr("var(--exposed)"));
  for (size_t at = css.find('#'); at != std::string::npos; at = css.find('#', at + 1)) {
    const bool color = css.find_first_not_of("0123456789abcdefABCDEF", at + 1) > at + 3;
    EXPECT_FALSE(color) << "not of the palette: " << css.substr(at, 7);
  }
}

TEST_F(PageTest, JobsAreListedInPagesOfTheApi) {
  EXPECT_EQ(GetJson("/api/jobs"), Json::object());
  for (int i = 0; i < 51; ++i) MustCreate(absl::StrCat("gpt-", i));
  const Json first = GetJson("/api/jobs");
  ASSERT_EQ(first["jobs"].size(), 50u);
  EXPECT_EQ(first["jobs"][0]["name"], "jobs/gpt-50");
  EXPECT_EQ(first["jobs"][0]["state"], "PENDING");
  EXPECT_EQ(first["jobs"][0]["spec"]["model"]["preset"], "gpt-tiny");
  EXPECT_EQ(first["jobs"][0]["owner"], "local");
  const std::string token = first["next_page_token"];
  const Json second = GetJson("/api/jobs", "page_token=" + token);
  ASSERT_EQ(second["jobs"].size(), 1u);
  EXPECT_EQ(second["jobs"][0]["name"], "jobs/gpt-0");
}

TEST_F(PageTest, AJobHasWhatTheApiSaysOfIt) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt");
  worker.RunToTheEnd(worker.Assigned());
  const Json whole = GetJson("/api/jobs/gpt");
  EXPECT_EQ(whole["ranks"], 2);
  const Json& job = whole["job"];
  EXPECT_EQ(job["state"], "SUCCEEDED");
  EXPECT_EQ(job["progress"]["steps"], "3");
  EXPECT_EQ(job["progress"]["last_loss"], 7);
  ASSERT_EQ(job["progress"]["rank_ledgers"].size(), 2u);
  EXPECT_EQ(job["progress"]["rank_ledgers"][1]["entries"][0]["part"], "COMPUTE_ALONE");
  EXPECT_EQ(job["placement"][1]["worker"], "workers/w0");
  EXPECT_FALSE(job["conditions"].empty());
  // The list has no ranks.
  const Json listed = GetJson("/api/jobs")["jobs"][0];
  EXPECT_FALSE(listed.contains("placement"));
  EXPECT_FALSE(listed["progress"].contains("rank_ledgers"));
  EXPECT_EQ(listed["progress"]["ledger"]["steps"], "3");

  const Json steps = GetJson("/api/jobs/gpt/steps");
  ASSERT_EQ(steps["curve"].size(), 3u);
  EXPECT_EQ(steps["curve"][2]["step"], "3");
  EXPECT_EQ(steps["curve"][2]["loss"], 7);
  EXPECT_FALSE(steps["curve"][2].contains("ledger"));
  EXPECT_EQ(steps["newest"][0]["ledger"]["entries"][0]["seconds"], 0.5);

  EXPECT_EQ(GetJson("/api/jobs/gpt/events")["events"][0]["reason"], "Created");
  const Json workers = GetJson("/api/workers")["workers"];
  ASSERT_EQ(workers.size(), 1u);
  EXPECT_EQ(workers[0]["free_slots"], 2);
}

TEST_F(PageTest, TextOfAWorkerIsDataAndNeverMarkup) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt");
  const v1alpha1::Assign assign = worker.Assigned();
  for (int rank : {0, 1}) {
    WorkerMessage message = FakeWorker::Report(assign, rank, 1);
    auto* exit = message.mutable_report()->mutable_exit();
    exit->set_exit_code(1);
    exit->set_reason("DataInvalid");
    exit->set_message("</script><img src=x onerror=alert(1)>\" '\\");
    worker.Write(message);
    worker.AwaitAck(rank, 1);
  }
  const Answer answer = Get("/api/jobs/gpt");
  EXPECT_THAT(answer.headers, HasSubstr("X-Content-Type-Options: nosniff\r\n"));
  EXPECT_THAT(answer.body, Not(HasSubstr("<img")));
  EXPECT_EQ(Json::parse(answer.body)["job"]["first_failure"]["message"],
            "exited with code 1: </script><img src=x onerror=alert(1)>\" '\\");
}

TEST_F(PageTest, RanksBeyondTheBoundAreCounted) {
  const int ranks = static_cast<int>(limits::kPageRanks.value) + 16;
  FakeWorker worker(*workers_, "w0");
  for (int slot = 2; slot < ranks; ++slot) {
    worker.hello().add_devices()->set_slot(slot);
    worker.hello().mutable_devices(slot)->set_kind(v1alpha1::DEVICE_CPU);
  }
  worker.Register();
  v1alpha1::CreateJobRequest request = Request("gpt");
  request.mutable_job()->mutable_spec()->mutable_parallelism()->set_dp_size(ranks / 2);
  v1alpha1::Job job;
  const grpc::Status created = Create(request, &job);
  ASSERT_TRUE(created.ok()) << created.error_message();
  worker.Assigned();
  const Json shown = GetJson("/api/jobs/gpt");
  EXPECT_EQ(shown["ranks"], ranks);
  EXPECT_EQ(shown["job"]["placement"].size(), static_cast<size_t>(limits::kPageRanks.value));
}

TEST_F(PageTest, ATimelineIsOfAPlainStep) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt");
  worker.RunToTheEnd(worker.Assigned());
  std::future<Answer> drawn = GetLater("/api/jobs/gpt/timeline.svg");
  LogRequest asked = AskedTrace(worker);
  EXPECT_EQ(asked.rank(), 0);
  EXPECT_EQ(asked.trace().first_step(), 1);
  EXPECT_EQ(asked.trace().last_step(), 3);
  SendSteps(worker, asked, /*plain=*/2);
  for (int rank : {0, 1}) {
    asked = AskedTrace(worker);
    EXPECT_EQ(asked.rank(), rank);
    EXPECT_EQ(asked.trace().first_step(), 2);
    EXPECT_EQ(asked.trace().last_step(), 2);
    SendSteps(worker, asked, 2);
  }
  const Answer answer = drawn.get();
  EXPECT_EQ(answer.code, 200) << answer.body;
  EXPECT_EQ(answer.type, "image/svg+xml; charset=utf-8");
  EXPECT_THAT(answer.headers, HasSubstr("default-src 'none'; style-src 'unsafe-inline'\r\n"));
  EXPECT_THAT(answer.body, HasSubstr("aria-label=\"gpt, step 2\""));
  EXPECT_THAT(answer.body, HasSubstr(">rank 1</text>"));

  drawn = GetLater("/api/jobs/gpt/timeline.svg", "step=3");
  for (int rank : {0, 1}) {
    asked = AskedTrace(worker);
    EXPECT_EQ(asked.rank(), rank);
    EXPECT_EQ(asked.trace().first_step(), 3);
    SendSteps(worker, asked, 0);
  }
  EXPECT_THAT(drawn.get().body, HasSubstr("gpt, step 3"));
}

TEST_F(PageTest, AWorkerThatDoesNotAnswerIsGivenUp) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt");
  worker.RunToTheEnd(worker.Assigned());
  std::future<Answer> drawn = GetLater("/api/jobs/gpt/timeline.svg", "step=3");
  const LogRequest asked = AskedTrace(worker);
  clock_.Advance(absl::Seconds(limits::kPageSeconds.value));
  ExpectRefused(drawn.get(), 503, {"trace of rank 0 of job gpt", "3 s"});
  const LogRequest cancelled = worker.Next().log_request();
  EXPECT_EQ(cancelled.stream(), asked.stream());
  EXPECT_TRUE(cancelled.cancel());

  drawn = GetLater("/api/jobs/gpt/timeline.svg", "step=3");
  AskedTrace(worker);
  worker.Drop();
  ExpectRefused(drawn.get(), 503, {"rank 0", "session of the worker"});
  ExpectRefused(Get("/api/jobs/gpt/timeline.svg"), 503, {"worker w0", "not connected"});
}

TEST_F(PageTest, AStepThatIsTooLongIsNotDrawn) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt");
  worker.RunToTheEnd(worker.Assigned());
  std::future<Answer> drawn = GetLater("/api/jobs/gpt/timeline.svg", "step=3");
  const LogRequest asked = AskedTrace(worker);
  v1alpha1::TraceRecord record;
  for (int lane = 0; lane < 1024; ++lane) {
    record.mutable_program()->add_lanes(std::string(256, 'x'));
  }
  const int64_t fit = limits::kPageTraceBytes.value / (1024 * 256);
  for (int64_t i = 0; i < fit; ++i) SendRecord(worker, asked.stream(), record);
  ExpectRefused(drawn.get(), 503, {"trace of rank 0", "16 MiB"});
}

TEST_F(PageTest, RefusalsNameWhatIsWrong) {
  ExpectRefused(Get("/none"), 404, {"/none", "/metrics"});
  for (const char* path : {"/api", "/api/", "/api/none", "/api/workers/w0", "/api/jobs/gpt/none",
                           "/api/jobs/gpt/steps/more", "/../page.css", "/files/page.css"}) {
    EXPECT_EQ(Get(path).code, 404) << path;
  }
  ExpectRefused(Get("/x\x1b[2J"), 404, {"\\x1b[2J"});
  ExpectRefused(Get("/api/jobs/gpt"), 404, {"no job \"gpt\""});
  ExpectRefused(Get("/api/jobs/GPT"), 400, {"GPT"});
  ExpectRefused(Get("/api/jobs", "page_token=x"), 400, {"page_token", "\"x\""});
  MustCreate("gpt");
  for (const char* step : {"0", "-1", "x", "99999999999999999999"}) {
    ExpectRefused(Get("/api/jobs/gpt/timeline.svg", absl::StrCat("step=", step)), 400,
                  {"step: ", step});
  }
  ExpectRefused(Get("/api/jobs/gpt/timeline.svg"), 409, {"jobs/gpt", "no finished step"});
  ExpectRefused(Get("/api/jobs/gpt/timeline.svg", "step=1"), 409, {"never placed"});
}

// A name that somebody else's page gave this address, so that a browser sends us what it asks for.
TEST_F(PageTest, OnlyNamesOfThisMachineAreAnswered) {
  for (const char* host :
       {"", "localhost", "LocalHost:80", "127.0.0.1:9090", "10.0.0.7:1", "[::1]:80"}) {
    EXPECT_EQ(Get("/", "", host).code, 200) << host;
  }
  for (const char* host : {"evil.example", "evil.example:9090", "127.0.0.1.evil.example",
                           "localhost.evil.example", "[evil]", "1.2.3"}) {
    ExpectRefused(Get("/api/jobs", "", host), 403, {host});
  }
}

TEST_F(PageTest, WithoutAServerThereIsOnlyTheFrame) {
  page_.Show(nullptr);
  EXPECT_EQ(Get("/").code, 200);
  ExpectRefused(Get("/api/jobs"), 503, {"standby"});
  page_.Show(server_->reader());
  EXPECT_EQ(Get("/api/jobs").code, 200);
  server_->Shutdown();
  ExpectRefused(Get("/api/jobs"), 503, {"shutting down"});
}

TEST_F(PageTest, DataWantTheKeyWhereThereIsOne) {
  const std::string key(64, 'a'), other(64, 'b');
  Page page(absl::OkStatus(), key);
  page.Show(server_->reader());
  const auto get = [&](const std::string& path, const std::string& authorization) {
    return page.Get({.path = path, .host = "localhost", .authorization = authorization});
  };
  EXPECT_EQ(get("/", "").code, 200);
  EXPECT_EQ(get("/main.js", "").code, 200);
  ExpectRefused(get("/api/jobs", ""), 401, {"no key", "page.key", "token", "/#key=KEY"});
  for (const std::string& wrong : {other, key, "Bearer " + other, "Bearer " + key + "a",
                                   "bearer " + key, "Bearer " + key.substr(1)}) {
    EXPECT_EQ(get("/api/jobs", wrong).code, 401) << wrong;
    EXPECT_EQ(get("/api/workers", wrong).code, 401) << wrong;
    EXPECT_EQ(get("/api/jobs/gpt/timeline.svg", wrong).code, 401) << wrong;
  }
  EXPECT_EQ(get("/api/jobs", "Bearer " + key).code, 200);
}

TEST(PageKeyTest, IsDrawnOnceForItsOwnerAlone) {
  const std::string path = testing::TempDir() + "page.key." + std::to_string(getpid());
  std::filesystem::remove(path);
  const absl::StatusOr<std::string> drawn = PageKey(path);
  ASSERT_TRUE(drawn.ok()) << drawn.status();
  EXPECT_EQ(drawn->size(), 64u);
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(*PageKey(path), *drawn);
  std::filesystem::remove(path);
  EXPECT_NE(*PageKey(path), *drawn);

  for (const char* damaged : {"", "0123", "\n"}) {
    std::ofstream(path) << damaged;
    const absl::Status status = PageKey(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected 64 hexadecimal digits"));
  }
  std::ofstream(path) << std::string(64, 'x');
  EXPECT_FALSE(PageKey(path).ok());
  std::filesystem::remove(path);
}

TEST(PageAccessTest, DependsOnWhoCanReachThePort) {
  GoldenMessages golden("stretto-coordinator");
  service::ServerOptions options;
  EXPECT_TRUE(PageAccess(options, "127.0.0.1:9090").ok());
  EXPECT_TRUE(PageAccess(options, "localhost:0").ok());
  const absl::Status open = PageAccess(options, "0.0.0.0:9090");
  EXPECT_EQ(open.code(), absl::StatusCode::kPermissionDenied);
  golden.Add(std::string(open.message()), {"0.0.0.0:9090"});
  options.insecure_listen_beyond_loopback = true;
  EXPECT_TRUE(PageAccess(options, "0.0.0.0:9090").ok());
  options.tls.ca = "ca.pem";
  EXPECT_TRUE(PageAccess(options, "127.0.0.1:9090").ok());
  const absl::Status secure = PageAccess(options, "0.0.0.0:9090");
  EXPECT_EQ(secure.code(), absl::StatusCode::kPermissionDenied);
  golden.Add(std::string(secure.message()), {"0.0.0.0:9090", "encrypts", "--page-listen"});

  Page closed(secure);
  for (const char* path : {"/", "/page.css", "/api/jobs"}) {
    EXPECT_EQ(closed.Get({.path = path}).code, 403) << path;
  }
}

}  // namespace
}  // namespace stretto::page
