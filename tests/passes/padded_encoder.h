// A small encoder with a mask, written with whatever bias a test wants, and run padded and packed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"
#include "passes/remove_padding.h"

namespace anydim::passes {

// One layer with two heads; positions added to the embedding of ids.
struct Encoder {
  std::string mask_type = "i64";
  std::string bias;    // bindings that make %bias of %mask
  std::string tail{};  // bindings after %h: Tensor[(b, s, 8), f32]
  std::string results = "%h";
  std::string keys = "%n";       // what keys are a product of
  std::string inputs{};          // further parameters, each after a comma
  std::string epsilon = "1e-5";  // of the layer norm
  std::string before{};          // bindings after %n, before keys
  std::string mask = "%m";       // what %m is, or "%ids": the ids are the mask, and there is no %m
};

std::string text_of(const Encoder& encoder);
ir::Module module_of(const Encoder& encoder);
// (1 - mask) * lowest float
extern const std::string additive;
// Mean of %h over the rows that take part: %mean.
extern const std::string mean_pooling;

// Runs both forms; padded rows of results with rows are compared where they take part, and are 0
// elsewhere.
void expect_same(const Encoder& encoder, ir::DType mask_dtype, std::int64_t kept = 1);
// Why it is not packed; "packed" where it is.
std::string refusal(const Encoder& encoder, bool zero_hidden = true);

}  // namespace anydim::passes
