// SPDX-License-Identifier: Apache-2.0
#include "tests/coordinator/core/transcript.h"

#include <map>
#include <memory>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/base/check.h"
#include "tests/coordinator/core/scene.h"

namespace stretto::coordinator::testing {
namespace {

int64_t Number(absl::string_view text) {
  int64_t number = 0;
  STRETTO_CHECK(absl::SimpleAtoi(text, &number));
  return number;
}

// "verb object key=value flag ...".
struct Command {
  std::string verb;
  std::string object;
  std::map<std::string, std::string> values;

  explicit Command(absl::string_view line) {
    std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    STRETTO_CHECK(!words.empty());
    verb = words[0];
    if (words.size() > 1) object = words[1];
    for (size_t i = 2; i < words.size(); ++i) {
      const std::pair<std::string, std::string> pair =
          absl::StrSplit(words[i], absl::MaxSplits('=', 1));
      values[pair.first] = pair.second;
    }
  }
  bool Has(const std::string& key) const { return values.contains(key); }
  std::string Text(const std::string& key, const std::string& otherwise = "") const {
    return Has(key) ? values.at(key) : otherwise;
  }
  int64_t Int(const std::string& key, int64_t otherwise = 0) const {
    return Has(key) ? Number(values.at(key)) : otherwise;
  }
  std::vector<std::string> List(const std::string& key) const {
    return absl::StrSplit(Text(key), ',', absl::SkipEmpty());
  }
};

void RunWorker(const Command& command, Scene& scene) {
  std::vector<Scene::Held> held;
  for (const std::string& word : command.List("held")) {
    const std::vector<std::string> parts = absl::StrSplit(word, ':');
    const std::pair<std::string, std::string> name = absl::StrSplit(parts[0], '/');
    Scene::Held& rank = held.emplace_back();
    rank.job = name.first;
    rank.rank = static_cast<int32_t>(Number(name.second));
    for (size_t i = 1; i < parts.size(); ++i) {
      absl::string_view part = parts[i];
      if (part == "ended") rank.alive = false;
      if (absl::ConsumePrefix(&part, "epoch=")) rank.epoch = Number(part);
    }
  }
  scene.Register(command.object, static_cast<int32_t>(command.Int("slots")), held,
                 command.Text("incarnation", "i1"), command.Text("host", "host-1"),
                 static_cast<int32_t>(command.Int("gpus")));
}

// "ranks=4" of blocks of one rank, or "stages=BLOCKSxSIZE,... split".
Gang MakeGang(const Command& command) {
  Gang gang;
  gang.stages = {{.blocks = static_cast<int32_t>(command.Int("ranks", 1))}};
  if (command.Has("stages")) gang.stages.clear();
  for (const std::string& word : command.List("stages")) {
    const std::pair<std::string, std::string> stage = absl::StrSplit(word, 'x');
    gang.stages.push_back({.blocks = static_cast<int32_t>(Number(stage.first)),
                           .size = static_cast<int32_t>(Number(stage.second))});
  }
  gang.split_blocks = command.Has("split");
  return gang;
}

// "restarts=2 backoff=10s", for the causes of the default; "causes=out_of_memory": for that one.
std::optional<RestartPolicy> MakePolicy(const Command& command) {
  if (!command.Has("restarts")) return std::nullopt;
  RestartPolicy policy{.max = static_cast<int32_t>(command.Int("restarts")),
                       .backoff = {},
                       .on = {RestartCause::kCrash, RestartCause::kNodeLoss, RestartCause::kHang,
                              RestartCause::kPreemption}};
  if (command.Has("causes")) {
    STRETTO_CHECK(command.Text("causes") == "out_of_memory");
    policy.on = {RestartCause::kOutOfMemory};
  }
  STRETTO_CHECK(absl::ParseDuration(command.Text("backoff", "1s"), &policy.backoff));
  return policy;
}

// "layouts=2,1": ranks of each, of blocks of one rank.
std::vector<Gang> MakeFallbacks(const Command& command) {
  std::vector<Gang> fallbacks;
  for (const std::string& ranks : command.List("layouts"))
    fallbacks.push_back({.stages = {{.blocks = static_cast<int32_t>(Number(ranks))}}});
  return fallbacks;
}

// "SLOT:FAULT,..."; no fault: healthy.
std::vector<SlotHealth> MakeHealth(const Command& command) {
  std::vector<SlotHealth> health;
  for (const std::string& word : command.List("health")) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(word, absl::MaxSplits(':', 1));
    health.push_back({static_cast<int32_t>(Number(parts.first)), parts.second});
  }
  return health;
}

decltype(RankReported::report) MakeReport(const Command& command, absl::Time now) {
  if (command.Has("prepared")) return RankPrepared{now, command.Has("inexactly")};
  if (command.Has("step")) return StepDone{command.Int("step"), now};
  if (command.Has("checkpoint")) {
    return CheckpointDone{.step = command.Int("checkpoint"),
                          .name = absl::StrCat("step-", command.Text("checkpoint")),
                          .ok = !command.Has("failed"),
                          .message = command.Has("failed") ? "no space left on device" : "",
                          .request = command.Int("request")};
  }
  if (command.Has("warning")) {
    return RankWarned{"LogIntact", command.Text("warning"), "no space left on device"};
  }
  STRETTO_CHECK(command.Has("exit"));
  return RankExited{.exit_code = static_cast<int32_t>(command.Int("code")),
                    .signal = static_cast<int32_t>(command.Int("signal")),
                    .reason = command.Text("reason"),
                    .message = "",
                    .step = command.Int("at"),
                    .phase = command.Text("phase"),
                    .last_operation = "",
                    .time = now,
                    .stopped_by_daemon = command.Has("stopped")};
}

void RunReport(const Command& command, Scene& scene) {
  const auto rank = static_cast<int32_t>(command.Int("rank"));
  const auto report = MakeReport(command, scene.now());
  if (!command.Has("epoch") && !command.Has("sequence")) {
    scene.Report(command.object, rank, report);
    return;
  }
  RankReported made = scene.MakeReport(command.object, rank, report, command.Int("sequence", 1));
  if (command.Has("epoch")) made.epoch = Epoch(command.Int("epoch"));
  scene.Report(made);
}

void RunCommand(const Command& command, Scene& scene) {
  const std::string& verb = command.verb;
  if (verb == "worker") {
    RunWorker(command, scene);
  } else if (verb == "submit") {
    scene.policy = MakePolicy(command);
    scene.fallbacks = MakeFallbacks(command);
    scene.priority = static_cast<int32_t>(command.Int("priority"));
    scene.project = command.Text("project", "default");
    scene.saves = !command.Has("unsaved");
    scene.Submit(command.object, MakeGang(command), command.Text("request"),
                 command.Text("body", "body"), /*validate_only=*/false,
                 command.Text("on") == "gpu" ? kGpuKind : 1);
  } else if (verb == "cancel") {
    scene.Cancel(command.object);
  } else if (verb == "checkpoint") {
    scene.Checkpoint(command.object);
  } else if (verb == "suspend") {
    scene.Suspend(command.object);
  } else if (verb == "resume") {
    scene.Resume(command.object);
  } else if (verb == "cordon" || verb == "drain") {
    scene.Cordon(command.object, verb == "drain");
  } else if (verb == "uncordon") {
    scene.Uncordon(command.object);
  } else if (verb == "heartbeat") {
    scene.Heartbeat(command.object, MakeHealth(command));
  } else if (verb == "disconnect") {
    scene.Disconnect(command.object);
  } else if (verb == "advance") {
    absl::Duration duration;
    STRETTO_CHECK(absl::ParseDuration(command.object, &duration));
    scene.Advance(duration, command.List("alive"));
  } else if (verb == "report") {
    RunReport(command, scene);
  } else if (verb == "replay") {
    scene.Replay(command.object, static_cast<int32_t>(command.Int("rank")));
  } else if (verb == "restart") {
    scene.Restart();
  } else if (verb == "store") {
    scene.store().FailCommit(1);
  } else {
    STRETTO_CHECK(false);
  }
}

}  // namespace

std::string RunTranscript(const std::string& text) {
  auto scene = std::make_unique<Scene>();
  std::string out;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!line.empty() && line[0] == '#') absl::StrAppend(&out, line, "\n");
    absl::string_view command = line;
    if (!absl::ConsumePrefix(&command, "> ")) continue;
    absl::StrAppend(&out, line, "\n");
    if (const Command read(command); read.verb == "why") {
      absl::StrAppend(&out, scene->Why(read.object), "\n");
    } else if (read.verb == "events") {
      absl::StrAppend(&out, scene->EventsOf(read.object));
    } else if (read.verb == "quota") {
      CoreOptions options;
      options.quotas = *ParseQuotas(absl::StrSplit(read.object, ';'));
      scene = std::make_unique<Scene>(options);
    } else {
      RunCommand(read, *scene);
      absl::StrAppend(&out, scene->TakeText());
    }
  }
  return out;
}

}  // namespace stretto::coordinator::testing
