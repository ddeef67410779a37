// The tuner, for those that hold models: what `anydim tune` and its workers are made of.
#pragma once

#include "api/planned.h"
#include "api/sample_inputs.h"
#include "runtime/guarded_memory.h"
#include "tuner/database.h"
#include "tuner/distribution.h"
#include "tuner/measure.h"
#include "tuner/observed.h"
#include "tuner/ranks.h"
#include "tuner/region_bench.h"
#include "tuner/roofline.h"
#include "tuner/still_devices.h"
#include "tuner/text_hash.h"
#include "tuner/trace.h"
#include "tuner/tune.h"
#include "tuner/tune_report.h"
#include "tuner/workload.h"
