// SPDX-License-Identifier: Apache-2.0

// Asks the planner, a child process, for the memory that the job's programs need, asks the workers
// of the placement for the memory that they have, and compares the two place by place. Everything
// except these two queries is pure.

#include "coordinator/cli/commands/dry_run.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/text/resource_name.h"
#include "coordinator/cli/text/table.h"
#include "coordinator/cli/yaml/message_text.h"
#include "coordinator/cli/yaml/spec_yaml.h"
#include "coordinator/cli/yaml/yaml_tree.h"
#include "proto/base/printable.h"
#include "proto/base/status_macros.h"
#include "proto/base/units.h"

namespace stretto::cli {
namespace {

using v1alpha1::Job;
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

// Returns the workers of the placement; one that does not answer is left out.
std::vector<Worker> WorkersOf(const Invocation& invocation, const Job& job) {
  std::set<std::string> names;
  for (const auto& rank : job.placement()) names.insert(rank.worker());
  std::vector<Worker> workers;
  for (const std::string& name : names) {
    v1alpha1::GetWorkerRequest request;
    request.set_name(name);
    const absl::StatusOr<Worker> worker = invocation.client.GetWorker(request);
    if (worker.ok()) workers.push_back(*worker);
  }
  return workers;
}

const Worker* FindWorker(const std::vector<Worker>& workers, const std::string& name) {
  const auto found = std::find_if(workers.begin(), workers.end(),
                                  [&](const Worker& worker) { return worker.name() == name; });
  return found == workers.end() ? nullptr : &*found;
}

const v1alpha1::WorkerDevice* FindDevice(const Worker* worker, int slot) {
  if (worker == nullptr) return nullptr;
  for (const auto& device : worker->devices()) {
    if (device.slot() == slot) return &device;
  }
  return nullptr;
}

// The memory of all cores, summed over the slots' shares. 0 if it is not known.
int64_t NodeMemory(const Worker& worker) {
  int64_t bytes = 0;
  for (const auto& device : worker.devices()) {
    if (device.kind() != v1alpha1::DEVICE_CUDA) bytes += device.memory_bytes();
  }
  return bytes;
}

// The memory that one place offers, and the memory that the job's ranks need there.
struct Room {
  int64_t offered = 0;  // 0: not known
  int64_t asked = 0;
};

// Returns the class that a rank is in; null if the plan has none.
const Plan::Rank* ClassOf(const Plan& plan, int rank) {
  const auto next = std::find_if(plan.ranks().begin(), plan.ranks().end(),
                                 [&](const Plan::Rank& planned) { return planned.rank() > rank; });
  return next == plan.ranks().begin() ? nullptr : &*std::prev(next);
}

// Returns the places by name: "node a", "worker a, slot 2 (NVIDIA H200 (GPU 0))". Workers of one
// host share its memory.
std::map<std::string, Room> Rooms(const v1alpha1::DryRun& run, const std::vector<Worker>& workers) {
  std::map<std::string, Room> rooms;
  const bool cuda = run.job().spec().device() == v1alpha1::DEVICE_CUDA;
  for (const auto& rank : run.job().placement()) {
    const Plan::Rank* planned = ClassOf(run.plan(), rank.rank());
    if (planned == nullptr) continue;
    const Worker* worker = FindWorker(workers, rank.worker());
    const v1alpha1::WorkerDevice* device = FindDevice(worker, rank.slot());
    if (worker == nullptr || device == nullptr) {
      rooms[rank.worker()] = {};
      continue;
    }
    const std::string id = ShortResourceName(rank.worker());
    Room& room = rooms[cuda ? absl::StrCat("worker ", id, ", slot ", rank.slot(), " (",
                                           Printable(device->description()), ")")
                            : absl::StrCat("node ", Printable(worker->host()))];
    room.asked += planned->bytes();
    room.offered = cuda ? device->memory_bytes() : NodeMemory(*worker);
    const int64_t memory = NodeMemory(*worker);
    if (!run.job().spec().checkpoint().asynchronous() || memory == 0) continue;
    Room& node = rooms[absl::StrCat("node ", Printable(worker->host()))];
    node.asked += planned->checkpoint_copy_bytes();
    node.offered = memory;
  }
  return rooms;
}

std::string PlacementText(const Job& job, const std::vector<Worker>& workers) {
  for (const v1alpha1::Condition& condition : job.conditions()) {
    if (condition.type() != "Scheduled" || condition.status() == v1alpha1::Condition::TRUE)
      continue;
    return absl::StrCat("It would wait: ", Printable(condition.reason()), ": ",
                        Printable(condition.message()), "\n");
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& rank : job.placement()) {
    const auto* device = FindDevice(FindWorker(workers, rank.worker()), rank.slot());
    rows.push_back({absl::StrCat(rank.rank()), ShortResourceName(rank.worker()),
                    absl::StrCat(rank.slot()),
                    device == nullptr ? "-" : Printable(device->description())});
  }
  return Table({">RANK", "WORKER", ">SLOT", "DEVICE"}, rows);
}

// What a worker has found, or why none has looked.
std::string InspectionText(const Job& job) {
  for (const v1alpha1::Condition& condition : job.conditions()) {
    if (condition.type() != "Inspected") continue;
    return absl::StrCat(condition.status() == v1alpha1::Condition::TRUE
                            ? "\nFound by "
                            : "\nData, weights and checkpoints were not looked at: ",
                        Printable(condition.message()), "\n");
  }
  return "";
}

// "0", "1-7"
std::string RanksText(const Plan::Rank& planned) {
  if (planned.count() <= 1) return absl::StrCat(planned.rank());
  return absl::StrCat(planned.rank(), "-", planned.rank() + planned.count() - 1);
}

// Has a row for each class of ranks.
std::string MemoryTable(const Plan& plan) {
  std::vector<std::string> arenas;  // of any rank
  for (const Plan::Rank& planned : plan.ranks()) {
    for (const Plan::Arena& arena : planned.arenas()) {
      if (std::find(arenas.begin(), arenas.end(), arena.name()) == arenas.end())
        arenas.push_back(arena.name());
    }
  }
  const bool staged = plan.ranks_size() > 0 && plan.ranks().rbegin()->stage() > 0;
  std::vector<std::string> headings = {"RANKS"};
  if (staged) headings.emplace_back(">STAGE");
  for (const std::string& arena : arenas)
    headings.push_back(absl::StrCat(">", absl::AsciiStrToUpper(arena)));
  headings.insert(headings.end(), {">TOTAL", ">PARAMETERS", ">OPERATIONS"});
  std::vector<std::vector<std::string>> rows;
  for (const Plan::Rank& planned : plan.ranks()) {
    std::vector<std::string>& row = rows.emplace_back(1, RanksText(planned));
    if (staged) row.push_back(absl::StrCat(planned.stage()));
    for (const std::string& name : arenas) {
      const auto found =
          std::find_if(planned.arenas().begin(), planned.arenas().end(),
                       [&](const Plan::Arena& arena) { return arena.name() == name; });
      row.push_back(found == planned.arenas().end() ? "-" : FormatBytes(found->bytes()));
    }
    row.insert(row.end(), {FormatBytes(planned.bytes()), FormatCount(planned.parameters()),
                           FormatCount(planned.operations())});
  }
  return rows.empty() ? "" : Table(headings, rows);
}

// Tells what the copies for asynchronous checkpoints take on top; empty if the job makes none.
std::string CopyText(const v1alpha1::DryRun& run) {
  int64_t bytes = 0;
  for (const Plan::Rank& planned : run.plan().ranks())
    bytes = std::max(bytes, planned.checkpoint_copy_bytes());
  if (bytes == 0) return "";
  return absl::StrCat(
      "Copy for asynchronous checkpoints: ", FormatBytes(bytes),
      " of each rank in the memory of its node",
      run.job().spec().checkpoint().asynchronous() ? "" : ", if it is at most half of what is left",
      "\n");
}

std::string PlanText(const v1alpha1::DryRun& run, const std::vector<Worker>& workers) {
  const Plan& plan = run.plan();
  std::string out = absl::StrCat(
      "Model: ", FormatCount(plan.parameters()), " parameters, ",
      FormatCount(plan.flops_per_token()), " floating point operations per token\n\n",
      "Memory of a rank, allocated before step 1 (libraries take some more):\n", MemoryTable(plan));
  absl::StrAppend(&out, CopyText(run));
  if (plan.smallest()) {
    const bool warm_ups = run.job().spec().schedule().pipeline().auto_warm_up();
    absl::StrAppend(&out,
                    warm_ups ? "auto_warm_up chooses warm-ups when the ranks prepare"
                             : "auto_merge_wgrads then takes what is free",
                    ": this is the least it can be.\n");
  }
  for (const auto& [name, room] : Rooms(run, workers)) {
    if (room.offered == 0) continue;
    absl::StrAppend(&out, name, ": ", FormatBytes(room.asked), " of ", FormatBytes(room.offered),
                    room.asked <= room.offered ? "" : ", does NOT fit", "\n");
  }
  return out;
}

}  // namespace

std::optional<bool> Fits(const v1alpha1::DryRun& run, const std::vector<Worker>& workers) {
  const std::map<std::string, Room> rooms = Rooms(run, workers);
  if (rooms.empty()) return std::nullopt;
  bool known = true;
  for (const auto& [name, room] : rooms) {
    known = known && room.offered > 0;
    if (room.offered > 0 && room.asked > room.offered) return false;
  }
  return known ? std::optional<bool>(true) : std::nullopt;
}

std::string DryRunText(const v1alpha1::DryRun& run, const std::vector<Worker>& workers) {
  std::string out = absl::StrCat("Spec:\n", ToYaml(run.job().spec()), "\nPlacement:\n",
                                 PlacementText(run.job(), workers), InspectionText(run.job()));
  if (run.has_plan()) absl::StrAppend(&out, "\n", PlanText(run, workers));
  return out;
}

ExitCode DryRun(const Invocation& invocation, const Job& job, const std::string& planner) {
  v1alpha1::DryRun run;
  *run.mutable_job() = job;
  const absl::StatusOr<Plan> plan = PlanWith(planner, job.spec(), invocation.interrupt);
  if (plan.ok()) *run.mutable_plan() = *plan;
  const std::vector<Worker> workers = WorkersOf(invocation, job);
  if (const std::optional<bool> fits = Fits(run, workers)) run.set_fits(*fits);
  if (invocation.format == OutputFormat::kTable) {
    invocation.terminal.out << DryRunText(run, workers);
  } else {
    PrintMessage(invocation, run);
  }
  if (!plan.ok()) {
    invocation.terminal.err << "no estimate of memory: " << Printable(plan.status().message())
                            << "\n";
  }
  invocation.terminal.err << "job " << ShortResourceName(job.name()) << " is valid"
                          << (run.has_fits() && !run.fits() ? ", but does not fit memory" : "")
                          << "; nothing was stored\n";
  return run.has_fits() && !run.fits() ? kError : kOk;
}

}  // namespace stretto::cli
