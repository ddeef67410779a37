// The functions that turn one node into bindings, one or more for each row of
// frontends/onnx_ops.def, by family. Each reads the node's operands and attributes, emits bindings
// and gives the outputs; what a row already states (counts of inputs and outputs, element types of
// the first input) has been checked.
#pragma once

#include "frontends/onnx/node.h"

namespace anydim::frontends {

// What real numbers of a type are computed in where 16 bits are too few.
inline ir::DType computed_in(ir::DType dtype) {
  return dtype == ir::DType::F64 ? ir::DType::F64 : ir::DType::F32;
}

// importers_elementwise.cpp
void import_elementwise(Node& node, ir::Op op);  // operands of one element type
void import_fold(Node& node, ir::Op op);         // op over all operands from left to right
void import_cast(Node& node);
void import_bitcast(Node& node);
void import_cast_like(Node& node);
void import_clip(Node& node);
void import_clip_attributes(Node& node);
void import_is_inf(Node& node);
void import_mean(Node& node);
void import_mod(Node& node);
void import_pow(Node& node);
void import_where(Node& node);

// importers_activations.cpp
void import_celu(Node& node);
void import_elu(Node& node);
void import_gelu(Node& node);
void import_hard_sigmoid(Node& node);
void import_hard_swish(Node& node);
void import_leaky_relu(Node& node);
void import_mish(Node& node);
void import_prelu(Node& node);
void import_selu(Node& node);
void import_shrink(Node& node);
void import_softplus(Node& node);
void import_softsign(Node& node);
void import_thresholded_relu(Node& node);
void import_swish(Node& node);
void import_swiglu(Node& node);
void import_exact_gelu(Node& node);  // of com.microsoft, as the next five
void import_bias_add(Node& node);
void import_bias_split_gelu(Node& node);
void import_bias_gelu(Node& node);
void import_fast_gelu(Node& node);
void import_quick_gelu(Node& node);

// importers_values.cpp
void import_constant(Node& node);
void import_constant_of_shape(Node& node);
void import_identity(Node& node);
void import_range(Node& node);
void import_shape(Node& node);
void import_hann_window(Node& node);
void import_hamming_window(Node& node);
void import_blackman_window(Node& node);
void import_size(Node& node);

// importers_movement.cpp
void import_concat(Node& node);
void import_expand(Node& node);
void import_flatten(Node& node);
void import_gather(Node& node);
void import_gather_elements(Node& node);
void import_gather_nd(Node& node);
void import_reshape(Node& node);
void import_slice(Node& node);
void import_slice_attributes(Node& node);
void import_split(Node& node);
void import_split_attribute(Node& node);
void import_squeeze(Node& node);
void import_squeeze_attribute(Node& node);
void import_tile(Node& node);
void import_transpose(Node& node);
void import_trilu(Node& node);
void import_unsqueeze(Node& node);
void import_unsqueeze_attribute(Node& node);

// importers_reductions.cpp
void import_reduce(Node& node,
                   ir::Op op);  // a static reduction, or its dynamic twin where axes are a tensor
void import_reduce_l1(Node& node);
void import_reduce_l2(Node& node);
void import_reduce_log_sum(Node& node);
void import_reduce_log_sum_exp(Node& node);
void import_reduce_sum_square(Node& node);

// importers_products.cpp
void import_flattened_softmax(Node& node,
                              ir::Op op);  // opset 12 and before: over all dims from axis on
void import_gemm(Node& node);
void import_fused_gemm(Node& node);  // of com.microsoft, as the next
void import_fused_matmul(Node& node);
void import_matmul(Node& node);
void import_softmax(Node& node, ir::Op op);

// importers_boxes.cpp
void import_max_roi_pool(Node& node);
void import_roi_align(Node& node);

// importers_linear_algebra.cpp
void import_determinant(Node& node);
void import_inverse(Node& node);  // of com.microsoft, as the next
void import_distances(Node& node);

// importers_layer_norms.cpp
void import_layer_normalization(Node& node);
void import_rms_normalization(Node& node);
void import_skip_layer_normalization(Node& node);
void import_skip_rms_normalization(Node& node);
void import_embed_layer_normalization(Node& node);
void import_quantised_embed_layer_normalization(Node& node);

// importers_attention.cpp
void import_attention(Node& node);
void import_flex_attention(Node& node);
void import_rotary_embedding(Node& node);

// importers_state.cpp
void import_tensor_scatter(Node& node);
void import_causal_conv(Node& node);
void import_linear_attention(Node& node);
void import_cumulative_product(Node& node);

// importers_training.cpp
void import_adagrad(Node& node);
void import_adam(Node& node);
void import_momentum(Node& node);

// importers_losses.cpp
void import_negative_log_likelihood(Node& node);
void import_softmax_cross_entropy(Node& node);

// importers_convolution.cpp
void import_convolution(Node& node);
void import_fused_convolution(Node& node);  // of com.microsoft
void import_integer_convolution(Node& node);
void import_quantised_convolution(Node& node);
void import_deformable_convolution(Node& node);

// importers_transposed_convolution.cpp
void import_transposed_convolution(Node& node);

// importers_pooling.cpp
void import_average_pool(Node& node);
void import_column_to_image(Node& node);
void import_global_lp_pool(Node& node);
void import_global_pool(Node& node, ir::Op op);  // op reduces over all but batch and channels
void import_lp_pool(Node& node);
void import_max_pool(Node& node);
void import_max_unpool(Node& node);

// importers_quantisation.cpp
void import_quantize_linear(Node& node);
void import_dequantize_linear(Node& node);
void import_dynamic_quantize_linear(Node& node);
void import_matmul_integer(Node& node);
void import_qlinear_matmul(Node& node);
void import_runtime_quantize_linear(Node& node);  // of com.microsoft, as the next
void import_runtime_dequantize_linear(Node& node);

// importers_runtime_quantisation.cpp
void import_dynamic_quantize_matmul(Node& node);
void import_matmul_integer_to_float(Node& node);
void import_matmul_n_bits(Node& node);
void import_gather_block_quantized(Node& node);

// importers_runtime_attention.cpp
void import_runtime_attention(Node& node);
void import_relative_position_bias(Node& node);
void import_quantised_attention(Node& node);
template <ir::Op op>
void import_quantised_binary(Node& node);
void import_quantised_average_pool(Node& node);
void import_quantised_concat(Node& node);
void import_quantised_gemm(Node& node);
void import_quantised_global_average_pool(Node& node);
void import_quantised_leaky_relu(Node& node);
void import_quantised_sigmoid(Node& node);
void import_quantised_softmax(Node& node);
void import_quantised_where(Node& node);
void import_multi_head_attention(Node& node);
void import_group_query_attention(Node& node);
void import_runtime_rotary_embedding(Node& node);

// importers_indexing.cpp
void import_arg(Node& node, ir::Op op);
void import_cumulative_sum(Node& node);
void import_top_k(Node& node);
void import_one_hot(Node& node);
void import_hardmax(Node& node);
void import_flattened_hardmax(Node& node);  // opset 12 and before: over all dims from axis on
void import_scatter_elements(Node& node);
void import_scatter_nd(Node& node);
void import_eye_like(Node& node);
void import_reverse_sequence(Node& node);
void import_depth_to_space(Node& node);
void import_space_to_depth(Node& node);
void import_pad(Node& node);
void import_center_crop_pad(Node& node);
void import_pad_attributes(Node& node);
void import_bit_shift(Node& node);

// importers_counts.cpp
void import_nonzero(Node& node);
void import_compress(Node& node);
void import_unique(Node& node);
void import_non_max_suppression(Node& node);

// importers_random.cpp
void import_random_normal(Node& node);
void import_random_uniform(Node& node);
void import_random_normal_like(Node& node);
void import_random_uniform_like(Node& node);
void import_bernoulli(Node& node);
void import_multinomial(Node& node);
void import_dropout(Node& node);

// importers_sampling.cpp
void import_grid_sample(Node& node);
void import_affine_grid(Node& node);

// importers_resize.cpp
void import_resize(Node& node);
void import_dft(Node& node);
void import_stft(Node& node);
void import_mel_weight_matrix(Node& node);
void import_upsample(Node& node);  // and Resize of opset 10

// importers_einsum.cpp
void import_einsum(Node& node);

// importers_normalisation.cpp
void import_batch_normalization(Node& node);
void import_instance_normalization(Node& node);
void import_group_norm(Node& node);  // of com.microsoft, as the next
void import_skip_group_norm(Node& node);
void import_group_normalization(Node& node);
void import_lp_normalization(Node& node);
void import_mean_variance_normalization(Node& node);
void import_local_response_normalization(Node& node);
// importers_control.cpp
void import_if(Node& node);
void import_loop(Node& node);
void import_scan(Node& node);
void import_batched_scan(Node& node);  // opset 8

// importers_sequences.cpp
void import_sequence_empty(Node& node);
void import_sequence_construct(Node& node);
void import_sequence_insert(Node& node);
void import_sequence_erase(Node& node);
void import_sequence_at(Node& node);
void import_sequence_length(Node& node);
void import_concat_from_sequence(Node& node);
void import_split_to_sequence(Node& node);
void import_sequence_map(Node& node);
void import_optional(Node& node);
void import_optional_has_element(Node& node);
void import_optional_get_element(Node& node);

// importers_recurrent.cpp
void import_rnn(Node& node);
void import_gru(Node& node);
void import_lstm(Node& node);
void import_dynamic_quantize_lstm(Node& node);

// Rows of the table that share an importer.
template <ir::Op op>
void import_elementwise(Node& node) {
  import_elementwise(node, op);
}
template <ir::Op op>
void import_fold(Node& node) {
  import_fold(node, op);
}
template <ir::Op op>
void import_arg(Node& node) {
  import_arg(node, op);
}
template <ir::Op op>
void import_global_pool(Node& node) {
  import_global_pool(node, op);
}
template <ir::Op op>
void import_reduce(Node& node) {
  import_reduce(node, op);
}
template <ir::Op op>
void import_softmax(Node& node) {
  import_softmax(node, op);
}
template <ir::Op op>
void import_flattened_softmax(Node& node) {
  import_flattened_softmax(node, op);
}

// importers_ml_features.cpp: ai.onnx.ml, as the next
void import_array_feature_extractor(Node& node);
void import_binarizer(Node& node);
void import_feature_vectorizer(Node& node);
void import_imputer(Node& node);
void import_label_encoder(Node& node);
void import_normalizer(Node& node);
void import_one_hot_encoder(Node& node);
void import_scaler(Node& node);

// importers_ml_linear.cpp
void import_linear_classifier(Node& node);
void import_linear_regressor(Node& node);

// importers_ml_trees.cpp
void import_tree_ensemble(Node& node);
void import_tree_ensemble_classifier(Node& node);
void import_tree_ensemble_regressor(Node& node);

// importers_ml_vectors.cpp
void import_svm_classifier(Node& node);
void import_svm_regressor(Node& node);

}  // namespace anydim::frontends
