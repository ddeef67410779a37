// What a tuning run found, as a page to look at.
#pragma once

#include "tuner/report.h"
#include "tuner/tune.h"

namespace anydim::tuner {

// Of a run that has chosen its tables.
Report report_of(const TuneSubject& subject, const TuneResult& result);

}  // namespace anydim::tuner
