// What the chosen tables lose on calls that were never measured.
#pragma once

#include <functional>

#include "tuner/observed.h"

namespace anydim::tuner {

// Times the finalists at unseen calls, twice and then for as many rounds more as settle the report
// or as there is time for, and fills in TuneResult::regret and regret_share. Regions where a call
// spends most come first; what no time is left for is left out. `result`: latencies, kernels and
// partition are there. An interruption costs the report alone.
void measure_regret(const TuneSubject& subject, const Observed& unseen, const TuneRules& rules,
                    const TuneDevice& device, const std::function<double()>& seconds_left,
                    TuneResult& result);

}  // namespace anydim::tuner
