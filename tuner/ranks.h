// Many machines on one run: `mpirun -n N anydim tune ...`.
//
// Rank 0 searches, hands out candidates and alone writes the database; every other rank measures
// with workers of its own. Ranks of another environment (device, compiler, threads) are sent home:
// their times would mean something else.
//
// A rank that measures says so twice a second. One that dies under a launcher that lets the others
// go on (mpirun --enable-recovery) is given up once it has been silent for a while: its work goes
// to others. By default mpirun ends all of them; then the database holds what was measured before.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tuner/environment.h"
#include "tuner/tune.h"

namespace anydim::tuner {

// Processes that mpirun started together with this one; 1 without it.
int started_ranks();

class Ranks {
 public:
  // Joins the others. Rank 0 gives up one that measures and says nothing for so long. Throws
  // Error{Resource} where this build has no MPI.
  explicit Ranks(double longest_silence_seconds);
  ~Ranks();  // of rank 0: sends the others home
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const;
  int size() const;

  // Rank 0, once: a device that spreads candidates over the ranks of this environment.
  // `interrupted` is asked several times a second. Throws Error{Resource} where no other rank has
  // the environment. The device lives as long as this.
  TuneDevice device(const Environment& environment, const std::function<bool()>& interrupted);
  const std::vector<std::string>& refused() const;  // ranks that were sent home, and why
  const std::vector<int>& lost() const;             // that were given up

  // The others, once: measures with `own` until rank 0 has no more work. Returns why this rank was
  // sent home, or nothing. Throws Error{Resource} where rank 0 is silent for a quarter of an hour.
  std::string serve(const Environment& environment, const TuneDevice& own);
  // The others, several times a second while they measure.
  void pulse();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace anydim::tuner
