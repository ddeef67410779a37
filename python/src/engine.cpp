#include "python/src/engine.h"

#include <nanobind/nanobind.h>
#include <unistd.h>

#include "python/src/interpreter.h"
#include "python/src/interruptible.h"

namespace nb = nanobind;

namespace anydim::python {

namespace {

// What masked_rows='zero' asked for and cannot be had; empty: nothing.
std::string padding_kept(const Model& model) {
  const std::string &kept = model.hidden_rows_kept_because(), &padded = model.padded_because();
  if (kept.empty() && padded.empty()) return {};
  std::string text = "masked_rows='zero' was asked for, and";
  if (!padded.empty()) text += " rows that a mask hides are computed all the same (" + padded + ")";
  if (!kept.empty())
    text += (padded.empty() ? " hidden" : "; hidden") +
            (" rows of results are not zero but as the model computes them (" + kept + ")");
  return text;
}

}  // namespace

CompileOptions options_of(const Words& words) {
  CompileOptions options;
  bool database = false;
  for (const auto& [name, value] : words) {
    set_option(options, name, value);
    database = database || name == "database";
  }
  require_device_has(options);
  if (!database) use_own_database(options);
  return options;
}

bool signal_raised() {
  if (interpreter_ends()) return true;
  const nb::gil_scoped_acquire held;
  return PyErr_CheckSignals() != 0;
}

std::shared_ptr<Engine> Engine::compile(std::function<ir::Module()> load, const Words& words,
                                        int level) {
  const std::shared_ptr<Engine> engine(new Engine);
  CompileOptions options = options_of(words);
  options.warn = [warnings = engine->warnings_](const std::string& message) {
    warnings->add(message);
  };
  interruptible([&](const std::shared_ptr<Cancellation>& cancellation) {
    options.cancellation = cancellation;
    engine->model_ = Model::compile(load(), options);
  });
  engine->process_ = getpid();
  if (options.masked_rows == MaskedRows::Zero) {
    if (const std::string& reason = engine->model_->hidden_rows_kept_because(); !reason.empty())
      engine->warnings_->drop_ending(reason);
    if (const std::string text = padding_kept(*engine->model_); !text.empty())
      warn("PaddingWarning", text, level);
  }
  engine->warnings_->issue(level);
  return engine;
}

bool Engine::made_here() const { return process_ == getpid(); }

std::shared_ptr<const RaggedProgram> Engine::ragged() {
  std::shared_ptr<const RaggedProgram> program;
  interruptible([&](const std::shared_ptr<Cancellation>& cancellation) {
    program = model_->ragged(cancellation);
  });
  return program;
}

Engine::Seat Engine::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      Seat seat = std::move(idle_.back());
      idle_.pop_back();
      return seat;
    }
  }
  Seat seat{std::make_unique<ModelContext>(model_), std::make_shared<Cancellation>(signal_raised)};
  seat.context->cancel_by(seat.signals);
  return seat;
}

void Engine::give_back(Seat seat) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(seat));
}

void Engine::synchronize() {
  const nb::gil_scoped_release released;
  std::vector<Seat> seats;
  {
    const std::lock_guard lock(mutex_);
    seats.swap(idle_);
  }
  std::exception_ptr first;
  for (Seat& seat : seats) {
    try {
      seat.context->synchronize();
    } catch (...) {
      if (first == nullptr) first = std::current_exception();
    }
    give_back(std::move(seat));
  }
  if (first != nullptr) std::rethrow_exception(first);
}

std::vector<ir::Tensor> Engine::call(
    const std::function<std::vector<ir::Tensor>(ModelContext&)>& work,
    std::shared_ptr<Cancellation> cancellation) {
  std::vector<ir::Tensor> results;
  try {
    const nb::gil_scoped_release released;
    Seat seat = take();
    if (cancellation != nullptr) seat.context->cancel_by(cancellation);
    const auto end = [&] {
      if (cancellation != nullptr) seat.context->cancel_by(seat.signals);
      seat.signals->reset();
      give_back(std::move(seat));
    };
    try {
      results = work(*seat.context);
    } catch (...) {
      end();
      throw;
    }
    end();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Cancelled && PyErr_Occurred() != nullptr)
      throw nb::python_error();  // KeyboardInterrupt
    throw;
  }
  return results;
}

}  // namespace anydim::python
