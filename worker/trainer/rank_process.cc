// SPDX-License-Identifier: Apache-2.0

// The phases of a rank in order. Prepare checks everything that needs no peer (device, data,
// initial weights, memory) before it connects, so that a job fails early and with a precise reason.
// Saved state is found after that, because all ranks must choose the same. An error of any phase
// becomes one RankExit with a reason and with the last operation of the flight record.

#include "worker/trainer/rank_process.h"

#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"
#include "proto/base/files.h"
#include "proto/base/host_memory.h"
#include "proto/base/status_macros.h"
#include "worker/comm/republishing_store.h"
#include "worker/data/training_data.h"
#include "worker/engine/program/issue_order.h"
#include "worker/engine/program/text.h"
#include "worker/trainer/agreement/same_folder.h"
#include "worker/trainer/agreement/same_kernels.h"
#include "worker/trainer/agreement/same_step.h"
#include "worker/trainer/agreement/snapshots.h"
#include "worker/trainer/agreement/work_together.h"
#include "worker/trainer/attachments.h"
#include "worker/trainer/exit_reason.h"
#include "worker/trainer/held_out_data.h"
#include "worker/trainer/initial_weights.h"
#include "worker/trainer/link/daemon_link.h"
#include "worker/trainer/link/watchdog.h"
#include "worker/trainer/memory_check.h"
#include "worker/trainer/merged_wgrads.h"
#include "worker/trainer/plan/arenas.h"
#include "worker/trainer/plan/writers.h"
#include "worker/trainer/process/flight_watch.h"
#include "worker/trainer/process/signal_thread.h"
#include "worker/trainer/profile.h"
#include "worker/trainer/rank_device.h"
#include "worker/trainer/same_tokenizer.h"
#include "worker/trainer/sampling/sampling.h"
#include "worker/trainer/saved_state.h"
#include "worker/trainer/settings_file.h"
#include "worker/trainer/train_loop.h"
#include "worker/trainer/warm_ups.h"

namespace stretto::trainer {
namespace {

absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

// Everything that a rank owns while it runs, created in order.
class RankProcess {
 public:
  RankProcess(const v1alpha1::AttachResponse& task, JobConfig config, Reporter& reporter,
              FlightRecorder& flight, DaemonLink& link, SignalThread& signals)
      : task_(task),
        config_(std::move(config)),
        reporter_(reporter),
        flight_(flight),
        link_(link),
        signals_(signals) {}
  ~RankProcess() {
    Announce(flight_, kPart);  // to destroy all of it
    signals_.Watch(nullptr, nullptr);
  }

  TrainResult Run() {
    TrainState state;
    if (absl::Status status = Prepare(&state); !status.ok()) {
      const ExitReason reason =
          signals_.terminate().load() ? ExitReason::kCancelled : ReasonOfPrepare(status);
      // Nothing was lost with a stop before the first step.
      return {state, reason, reason == ExitReason::kCancelled ? absl::OkStatus() : status};
    }
    ReportPrepared(state);
    Sampling sampling(
        SamplingOf(config_.spec, config_.rank, task_.checkpoint_root(), config_.checkpoint_folder),
        [this](const v1alpha1::Samples& samples) {
          v1alpha1::RankReport report;
          *report.mutable_samples() = samples;
          reporter_.Send(std::move(report));
        });
    TrainResult result = Train(
        {.config = config_,
         .sampler = data_->train(),
         .engine = *engine_,
         .evaluation = evaluation_.get(),
         .control = device_->control(),
         .reporter = reporter_,
         .flight = flight_,
         .trace = *trace_,
         .link = link_,
         .lease = FromProto(task_.lease()),
         .tokenizer_hash = data_->tokenizer_hash(),
         .attachments = attachments_,
         .snapshot = snapshot_.has_value() ? &*snapshot_ : nullptr,
         .terminate = signals_.terminate(),
         .on_checkpoint = [&](int64_t step, const auto& at) { sampling.OnCheckpoint(step, at); }},
        state);
    if (!result.status.ok() || result.reason == ExitReason::kCancelled) return result;
    const AnnouncedWork work(flight_, kPart);
    sampling.Finish(kPart - absl::Minutes(1), [this] {
      return signals_.terminate().load() || link_.stop_request(absl::InfiniteDuration()).stop;
    });
    return result;
  }

 private:
  absl::Status Prepare(TrainState* state) {
    flight_.SetPhase(FlightPhase::kPrepare, Clock::Real().Monotonic());
    const AnnouncedWork work(flight_, kPart);
    ASSIGN_OR_RETURN(device_, RankDevice::Open(config_));
    absl::StatusOr<TrainingData> data = TrainingData::Open(config_.data);
    if (!data.ok()) return OfData(data.status());
    data_.emplace(*std::move(data));
    std::unique_ptr<ModelSource> weights;
    if (!config_.initial_weights.empty()) {
      ASSIGN_OR_RETURN(weights, OpenInitialWeights(config_));
      const Origin origin = OriginOf(*weights, config_.data.root);
      if (!config_.allow_other_tokenizer)
        RETURN_IF_ERROR(OfData(CheckTokenizerOfWeights(*data_, origin)));
    }
    if (config_.evaluates()) {
      absl::StatusOr<HeldOutData> held_out = OpenHeldOut(config_, *data_);
      if (!held_out.ok()) return OfData(held_out.status());
      held_out_ = *std::move(held_out);
    }
    RETURN_IF_ERROR(CheckFreeMemory());
    Announce(flight_, kMeeting);
    RETURN_IF_ERROR(Connect());
    Announce(flight_, FilesTake(Writers(config_.engine).bytes()));
    // From here on the ranks act together: each of these functions is called by all of them.
    RETURN_IF_ERROR(CheckSameKernels(device_->kernels(), device_->control()));
    if (!config_.checkpoint_disabled) {
      RETURN_IF_ERROR(CheckSameFolder(absl::StrCat(config_.checkpoint_folder, ".shared"),
                                      absl::StrCat(config_.job_uid, " ", config_.epoch),
                                      device_->control()));
    }
    RETURN_IF_ERROR(BuildAndLoad(weights.get(), state));
    return config_.saves_between_steps() ? MakeRoomForCopy() : absl::OkStatus();
  }

  // Makes room for the copies of asynchronous checkpoints. Called by all ranks.
  absl::Status MakeRoomForCopy() {
    ASSIGN_OR_RETURN(const bool copies, MakesCopies(config_, host_.available));
    ASSIGN_OR_RETURN(snapshot_,
                     MakeSnapshot(copies, config_.checkpoint_asynchronous.value_or(false),
                                  CopyBytes(config_), device_->control()));
    return absl::OkStatus();
  }

  // Chooses the saved state, builds the engine for it and loads it, and all of that again for the
  // state before where it turns out to be damaged.
  absl::Status BuildAndLoad(const ModelSource* weights, TrainState* state) {
    const JobConfig given = config_;
    const auto alive = [this] {
      flight_.SetPhase(FlightPhase::kPrepare, Clock::Real().Monotonic());
    };
    DamagedStates damaged;
    while (true) {
      Announce(flight_, FilesTake(Writers(config_.engine).bytes()));
      ASSIGN_OR_RETURN(const std::unique_ptr<SavedState> saved,
                       FindSavedState(config_, device_->control(), alive, damaged));
      RETURN_IF_ERROR(Build(weights, saved.get()));
      Announce(flight_, FilesTake(Writers(config_.engine).bytes()));
      absl::Status mine;
      RETURN_IF_ERROR(WorkTogether(device_->control(), [&] {
        mine = Load(saved.get(), weights, state);
        return absl::OkStatus();
      }));
      ASSIGN_OR_RETURN(const bool loaded,
                       AllLoaded(saved.get(), mine, device_->control(), &damaged));
      if (loaded) return absl::OkStatus();
      evaluation_.reset();
      trace_.reset();
      engine_.reset();
      config_ = given;
      // Memory that peers still map from the last engine is not free yet.
      RETURN_IF_ERROR(device_->control().Run(Collective::Barrier()));
    }
  }

  // Makes all that depends on the choice of the saved state, and the engine.
  absl::Status Build(const ModelSource* weights, const SavedState* saved) {
    Announce(flight_, kPart);
    if (saved != nullptr) {
      ASSIGN_OR_RETURN(const spec::Settings settings, saved->settings());
      RETURN_IF_ERROR(TakeDecaySteps(settings, &config_));
    }
    if (config_.auto_merge_wgrads) RETURN_IF_ERROR(MergeWgrads(saved));
    Announce(flight_, kMeasuring);
    if (config_.auto_warm_up) RETURN_IF_ERROR(ChooseWarmUps());
    // Rank 0 alone commits checkpoints.
    if (config_.rank == 0) {
      auto attachments = AttachmentsOf(config_, data_->tokenizer_prefix(), weights, saved);
      if (!attachments.ok()) return OfData(attachments.status());
      attachments_ = *std::move(attachments);
    }
    if (config_.profile_steps > 0) {
      RETURN_IF_ERROR(ProfileAndReport(config_, data_->train(), device_->links(),
                                       device_->control(), device_->backend(), reporter_));
      // Memory that peers still map from the last engine is not free yet.
      RETURN_IF_ERROR(device_->control().Run(Collective::Barrier()));
    }
    Announce(flight_, kPart);
    ASSIGN_OR_RETURN(RankPlan plan, BuildPlan(config_.engine, config_.rank));
    RETURN_IF_ERROR(Rehearse(plan.step, plan.program));
    if (config_.evaluates()) {
      ASSIGN_OR_RETURN(evaluation_arenas_,
                       MakeRoomForEvaluation(config_.engine, config_.evaluation.batches,
                                             config_.rank, &plan.arenas));
    }
    ASSIGN_OR_RETURN(
        engine_, RankEngine::Create(config_.engine, config_.rank, std::move(plan), device_->links(),
                                    device_->backend(), FlightHook()));
    if (config_.evaluates()) RETURN_IF_ERROR(PrepareEvaluation());
    phases_ = PhasesOf(engine_->program());
    // The flight record has numbers of operations; this file translates them after a crash.
    RETURN_IF_ERROR(
        WriteFileAtomic(config_.run_folder + "/program.txt", Print(engine_->program())));
    trace_ = std::make_unique<TraceRecorder>(config_.run_folder, engine_->program());
    return absl::OkStatus();
  }

  // Proves that the programs of all ranks fit together. Called by all of them.
  absl::Status Rehearse(const StepProgram& step, const Program& program) {
    if (!config_.on_gpu) return CheckSameStep(program, {}, device_->control());
    const std::vector<IssuedRun> order = IssueOrder(step);
    return CheckSameStep(WithRunsInTurn(step, order, program), CallsInIssueOrder(step, order),
                         device_->control());
  }

  absl::Status Load(SavedState* saved, const ModelSource* weights, TrainState* state) {
    if (saved != nullptr) {
      ASSIGN_OR_RETURN(*state, Resume(config_, data_->tokenizer_hash(), *saved, *engine_));
      return absl::OkStatus();
    }
    return weights != nullptr ? ReadWeights(*weights, *engine_) : engine_->Initialise(config_.seed);
  }

  void ReportPrepared(const TrainState& state) {
    v1alpha1::RankReport report;
    *report.mutable_prepared() = PreparedMessage(config_, engine_->arenas(), evaluation_arenas_,
                                                 snapshot_.has_value() ? snapshot_->bytes() : 0);
    report.mutable_prepared()->set_resumed_inexactly(!state.exact);
    report.mutable_prepared()->set_epoch_sequences(data_->train().samples_per_epoch());
    report.mutable_prepared()->set_peak_flops(device_->peak_flops().value_or(0));
    reporter_.Send(std::move(report));
  }

  absl::Status PrepareEvaluation() {
    const OnBegin on_begin = [this](OpId, int64_t now) {
      flight_.SetPhase(FlightPhase::kEvaluation, absl::Nanoseconds(now));
    };
    ASSIGN_OR_RETURN(evaluation_,
                     Evaluation::Create(config_, *held_out_.sampler, *engine_, device_->links(),
                                        device_->control(), device_->backend(), on_begin));
    return Rehearse(evaluation_->engine().step(), evaluation_->engine().program());
  }

  // Called before Connect, which no rank passes until all have reached it. No rank has therefore
  // allocated memory that another counts as available.
  absl::Status CheckFreeMemory() {
    ASSIGN_OR_RETURN(available_, device_->backend().FreeMemory());
    ASSIGN_OR_RETURN(host_, ReadHostMemory());
    if (config_.on_gpu) RETURN_IF_ERROR(CheckCopies(config_, host_.available));
    if (config_.auto_merge_wgrads) {
      ASSIGN_OR_RETURN(most_merged_wgrads_, MostMergedWgrads(config_, available_));
      return absl::OkStatus();
    }
    return CheckMemory(config_, available_);
  }

  absl::Status MergeWgrads(const SavedState* saved) {
    const std::string hash = saved != nullptr ? saved->state().spec_hash : "";
    RETURN_IF_ERROR(AgreeOnMergedWgrads(most_merged_wgrads_, hash, device_->control(), &config_));
    spdlog::info("weight gradients merged over {} of {} micro-batches, memory allows {}",
                 config_.engine.schedule.merge_wgrads, config_.engine.micro_batches,
                 most_merged_wgrads_);
    return absl::OkStatus();
  }

  absl::Status ChooseWarmUps() {
    ASSIGN_OR_RETURN(const PassTimes times, MeasurePasses(config_, data_->train(), device_->links(),
                                                          device_->control(), device_->backend()));
    return AgreeOnWarmUps(times, available_, device_->control(), &config_);
  }

  absl::Status Connect() {
    // The coordinator keeps rendezvous keys in memory and may restart in the meantime.
    RepublishingStore store(link_.store(), absl::Seconds(1));
    RETURN_IF_ERROR(device_->Connect(store, &flight_));
    signals_.Watch([this] { device_->Abort(); },
                   [this] { return IdleTime(config_.run_folder + "/flight.bin"); });
    return absl::OkStatus();
  }

  OnBegin FlightHook() {
    return [this](OpId op, int64_t now) {
      const absl::Duration time = absl::Nanoseconds(now);
      const bool collective = IsCollective(engine_->program().ops[op].kind);
      flight_.SetOperation(collective ? FlightLane::kComm : FlightLane::kCompute, op.value(), time);
      // Collectives run beside computation; the phase is that of the computation.
      if (!collective) flight_.SetPhase(phases_[op.position()], time);
    };
  }

  const v1alpha1::AttachResponse& task_;
  JobConfig config_;  // as given, except for the choices of Prepare
  Reporter& reporter_;
  FlightRecorder& flight_;
  DaemonLink& link_;
  SignalThread& signals_;
  std::optional<TrainingData> data_;
  HeldOutData held_out_;  // of a job that evaluates
  std::vector<Attachment> attachments_;
  HostMemory host_;             // before any rank has taken some
  int64_t available_ = 0;       // bytes of the device, likewise
  int most_merged_wgrads_ = 0;  // the largest number that fits this rank's memory
  std::unique_ptr<RankDevice> device_;
  std::vector<FlightPhase> phases_;
  std::unique_ptr<RankEngine> engine_;
  std::unique_ptr<Evaluation> evaluation_;  // null: the job has none
  ArenaBytes evaluation_arenas_ = {};       // its own, in addition to those of the step
  std::unique_ptr<TraceRecorder> trace_;
  std::optional<Snapshot> snapshot_;  // nothing: training waits for checkpoints
};

absl::StatusOr<v1alpha1::RankExit> AttachAndRun(const RankProcessOptions& options,
                                                SignalThread& signals,
                                                std::unique_ptr<DaemonLink>& link,
                                                std::unique_ptr<Reporter>& reporter) {
  link = std::make_unique<DaemonLink>(options.socket, options.job_uid, options.epoch, options.rank);
  ASSIGN_OR_RETURN(const v1alpha1::AttachResponse task, link->Attach(0));
  ASSIGN_OR_RETURN(ReportLog log, ReportLog::Open(task.run_folder() + "/reports.log"));
  JobConfig named;  // enough for reports if the spec is refused
  named.job_id = task.assign().job_id();
  named.job_uid = options.job_uid;
  named.epoch = options.epoch;
  named.rank = Rank::Of(options.rank);
  reporter = std::make_unique<Reporter>(std::move(log), *link, named);
  link->Start();
  ASSIGN_OR_RETURN(FlightRecorder flight,
                   FlightRecorder::Create(task.run_folder() + "/flight.bin"));
  const absl::Duration grace = FromProto(task.lease_grace());
  const absl::Duration limit = FromProto(task.lease()) + grace;
  const Watchdog watchdog(
      flight, *link, grace > absl::ZeroDuration() ? limit : absl::InfiniteDuration(), [limit] {
        // The step, or the checkpoint after it, took longer than the grace. Without a daemon nobody
        // would ever end this process.
        spdlog::error("failed: {}: no sign of life from the worker daemon for {}",
                      NameOf(ExitReason::kDaemonLost), absl::FormatDuration(limit));
        std::_Exit(1);
      });
  spdlog::info("started job={} attempt={} epoch={} rank={} of {}", named.job_id,
               task.assign().attempt(), options.epoch, options.rank, task.assign().world_size());

  absl::StatusOr<JobConfig> config = ConfigFrom(task, named.rank);
  TrainResult result = {{}, ExitReason::kSpecRefused, config.status()};
  if (config.ok())
    result = RankProcess(task, *std::move(config), *reporter, flight, *link, signals).Run();
  // An infinite lease: the request itself is asked for, not the loss of the daemon.
  const StopRequest request = link->stop_request(absl::InfiniteDuration());
  NoteSignal(signals.signal(), request.stop, &result);
  return ExitOf(result, task.run_folder(), request.reason);
}

}  // namespace

int RunRank(const RankProcessOptions& options) {
  std::unique_ptr<DaemonLink> link;
  std::unique_ptr<Reporter> reporter;
  SignalThread signals;
  const absl::StatusOr<v1alpha1::RankExit> exit = AttachAndRun(options, signals, link, reporter);
  if (!exit.ok()) {
    spdlog::error("rank {} cannot run: {}", options.rank, exit.status().ToString());
    return absl::IsAborted(exit.status()) ? 2 : 1;
  }
  if (exit->exit_code() == 0) {
    spdlog::info("ended: {} after step {}", exit->reason(), exit->step());
  } else {
    spdlog::error("failed: {} at step {} in {}: {}", exit->reason(), exit->step(), exit->phase(),
                  exit->message());
  }
  if (absl::Status status = reporter->Exit(*exit); !status.ok())
    spdlog::error("cannot write the last report: {}", status.ToString());
  // All that the daemon must know is in the log.
  if (!link->Close()) std::_Exit(exit->exit_code());
  return exit->exit_code();
}

}  // namespace stretto::trainer
