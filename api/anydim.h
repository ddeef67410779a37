// The facade: load a model, compile it, run it.
//
//   auto module = anydim::load_model("model.onnx");
//   auto executable = anydim::compile(std::move(module), {.threads = 2});
//   anydim::runtime::Context context(executable);  // one a thread
//   const auto inputs = anydim::inputs_of(executable->program());
//   auto outputs = context.run(anydim::arrange_inputs(inputs, {{"x", tensor}}));
#pragma once

#include "api/compile.h"
#include "api/explain.h"
#include "api/explain_model.h"
#include "api/explain_page.h"
#include "api/gpu_bench.h"
#include "api/inputs.h"
#include "api/load.h"
#include "api/model.h"
#include "api/option_text.h"
#include "api/options.h"
#include "api/recording.h"
#include "api/result_places.h"
#include "api/specialize.h"
#include "api/system.h"
#include "api/timeline_file.h"
#include "api/tuning.h"
#include "ir/error.h"
#include "ir/printable.h"
#include "ir/random_tensor.h"
#include "ir/shapes/bind.h"
#include "ir/tensor.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "tuner/json.h"
#include "tuner/text_file.h"
