// SPDX-License-Identifier: Apache-2.0

// Asks the planner, a child process, for the memory that the job's programs need, and the
// coordinator for the memory that workers have. Everything except these two queries is pure.

#include "coordinator/cli/commands/memory_look.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/commands/worker_commands.h"
#include "coordinator/cli/local/limited_child.h"
#include "coordinator/cli/text/resource_name.h"
#include "coordinator/cli/yaml/message_text.h"
#include "coordinator/cli/yaml/spec_yaml.h"
#include "coordinator/cli/yaml/yaml_tree.h"
#include "proto/base/printable.h"
#include "proto/base/status_macros.h"
#include "proto/base/units.h"
#include "proto/spec/job/ranks.h"

namespace stretto::cli {
namespace {

using v1alpha1::Plan;
using v1alpha1::Worker;

absl::StatusOr<Plan> PlanWith(const std::string& planner, const v1alpha1::JobSpec& spec,
                              Interrupt& interrupt) {
  ASSIGN_OR_RETURN(const std::string json,
                   RunLimited({planner}, ToJson(spec, false), ChildLimits{}, interrupt));
  Plan plan;
  absl::StatusOr<YamlNode> tree = ParseYaml(json, "its answer");
  const absl::Status status =
      tree.ok() ? FillMessage(*tree, "its answer", "", &plan, nullptr) : tree.status();
  if (status.ok()) return plan;
  return absl::InternalError(absl::StrCat(planner, ": found no plan: ", status.message()));
}

const Worker* FindWorker(const std::vector<Worker>& workers, const std::string& name) {
  const auto found = std::find_if(workers.begin(), workers.end(),
                                  [&](const Worker& worker) { return worker.name() == name; });
  return found == workers.end() ? nullptr : &*found;
}

bool IsForGpus(const v1alpha1::DryRun& run) {
  return run.job().spec().device() == v1alpha1::DEVICE_CUDA;
}

// The memory of all cores, summed over the slots' shares. 0 if it is not known.
int64_t NodeMemory(const Worker& worker) {
  int64_t bytes = 0;
  for (const auto& device : worker.devices()) {
    if (device.kind() != v1alpha1::DEVICE_CUDA) bytes += device.memory_bytes();
  }
  return bytes;
}

// What a rank needs for copies on top, in the memory of its node, if the job insists on them.
int64_t CopyBytes(const v1alpha1::DryRun& run, const Plan::Rank& planned) {
  return run.job().spec().checkpoint().asynchronous() ? planned.checkpoint_copy_bytes() : 0;
}

// Returns the class that a rank is in; null if the plan has none.
const Plan::Rank* ClassOf(const Plan& plan, int rank) {
  const auto next = std::find_if(plan.ranks().begin(), plan.ranks().end(),
                                 [&](const Plan::Rank& planned) { return planned.rank() > rank; });
  return next == plan.ranks().begin() ? nullptr : &*std::prev(next);
}

// Workers of one host share its memory.
std::vector<Room> PlacedRooms(const v1alpha1::DryRun& run, const std::vector<Worker>& workers) {
  std::map<std::string, Room> rooms;
  const bool cuda = IsForGpus(run);
  for (const auto& rank : run.job().placement()) {
    const Plan::Rank* planned = ClassOf(run.plan(), rank.rank());
    if (planned == nullptr) continue;
    const Worker* worker = FindWorker(workers, rank.worker());
    const std::string id = ShortResourceName(rank.worker());
    const v1alpha1::WorkerDevice* device = FindDevice(workers, rank.worker(), rank.slot());
    if (worker == nullptr || device == nullptr) {
      rooms[absl::StrCat("worker ", id)] = {};
      continue;
    }
    Room& room = rooms[cuda ? absl::StrCat("worker ", id, ", slot ", rank.slot(), " (",
                                           Printable(device->description()), ")")
                            : absl::StrCat("node ", Printable(worker->host()))];
    const int64_t memory = NodeMemory(*worker);
    room.asked += planned->bytes();
    room.offered = cuda ? device->memory_bytes() : memory;
    const int64_t copies = CopyBytes(run, *planned);
    if (copies == 0 || memory == 0) continue;
    Room& node = rooms[absl::StrCat("node ", Printable(worker->host()))];
    node.asked += copies;
    node.offered = memory;
  }
  std::vector<Room> sorted;
  for (auto& [place, room] : rooms) sorted.push_back({place, room.asked, room.offered});
  return sorted;
}

// All of a kind of memory, and its largest piece.
struct Stock {
  int64_t all = 0, largest = 0;
  void Add(int64_t piece) {
    all += piece;
    largest = std::max(largest, piece);
  }
};

// More than this no placement has. Which pieces a job would get is open.
std::vector<Room> RoomsInTotal(const v1alpha1::DryRun& run, const std::vector<Worker>& workers) {
  std::map<std::string, int64_t> nodes;  // by host
  Stock gpus, cores;
  for (const Worker& worker : workers) {
    if (worker.state() != Worker::READY) continue;
    nodes[worker.host()] = std::max(nodes[worker.host()], NodeMemory(worker));
    for (const auto& device : worker.devices()) {
      if (device.kind() == v1alpha1::DEVICE_CUDA) gpus.Add(device.memory_bytes());
    }
  }
  if (nodes.empty()) return {};
  for (const auto& [host, memory] : nodes) cores.Add(memory);
  const bool cuda = IsForGpus(run);
  const std::vector<int> tp_sizes = spec::TpSizesOf(run.job().spec().parallelism());
  int64_t all = 0, copies = 0, largest = 0, together = 1;
  for (const Plan::Rank& planned : run.plan().ranks()) {
    const int64_t count = std::max(planned.count(), 1);
    all += count * planned.bytes();
    copies += count * CopyBytes(run, planned);
    if (cuda) {
      largest = std::max(largest, planned.bytes());
      continue;
    }
    const auto stage = static_cast<size_t>(planned.stage());
    const bool split = run.job().spec().placement().split_blocks();
    const int64_t block = split || stage >= tp_sizes.size() ? 1 : std::max(tp_sizes[stage], 1);
    const int64_t bytes = block * (planned.bytes() + CopyBytes(run, planned));
    if (bytes <= largest) continue;
    largest = bytes;
    together = block;
  }
  if (cuda) {
    std::vector<Room> rooms = {{"GPUs of all READY workers", all, gpus.all},
                               {"largest GPU of READY workers", largest, gpus.largest}};
    if (copies > 0) rooms.push_back({"nodes of all READY workers", copies, cores.all});
    return rooms;
  }
  const std::string block =
      together == 1 ? "a rank" : absl::StrCat(together, " ranks that share a stage");
  return {{"nodes of all READY workers", all + copies, cores.all},
          {absl::StrCat("largest node, for ", block), largest, cores.largest}};
}

v1alpha1::DryRun::Shortage ShortageOf(const Room& room) {
  v1alpha1::DryRun::Shortage shortage;
  shortage.set_place(room.place);
  shortage.set_asked_bytes(room.asked);
  shortage.set_offered_bytes(room.offered);
  shortage.set_description(absl::StrCat("found ", FormatBytes(room.asked),
                                        " for the job, expected at most ",
                                        FormatBytes(room.offered)));
  return shortage;
}

}  // namespace

const v1alpha1::WorkerDevice* FindDevice(const std::vector<Worker>& workers,
                                         const std::string& worker, int slot) {
  const Worker* found = FindWorker(workers, worker);
  if (found == nullptr) return nullptr;
  for (const auto& device : found->devices()) {
    if (device.slot() == slot) return &device;
  }
  return nullptr;
}

std::vector<Room> RoomsOf(const v1alpha1::DryRun& run, const std::vector<Worker>& workers) {
  if (run.plan().ranks().empty()) return {};
  return run.job().placement().empty() ? RoomsInTotal(run, workers) : PlacedRooms(run, workers);
}

std::optional<bool> Fits(const v1alpha1::DryRun& run, const std::vector<Worker>& workers) {
  bool known = !run.job().placement().empty() && !run.plan().ranks().empty();
  for (const Room& room : RoomsOf(run, workers)) {
    if (!room.fits()) return false;
    known = known && room.offered > 0;
  }
  return known ? std::optional<bool>(true) : std::nullopt;
}

std::string WhyNotCompared(const v1alpha1::DryRun& run, const std::vector<Worker>& workers) {
  if (run.plan().ranks().empty()) return "the plan has no ranks";
  const std::vector<Room> rooms = RoomsOf(run, workers);
  if (rooms.empty()) return "no worker is READY";
  std::vector<std::string> unknown;
  for (const Room& room : rooms) {
    if (room.offered == 0) unknown.push_back(room.place);
  }
  if (unknown.empty()) return "";
  return absl::StrCat("it is not known how much there is: ", absl::StrJoin(unknown, "; "));
}

absl::StatusOr<std::vector<Worker>> LookAtMemory(const Invocation& invocation,
                                                 const std::string& planner,
                                                 v1alpha1::DryRun* run) {
  const absl::StatusOr<Plan> plan = PlanWith(planner, run->job().spec(), invocation.interrupt);
  if (invocation.interrupt.raised()) return absl::CancelledError("interrupted");
  std::vector<Worker> workers;
  absl::StatusOr<v1alpha1::ListWorkersResponse> known = FetchWorkers(invocation.client);
  if (known.ok()) {
    workers.assign(std::make_move_iterator(known->mutable_workers()->begin()),
                   std::make_move_iterator(known->mutable_workers()->end()));
  }
  if (plan.ok()) *run->mutable_plan() = *plan;
  if (const std::optional<bool> fits = Fits(*run, workers)) run->set_fits(*fits);
  for (const Room& room : RoomsOf(*run, workers)) {
    if (!room.fits()) *run->add_shortages() = ShortageOf(room);
  }
  run->set_memory_not_compared(!plan.ok()    ? std::string(plan.status().message())
                               : !known.ok() ? std::string(known.status().message())
                                             : WhyNotCompared(*run, workers));
  return workers;
}

void ReportNotCompared(const Invocation& invocation, const v1alpha1::DryRun& run) {
  if (run.memory_not_compared().empty()) return;
  invocation.terminal.err << "memory was not compared: " << Printable(run.memory_not_compared())
                          << "\n";
}

}  // namespace stretto::cli
