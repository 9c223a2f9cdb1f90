// SPDX-License-Identifier: Apache-2.0

// One step: agree whether to stop, fill the batch, run; then evaluate and save when they are due,
// and report. Ranks agree through a small collective on the control group, so that all of them stop
// at the same step. The ledger of a step begins where that of the previous step ended, so every
// wait of the host belongs to a step.

#include "worker/trainer/train_loop.h"

#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/clock.h"
#include "proto/base/status_macros.h"
#include "worker/engine/cost/mfu.h"
#include "worker/trainer/agreement/sum_in_turn.h"
#include "worker/trainer/checkpointing.h"
#include "worker/trainer/exit_reason.h"
#include "worker/trainer/process/flight_watch.h"
#include "worker/trainer/process/instant.h"
#include "worker/trainer/profile.h"

namespace stretto::trainer {
namespace {

// Before each new try to save the end of training.
constexpr absl::Duration kPauses[] = {absl::Seconds(1), absl::Seconds(3), absl::Seconds(9),
                                      absl::Seconds(27)};

class Loop {
 public:
  Loop(const TrainContext& context, TrainState state)
      : c_(context), state_(std::move(state)), checkpoints_(context, state_.step) {}

  TrainResult Run() {
    // All three clocks are read at one instant, and again at the end of each step.
    begin_ = ReadClocks(NowNanoseconds);
    while (state_.step < c_.config.steps) {
      if (std::optional<TrainResult> stopped = Stopped()) return *std::move(stopped);
      if (absl::Status status = FillBatch(); !status.ok())
        return Ended(ExitReason::kDataInvalid, status);
      if (absl::Status status = RunStep(); !status.ok()) {
        return Ended(ReasonOfStep(status), status);
      }
      if (absl::Status status = MaybeEvaluate(); !status.ok()) {
        return Ended(ReasonOfStep(status), status);
      }
      if (absl::Status status = MaybeCheckpoint(); !status.ok())
        return Ended(ReasonOfCheckpoint(status), status);
      ReportStep();
      if (stopped_.has_value()) return *std::move(stopped_);
      if (!unsaved_.empty()) return Unsaved();
      if (EarlyStopped()) {
        return {state_, ExitReason::kEarlyStopped, absl::OkStatus(), EarlyStopMessage()};
      }
      if (TooManyNotFinite()) {
        return Ended(
            ExitReason::kNonFiniteGradients,
            absl::FailedPreconditionError(absl::StrCat(
                "step ", state_.step, ": the gradient norm was not finite ", not_finite_in_a_row_,
                " times in a row, expected fewer than ", c_.config.optimizer.max_skipped_updates)));
      }
    }
    if (c_.config.steps == 0) return WriteWeights();
    // The request to stop that ended the last evaluation has not been handled yet.
    if (c_.evaluation != nullptr && !evaluated_.has_value()) {
      if (std::optional<TrainResult> stopped = Stopped()) return *std::move(stopped);
    }
    return Ended(ExitReason::kCompleted, absl::OkStatus());
  }

 private:
  TrainResult Ended(ExitReason reason, absl::Status status) {
    if (reason == ExitReason::kCancelled) status = absl::OkStatus();
    return {state_, reason, std::move(status)};
  }

  // Returns the result if any rank was asked to stop, and nothing if training continues. If any was
  // asked for a checkpoint, a stop writes it first, and training continues while it is written. A
  // stop that could not save what it was asked to is not clean: its status is the reason.
  std::optional<TrainResult> Stopped() {
    const StopRequest request = Request();
    const absl::StatusOr<ControlWord> all = AgreeOn(request);
    if (!all.ok()) return Ended(ReasonOfCheckpoint(all.status()), all.status());
    if (!all->stop) return all->checkpoint ? SaveOnRequest() : ContinueCheckpoint(all->saving);
    if (all->fenced) {  // no rank may save, whatever the others were asked for
      return Ended(ExitReason::kStaleEpoch,
                   absl::AbortedError("a newer attempt of this job has begun"));
    }
    spdlog::info("stopping after step {}: {}", state_.step,
                 request.stop ? request.reason : "asked to");
    std::string unsaved;
    absl::StatusOr<std::string> failed = checkpoints_.Finish();
    if (failed.ok() && all->checkpoint && !c_.config.checkpoint_disabled &&
        state_.step > checkpoints_.saved_step()) {
      failed = checkpoints_.Save(state_);
      if (failed.ok() && !failed->empty()) {
        unsaved = absl::StrCat("stopped after step ", state_.step,
                               ", but the checkpoint of the steps after ",
                               checkpoints_.saved_step(), " could not be written: ", *failed);
      }
    }
    if (!failed.ok()) return Ended(ReasonOfCheckpoint(failed.status()), failed.status());
    if (request.daemon_lost) {
      return Ended(ExitReason::kDaemonLost,
                   absl::UnavailableError(absl::StrCat(
                       "no sign of life from the worker daemon for ",
                       absl::FormatDuration(c_.lease), unsaved.empty() ? "" : "; ", unsaved)));
    }
    TrainResult result = Ended(ExitReason::kCancelled, absl::OkStatus());
    if (!unsaved.empty()) result.status = absl::UnavailableError(unsaved);
    return result;
  }

  // A job of no steps only writes its initial weights.
  TrainResult WriteWeights() {
    if (absl::Status status = SaveLast(); !status.ok()) {
      return Ended(ReasonOfCheckpoint(status), status);
    }
    if (stopped_.has_value()) return *std::move(stopped_);
    if (!unsaved_.empty()) return Unsaved();
    return Ended(ExitReason::kCompleted, absl::OkStatus());
  }

  // Both return the result if that fails training.
  std::optional<TrainResult> ContinueCheckpoint(bool saving) {
    if (!checkpoints_.under_way() || saving) return std::nullopt;
    const int64_t begin = NowNanoseconds();
    return WaitedSince(begin, checkpoints_.Continue());
  }
  std::optional<TrainResult> SaveOnRequest() {
    const int64_t begin = NowNanoseconds();
    return WaitedSince(begin, checkpoints_.Begin(state_));
  }

  // The wait is of the step that follows.
  std::optional<TrainResult> WaitedSince(int64_t begin, const absl::Status& status) {
    waits_.checkpoint.push_back({begin, NowNanoseconds()});
    if (status.ok()) return std::nullopt;
    return Ended(ReasonOfCheckpoint(status), status);
  }

  // Whether rank 0 was asked for a checkpoint that no report answers. The one of the last step may
  // be older than the request, which the checkpoint after the next step answers.
  bool MustSave() const {
    return c_.config.rank == 0 && c_.link.save_request() > checkpoints_.answered_request() &&
           !c_.config.checkpoint_disabled && !checkpoints_.has(state_.step);
  }

  // What is asked of this rank. A fenced attempt can save nothing more, so it stops.
  StopRequest Request() const {
    if (checkpoints_.fenced()) return {.stop = true, .reason = NameOf(ExitReason::kStaleEpoch)};
    return c_.link.stop_request(c_.lease);
  }

  // Saves the end of training. Where that fails it tries again, because the cause may be one that
  // somebody removes, such as a full disk. Sets unsaved_, and stopped_ if a request to stop ended
  // the tries.
  absl::Status SaveLast() {
    ASSIGN_OR_RETURN(unsaved_, checkpoints_.Save(state_));
    for (const absl::Duration pause : kPauses) {
      if (unsaved_.empty()) break;
      ASSIGN_OR_RETURN(const bool stops, StopsWithin(pause));
      // The request may have been withdrawn meanwhile, and then the tries continue.
      if (stops && (stopped_ = Stopped()).has_value()) break;
      ASSIGN_OR_RETURN(unsaved_, checkpoints_.Save(state_));
    }
    return absl::OkStatus();
  }

  // Waits, and returns early and true if any rank is asked to stop.
  absl::StatusOr<bool> StopsWithin(absl::Duration pause) {
    constexpr absl::Duration kSlice = absl::Seconds(1);
    do {
      c_.sleep(std::min(pause, kSlice));
      pause -= kSlice;
      ASSIGN_OR_RETURN(const ControlWord all, AgreeOn(Request()));
      if (all.stop) return true;
    } while (pause > absl::ZeroDuration());
    return false;
  }

  // All is trained and nothing of it saved.
  TrainResult Unsaved() {
    return Ended(ExitReason::kCheckpointFailed,
                 absl::UnavailableError(
                     absl::StrCat("the last checkpoint could not be written: ", unsaved_)));
  }

  // A signal means that the process must end soon, so it asks for a checkpoint too.
  absl::StatusOr<ControlWord> AgreeOn(const StopRequest& request) {
    const bool terminate = c_.terminate.load();
    return Agree(c_.control, {.stop = request.stop || terminate,
                              .checkpoint = request.checkpoint || terminate || MustSave(),
                              .fenced = checkpoints_.fenced(),
                              .saving = checkpoints_.busy()});
  }

  absl::Status FillBatch() {
    const int64_t begin = NowNanoseconds();
    c_.flight.SetStep(state_.step + 1, Clock::Real().Monotonic());
    c_.flight.SetPhase(FlightPhase::kData, Clock::Real().Monotonic());
    const AnnouncedWork work(c_.flight, kReadingData);
    const absl::StatusOr<int64_t> targets = FillStep(c_.config, c_.sampler, state_.consumed_samples,
                                                     state_.step + 1, state_.updates, c_.engine);
    waits_.data = {{begin, NowNanoseconds()}};
    targets_ = targets.value_or(0);
    return targets.status();
  }

  absl::Status RunStep() {
    RETURN_IF_ERROR(c_.engine.executor().Run());
    ASSIGN_OR_RETURN(loss_,
                     MeanLossOfStep(c_.config.engine, c_.control, c_.engine.LossSums(), targets_));
    ++state_.step;
    state_.held_out.loss.reset();  // that of the step before
    state_.consumed_samples += c_.config.engine.sequences_per_step();
    not_finite_ = c_.engine.clip_state()[kUpdate] == 0;
    not_finite_in_a_row_ = not_finite_ ? not_finite_in_a_row_ + 1 : 0;
    if (!Skipped()) ++state_.updates;
    if (!std::exchange(started_, true)) ReportFirstOperation();
    return absl::OkStatus();
  }

  // With updates at once, the update has been applied before the norm is known.
  bool Skipped() const { return not_finite_ && !c_.config.engine.update_at_once; }

  bool TooManyNotFinite() const {
    return not_finite_in_a_row_ >= c_.config.optimizer.max_skipped_updates;
  }

  // The executor has the end of the first operation, on its own clock.
  void ReportFirstOperation() {
    const int64_t ago = NowNanoseconds() - c_.engine.executor().intervals()[0].end;
    const int64_t wall = absl::ToUnixNanos(Clock::Real().Now()) - ago;
    v1alpha1::RankReport report;
    *report.mutable_first_operation()->mutable_time() =
        google::protobuf::util::TimeUtil::NanosecondsToTimestamp(wall);
    c_.reporter.Send(std::move(report));
  }

  bool IsDue(int64_t every) const {
    return state_.step == c_.config.steps || (every > 0 && state_.step % every == 0);
  }

  // Called before MaybeCheckpoint, so that the checkpoint has the result.
  absl::Status MaybeEvaluate() {
    waits_.evaluation.clear();
    evaluated_.reset();
    if (c_.evaluation == nullptr || !IsDue(c_.config.evaluation.interval_steps) ||
        TooManyNotFinite()) {
      return absl::OkStatus();
    }
    const int64_t begin = NowNanoseconds();
    c_.flight.SetPhase(FlightPhase::kEvaluation, Clock::Real().Monotonic());
    // Operations of the evaluation are not in the program's text, so the flight record has none.
    for (FlightLane lane : {FlightLane::kCompute, FlightLane::kComm}) {
      c_.flight.SetOperation(lane, -1, Clock::Real().Monotonic());
    }
    ASSIGN_OR_RETURN(const std::optional<double> loss,
                     c_.evaluation->MeanLoss([&]() -> absl::StatusOr<bool> {
                       ASSIGN_OR_RETURN(const ControlWord all, AgreeOn(Request()));
                       return all.stop;
                     }));
    waits_.evaluation = {{begin, NowNanoseconds()}};
    if (loss.has_value()) NoteLoss(*loss);
    return absl::OkStatus();
  }

  void NoteLoss(double loss) {
    const EvaluationConfig& config = c_.config.evaluation;
    // A history of other data is no reference for this data.
    if (state_.held_out.of != config.of) state_.held_out = {.of = config.of};
    CountLoss(loss, config.early_stop, &state_.held_out);
    v1alpha1::Evaluation& evaluation = evaluated_.emplace();
    evaluation.set_loss(loss);
    evaluation.set_perplexity(std::exp(loss));
    evaluation.set_tokens(c_.evaluation->tokens());
    const Interval spent = waits_.evaluation.front();
    evaluation.set_seconds(static_cast<double>(spent.end - spent.begin) * 1e-9);
    evaluation.set_best_loss(state_.held_out.best_loss);
    spdlog::info("step {} held-out loss {:.4f} perplexity {:.3f} best {:.4f} seconds {:.3f}",
                 state_.step, loss, evaluation.perplexity(), evaluation.best_loss(),
                 evaluation.seconds());
  }

  bool EarlyStopped() const {
    return evaluated_.has_value() && state_.step < c_.config.steps &&
           StoppedImproving(state_.held_out, c_.config.evaluation.early_stop);
  }

  std::string EarlyStopMessage() const {
    const EarlyStopRule& rule = c_.config.evaluation.early_stop;
    const HeldOutState& state = state_.held_out;
    return absl::StrFormat(
        "step %d of %d: held-out loss %.4f, not below %.4f%s in %d evaluation%s; the lowest was "
        "%.4f",
        state_.step, c_.config.steps, evaluated_->loss(), state.better_loss,
        rule.min_improvement > 0 ? absl::StrFormat(" by more than %g", rule.min_improvement) : "",
        state.without_better, state.without_better == 1 ? "" : "s", state.best_loss);
  }

  // The step that fails the job saves nothing: its updates may not have waited for the norm.
  absl::Status MaybeCheckpoint() {
    const bool due =
        !c_.config.checkpoint_disabled && (IsDue(c_.config.checkpoint_interval) || EarlyStopped());
    const bool last = state_.step == c_.config.steps || EarlyStopped();
    if (TooManyNotFinite() ? !checkpoints_.under_way() : !due) return absl::OkStatus();
    const int64_t begin = NowNanoseconds();
    RETURN_IF_ERROR(TooManyNotFinite() ? checkpoints_.Finish().status()
                    : last             ? SaveLast()
                                       : checkpoints_.Begin(state_));
    waits_.checkpoint.push_back({begin, NowNanoseconds()});
    return absl::OkStatus();
  }

  void ReportStep() {
    const Instant now = ReadClocks(NowNanoseconds);
    const double seconds = now.raw - begin_.raw;
    const StepLedger ledger = ComputeLedger(c_.engine.program(), c_.engine.executor().intervals(),
                                            waits_, {begin_.steady, now.steady});
    v1alpha1::RankReport report;
    v1alpha1::StepReport* step = report.mutable_step();
    step->set_rank(c_.config.rank.value());
    step->set_step(state_.step);
    step->set_loss(loss_);
    step->set_grad_norm(c_.engine.clip_state()[kGradNorm]);
    step->set_learning_rate(c_.engine.scalars()[kLearningRate]);
    step->set_tokens(c_.config.engine.sequences_per_step() *
                     c_.config.engine.model.sequence_length);
    // Each rank reports an equal share of the FLOP.
    step->set_model_flops(static_cast<double>(step->tokens()) *
                          FlopsPerToken(c_.config.engine.model) / c_.config.engine.world_size());
    step->set_wall_seconds(seconds);
    *step->mutable_ledger() = ToMessage(ledger, seconds, preemption_.Take());
    if (evaluated_.has_value()) *step->mutable_evaluation() = *evaluated_;
    step->set_update_skipped(Skipped());
    step->set_norm_not_finite(not_finite_);
    *step->mutable_end_time() =
        google::protobuf::util::TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(now.wall));
    spdlog::info("step {} loss {:.4f} grad_norm {:.3f} seconds {:.3f} overlap {:.3f}", state_.step,
                 step->loss(), step->grad_norm(), ledger.seconds, ledger.overlap_ratio());
    // Record the trace before the report, so that whoever learns of a step can see its trace.
    c_.trace.Record(*step, c_.engine.executor().intervals(), waits_, {begin_.steady, now.steady},
                    begin_.wall);
    begin_ = now;
    waits_.checkpoint.clear();
    c_.reporter.Send(std::move(report));
  }

  const TrainContext& c_;
  TrainState state_;
  Checkpointing checkpoints_;
  HostWaits waits_;
  PreemptionMeter preemption_;
  Instant begin_;                                  // of the step: the end of the previous one
  int64_t targets_ = 0;                            // of the step, whose losses count
  double loss_ = 0;                                // of the last step
  std::optional<v1alpha1::Evaluation> evaluated_;  // the evaluation after the last step
  std::string unsaved_;                 // why the end of training could not be saved; else empty
  std::optional<TrainResult> stopped_;  // by a request that ended the tries to save that
  bool started_ = false;                // the first step of this run is done
  bool not_finite_ = false;             // the gradient norm of the last step
  int not_finite_in_a_row_ = 0;
};

}  // namespace

TrainResult Train(const TrainContext& context, TrainState state) {
  return Loop(context, std::move(state)).Run();
}

}  // namespace stretto::trainer
