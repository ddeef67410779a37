// What a tuning run found: as a page to look at, and as the database keeps it.
#pragma once

#include <string>

#include "tuner/report.h"
#include "tuner/tune.h"

namespace anydim::tuner {

// What a run that has chosen its tables reports.
Report report_of(const TuneSubject& subject, const TuneResult& result);

// JSON, for ModelRun::report: what was tried, and the regret where it was measured. `fingerprint`:
// of regions, calls and limits, by which a finished run is known again.
std::string report_text(const TuneResult& result, const std::string& fingerprint);

}  // namespace anydim::tuner
