"""The architectures of the zoo: small, with random weights, as transformers builds them.

A row of TABLE says which configuration and which model class of transformers, with what sizes, and
what the model reads. `build` makes the module that is exported, its example inputs and the names of
the dims that only a run tells.
"""
import dataclasses

HIDDEN, HEADS, LAYERS, VOCABULARY, LONGEST = 64, 4, 2, 200, 130

# Names of the sizes differ from family to family; a configuration takes those that it has.
SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": HIDDEN, "d_model": HIDDEN, "n_embd": HIDDEN,
    "dim": HIDDEN, "embedding_size": HIDDEN, "num_hidden_layers": LAYERS, "num_layers": LAYERS,
    "n_layer": LAYERS, "n_layers": LAYERS, "encoder_layers": LAYERS, "decoder_layers": LAYERS,
    "num_attention_heads": HEADS, "num_heads": HEADS, "n_head": HEADS, "n_heads": HEADS,
    "encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS, "intermediate_size": 128,
    "ffn_dim": 128, "d_ff": 128, "n_inner": 128, "hidden_dim": 128, "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128, "d_kv": 16, "head_dim": 16, "num_key_value_heads": 2,
    "max_position_embeddings": LONGEST, "n_positions": LONGEST, "max_seq_len": LONGEST,
    "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2,
}


@dataclasses.dataclass
class Row:
    config: str  # a class of transformers; empty: the model is torch.nn's, made of the sizes
    model: str  # a class of transformers, or of torch.nn
    kind: str = "text"  # text, image, features (batch, 80, time), wave (batch, samples), vectors
    # (batch, steps, width), decoder (a text without a cache), step (with one), cross (a step that
    # reads the encoder's states), crossed (a step with a cache of what the encoder gave, too)
    sizes: dict = dataclasses.field(default_factory=dict)
    part: str = ""  # attribute of the model that is exported; empty: the model
    output: str = ""  # field of the result; empty: the first
    full: bool = False  # of full size: what its configuration's class takes where nothing is said
    caches: dict = dataclasses.field(default_factory=dict)  # of a step: shape by name, as built
    source: tuple = (0, 0)  # length (0: as a call says) and width of the encoder's states, as built


EMBEDDED = {"emb_dim": HIDDEN, "n_heads": HEADS, "n_layers": LAYERS}
IMAGE = {"image_size": 32, "patch_size": 8, "num_channels": 3}
STAGES = {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 32, 32]}
WAVE = {"conv_dim": [32, 32], "conv_stride": [5, 2], "conv_kernel": [10, 3],
        "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
        "num_feat_extract_layers": 2}

TABLE = {
    "bert": Row("BertConfig", "BertModel", output="last_hidden_state"),
    "bert_pooled": Row("BertConfig", "BertModel", output="pooler_output"),
    "bert_classifier": Row("BertConfig", "BertForSequenceClassification"),
    "bert_tokens": Row("BertConfig", "BertForTokenClassification"),
    "bert_masked": Row("BertConfig", "BertForMaskedLM"),
    "roberta": Row("RobertaConfig", "RobertaModel", output="last_hidden_state"),
    "roberta_classifier": Row("RobertaConfig", "RobertaForSequenceClassification"),
    "xlm_roberta": Row("XLMRobertaConfig", "XLMRobertaModel", output="last_hidden_state"),
    "camembert": Row("CamembertConfig", "CamembertModel", output="last_hidden_state"),
    "distilbert": Row("DistilBertConfig", "DistilBertModel"),
    "albert": Row("AlbertConfig", "AlbertModel", output="last_hidden_state"),
    "electra": Row("ElectraConfig", "ElectraModel"),
    "mpnet": Row("MPNetConfig", "MPNetModel", output="last_hidden_state"),
    "deberta_v2": Row("DebertaV2Config", "DebertaV2Model", sizes={
        "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 32,
        "norm_rel_ebd": "layer_norm", "share_att_key": True, "position_biased_input": False}),
    "deberta": Row("DebertaConfig", "DebertaModel", sizes={
        "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    "modernbert": Row("ModernBertConfig", "ModernBertModel", sizes={
        "local_attention": 16, "global_attn_every_n_layers": 2, "reference_compile": False}),
    "ernie": Row("ErnieConfig", "ErnieModel", output="last_hidden_state"),
    "megatron_bert": Row("MegatronBertConfig", "MegatronBertModel", output="last_hidden_state"),
    "mobilebert": Row("MobileBertConfig", "MobileBertModel", sizes={
        "embedding_size": 32, "intra_bottleneck_size": 32}, output="last_hidden_state"),
    "squeezebert": Row("SqueezeBertConfig", "SqueezeBertModel", output="last_hidden_state"),
    "roformer": Row("RoFormerConfig", "RoFormerModel"),
    "convbert": Row("ConvBertConfig", "ConvBertModel"),
    "nystromformer": Row("NystromformerConfig", "NystromformerModel", sizes={
        "num_landmarks": 8, "segment_means_seq_len": 64}),
    "esm": Row("EsmConfig", "EsmModel", sizes={
        "position_embedding_type": "rotary", "mask_token_id": 3}, output="last_hidden_state"),
    "data2vec_text": Row("Data2VecTextConfig", "Data2VecTextModel", output="last_hidden_state"),
    "rembert": Row("RemBertConfig", "RemBertModel", sizes={"input_embedding_size": 32},
                   output="last_hidden_state"),
    "t5_encoder": Row("T5Config", "T5EncoderModel", sizes={
        "relative_attention_num_buckets": 32}),
    "umt5_encoder": Row("UMT5Config", "UMT5EncoderModel"),
    "bart_encoder": Row("BartConfig", "BartModel", part="encoder"),
    "marian_encoder": Row("MarianConfig", "MarianModel", part="encoder", sizes={
        "decoder_start_token_id": 1}),
    "m2m100_encoder": Row("M2M100Config", "M2M100Model", part="encoder"),
    "layoutlm": Row("LayoutLMConfig", "LayoutLMModel", output="last_hidden_state"),
    "xlm": Row("XLMConfig", "XLMModel", sizes=EMBEDDED),
    "flaubert": Row("FlaubertConfig", "FlaubertModel", sizes=EMBEDDED),
    "fnet": Row("FNetConfig", "FNetModel"),
    "big_bird": Row("BigBirdConfig", "BigBirdModel", sizes={"attention_type": "original_full"}),
    "ibert": Row("IBertConfig", "IBertModel"),
    "luke": Row("LukeConfig", "LukeModel", sizes={"entity_vocab_size": 50, "entity_emb_size": 32}),
    "splinter": Row("SplinterConfig", "SplinterModel"),
    "xmod": Row("XmodConfig", "XmodModel", sizes={
        "languages": ["en_XX"], "default_language": "en_XX"}),
    "pegasus_encoder": Row("PegasusConfig", "PegasusModel", part="encoder"),
    "blenderbot_encoder": Row("BlenderbotConfig", "BlenderbotModel", part="encoder"),
    "mbart_encoder": Row("MBartConfig", "MBartModel", part="encoder"),
    "longt5_encoder": Row("LongT5Config", "LongT5EncoderModel", sizes={"local_radius": 7}),
    "clip_text": Row("CLIPTextConfig", "CLIPTextModel", output="last_hidden_state"),
    "clip_text_pooled": Row("CLIPTextConfig", "CLIPTextModel", output="pooler_output"),
    "gpt2": Row("GPT2Config", "GPT2LMHeadModel", "decoder"),
    "gpt_neo": Row("GPTNeoConfig", "GPTNeoForCausalLM", "decoder", sizes={
        "attention_types": [[["global", "local"], 1]], "window_size": 16}),
    "gptj": Row("GPTJConfig", "GPTJForCausalLM", "decoder", sizes={"rotary_dim": 8}),
    "gpt_neox": Row("GPTNeoXConfig", "GPTNeoXForCausalLM", "decoder"),
    "opt": Row("OPTConfig", "OPTForCausalLM", "decoder", sizes={"word_embed_proj_dim": HIDDEN}),
    "bloom": Row("BloomConfig", "BloomForCausalLM", "decoder"),
    "falcon": Row("FalconConfig", "FalconForCausalLM", "decoder"),
    "mpt": Row("MptConfig", "MptForCausalLM", "decoder"),
    "llama": Row("LlamaConfig", "LlamaForCausalLM", "decoder"),
    "mistral": Row("MistralConfig", "MistralForCausalLM", "decoder", sizes={"sliding_window": 16}),
    "qwen2": Row("Qwen2Config", "Qwen2ForCausalLM", "decoder"),
    "qwen3": Row("Qwen3Config", "Qwen3ForCausalLM", "decoder"),
    "gemma": Row("GemmaConfig", "GemmaForCausalLM", "decoder"),
    "gemma2": Row("Gemma2Config", "Gemma2ForCausalLM", "decoder", sizes={
        "query_pre_attn_scalar": 16, "sliding_window": 16}),
    "gemma3": Row("Gemma3TextConfig", "Gemma3ForCausalLM", "decoder", sizes={
        "query_pre_attn_scalar": 16, "sliding_window": 16}),
    "phi": Row("PhiConfig", "PhiForCausalLM", "decoder"),
    "phi3": Row("Phi3Config", "Phi3ForCausalLM", "decoder"),
    "stablelm": Row("StableLmConfig", "StableLmForCausalLM", "decoder"),
    "starcoder2": Row("Starcoder2Config", "Starcoder2ForCausalLM", "decoder"),
    "olmo2": Row("Olmo2Config", "Olmo2ForCausalLM", "decoder"),
    "smollm3": Row("SmolLM3Config", "SmolLM3ForCausalLM", "decoder"),
    "granite": Row("GraniteConfig", "GraniteForCausalLM", "decoder"),
    "cohere": Row("CohereConfig", "CohereForCausalLM", "decoder"),
    "llama_classifier": Row("LlamaConfig", "LlamaForSequenceClassification", "decoder"),
    "codegen": Row("CodeGenConfig", "CodeGenForCausalLM", "decoder", sizes={"rotary_dim": 8}),
    "gpt_bigcode": Row("GPTBigCodeConfig", "GPTBigCodeForCausalLM", "decoder"),
    "persimmon": Row("PersimmonConfig", "PersimmonForCausalLM", "decoder"),
    "olmo": Row("OlmoConfig", "OlmoForCausalLM", "decoder"),
    "nemotron": Row("NemotronConfig", "NemotronForCausalLM", "decoder"),
    "glm": Row("GlmConfig", "GlmForCausalLM", "decoder"),
    "helium": Row("HeliumConfig", "HeliumForCausalLM", "decoder"),
    "cohere2": Row("Cohere2Config", "Cohere2ForCausalLM", "decoder"),
    "xglm": Row("XGLMConfig", "XGLMForCausalLM", "decoder", sizes={"attention_heads": HEADS}),
    "biogpt": Row("BioGptConfig", "BioGptForCausalLM", "decoder"),
    "bert_causal": Row("BertConfig", "BertLMHeadModel", "decoder", sizes={"is_decoder": True}),
    "vit": Row("ViTConfig", "ViTModel", "image", sizes=IMAGE, output="last_hidden_state"),
    "deit": Row("DeiTConfig", "DeiTModel", "image", sizes=IMAGE, output="last_hidden_state"),
    "beit": Row("BeitConfig", "BeitModel", "image", sizes=IMAGE, output="last_hidden_state"),
    "dinov2": Row("Dinov2Config", "Dinov2Model", "image", sizes=IMAGE,
                  output="last_hidden_state"),
    "clip_vision": Row("CLIPVisionConfig", "CLIPVisionModel", "image", sizes=IMAGE,
                       output="last_hidden_state"),
    "siglip_vision": Row("SiglipVisionConfig", "SiglipVisionModel", "image", sizes=IMAGE,
                         output="last_hidden_state"),
    "swin": Row("SwinConfig", "SwinModel", "image", sizes={
        "image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4],
        "window_size": 4}, output="last_hidden_state"),
    "resnet": Row("ResNetConfig", "ResNetForImageClassification", "image", sizes={
        "embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1]}),
    "convnext": Row("ConvNextConfig", "ConvNextForImageClassification", "image", sizes={
        "hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2}),
    "mobilenet_v2": Row("MobileNetV2Config", "MobileNetV2ForImageClassification", "image", sizes={
        "depth_multiplier": 0.35}),
    "vit_msn": Row("ViTMSNConfig", "ViTMSNModel", "image", sizes=IMAGE),
    "yolos": Row("YolosConfig", "YolosModel", "image", sizes={**IMAGE, "image_size": [32, 32]}),
    "segformer": Row("SegformerConfig", "SegformerModel", "image", sizes={
        **STAGES, "num_attention_heads": [1, 2, 2, 2]}),
    "regnet": Row("RegNetConfig", "RegNetModel", "image", sizes={**STAGES, "groups_width": 8}),
    "poolformer": Row("PoolFormerConfig", "PoolFormerModel", "image", sizes=STAGES),
    "focalnet": Row("FocalNetConfig", "FocalNetModel", "image", sizes={
        "image_size": 32, "embed_dim": 16, "depths": [1, 1], "hidden_sizes": [16, 32],
        "focal_levels": [2, 2], "focal_windows": [3, 3]}),
    "mobilevit": Row("MobileViTConfig", "MobileViTModel", "image", sizes={"image_size": 32}),
    "mobilenet_v1": Row("MobileNetV1Config", "MobileNetV1Model", "image", sizes={
        "depth_multiplier": 0.25}),
    "convnextv2": Row("ConvNextV2Config", "ConvNextV2Model", "image", sizes={
        "hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2}),
    "whisper_encoder": Row("WhisperConfig", "WhisperModel", "features", part="encoder", sizes={
        "num_mel_bins": 80, "max_source_positions": 50}),
    "wav2vec2": Row("Wav2Vec2Config", "Wav2Vec2Model", "wave", sizes=WAVE),
    "hubert": Row("HubertConfig", "HubertModel", "wave", sizes=WAVE),
    "wavlm": Row("WavLMConfig", "WavLMModel", "wave", sizes=WAVE),
    "unispeech": Row("UniSpeechConfig", "UniSpeechModel", "wave", sizes=WAVE),
    "sew": Row("SEWConfig", "SEWModel", "wave", sizes={**WAVE, "squeeze_factor": 2}),
    "data2vec_audio": Row("Data2VecAudioConfig", "Data2VecAudioModel", "wave", sizes={
        **WAVE, "num_conv_pos_embeddings": 2, "conv_pos_kernel_size": 7}),
    "lstm": Row("", "LSTM", "vectors", sizes={"input_size": 32, "hidden_size": HIDDEN}),
    "gru": Row("", "GRU", "vectors", sizes={"input_size": 32, "hidden_size": HIDDEN}),
    "lstm_both_ways": Row("", "LSTM", "vectors", sizes={
        "input_size": 32, "hidden_size": HIDDEN, "num_layers": 2, "bidirectional": True}),
    "gru_both_ways": Row("", "GRU", "vectors", sizes={
        "input_size": 32, "hidden_size": HIDDEN, "num_layers": 2, "bidirectional": True}),
}
for each in ("gpt2", "gpt_neo", "gptj", "gpt_neox", "opt", "bloom", "falcon", "llama", "mistral",
             "qwen2", "qwen3", "gemma", "gemma2", "phi", "gpt_bigcode"):
    TABLE[f"{each}_step"] = dataclasses.replace(TABLE[each], kind="step")
for each, config, model, sizes in (
        ("bart", "BartConfig", "BartForConditionalGeneration", {}),
        ("marian", "MarianConfig", "MarianMTModel", {"decoder_start_token_id": 1}),
        ("t5", "T5Config", "T5ForConditionalGeneration", {}),
        ("whisper", "WhisperConfig", "WhisperForConditionalGeneration", {"num_mel_bins": 80})):
    TABLE[f"{each}_decoder"] = Row(config, model, "cross", sizes)
    TABLE[f"{each}_step"] = Row(config, model, "crossed", sizes)

WHISPER_BASE = {"d_model": 512, "encoder_layers": 6, "encoder_attention_heads": 8,
                "encoder_ffn_dim": 2048, "decoder_layers": 6, "decoder_attention_heads": 8,
                "decoder_ffn_dim": 2048}
# Sizes of the Marian models for one pair of languages; its class takes those of a large one.
MARIAN_BASE = {"d_model": 512, "encoder_layers": 6, "encoder_attention_heads": 8,
               "encoder_ffn_dim": 2048, "decoder_layers": 6, "decoder_attention_heads": 8,
               "decoder_ffn_dim": 2048, "max_position_embeddings": 512}
RECURRENT = {"input_size": 128, "hidden_size": 256}

# Models of full size, for times: made where they are named, since each takes 100 MB or more.
FULL = {
    "bert_base": Row("BertConfig", "BertModel", output="last_hidden_state"),
    "modernbert_base": Row("ModernBertConfig", "ModernBertModel"),
    "gpt2_small": Row("GPT2Config", "GPT2LMHeadModel", "decoder"),
    "resnet50": Row("ResNetConfig", "ResNetForImageClassification", "image"),
    "convnext_tiny": Row("ConvNextConfig", "ConvNextForImageClassification", "image"),
    "vit_base": Row("ViTConfig", "ViTModel", "image", output="last_hidden_state"),
    "whisper_base_encoder": Row("WhisperConfig", "WhisperModel", "features", part="encoder", sizes={
        **WHISPER_BASE, "decoder_layers": 1}),
    "wav2vec2_base": Row("Wav2Vec2Config", "Wav2Vec2Model", "wave"),
    "deberta_v3_base": Row("DebertaV2Config", "DebertaV2Model", sizes={
        "vocab_size": 128100, "hidden_size": 768, "num_hidden_layers": 12,
        "num_attention_heads": 12, "intermediate_size": 3072, "type_vocab_size": 0,
        "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 256,
        "norm_rel_ebd": "layer_norm", "share_att_key": True, "position_biased_input": False}),
    "t5_base_encoder": Row("T5Config", "T5EncoderModel", sizes={
        "d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12}),
    "gpt2_small_step": Row("GPT2Config", "GPT2LMHeadModel", "step"),
    "smollm_135m_step": Row("LlamaConfig", "LlamaForCausalLM", "step", sizes={
        "vocab_size": 49152, "hidden_size": 576, "num_hidden_layers": 30,
        "num_attention_heads": 9, "num_key_value_heads": 3, "intermediate_size": 1536,
        "tie_word_embeddings": True}),
    "marian_base_decoder": Row("MarianConfig", "MarianMTModel", "cross", sizes=MARIAN_BASE),
    "marian_base_step": Row("MarianConfig", "MarianMTModel", "crossed", sizes=MARIAN_BASE),
    "whisper_base_decoder": Row("WhisperConfig", "WhisperForConditionalGeneration", "cross",
                                sizes=WHISPER_BASE),
    "whisper_base_step": Row("WhisperConfig", "WhisperForConditionalGeneration", "crossed",
                             sizes=WHISPER_BASE),
    "lstm_256": Row("", "LSTM", "vectors", sizes=RECURRENT),
    "gru_256": Row("", "GRU", "vectors", sizes=RECURRENT),
}
for each in FULL.values():
    each.full = True
TABLE |= FULL


def configuration(transformers, row):
    """The row's configuration: small wherever its class knows the size, or of full size."""
    kind = getattr(transformers, row.config)
    if row.full:
        return kind(**row.sizes)
    known = kind()
    sizes = {name: value for name, value in SIZES.items() if hasattr(known, name)}
    # A class that knows one head count and no grouped keys takes no head_dim of its own.
    if not hasattr(known, "num_key_value_heads"):
        sizes.pop("head_dim", None)
    if getattr(known, "head_dim", None) is None:
        sizes.pop("head_dim", None)
    sizes |= row.sizes
    return kind(**sizes)


def example(torch, row, batch, length, past=0):
    """Inputs of a call: name to tensor; the last third of every second text is hidden, of a cache
    the first. Images and spectrograms have one size, waves of full size are of three seconds."""
    generator = torch.Generator().manual_seed(batch * 1000 + length)
    if row.kind in ("text", "decoder"):
        ids = torch.randint(5, VOCABULARY, (batch, length), generator=generator)
        mask = torch.ones(batch, length, dtype=torch.int64)
        mask[1::2, length - length // 3:] = 0
        return {"input_ids": torch.where(mask == 1, ids, 1), "attention_mask": mask}
    if row.kind in STEPS:
        source = row.source[0] or past + 7
        sizes = {"batch": batch, "seq": length, "past": past, "total": past + length,
                 "source": source}
        inputs = {}
        for name, shape in inputs_of_step(row).items():
            shape = [sizes.get(dim, dim) for dim in shape]
            if name == "input_ids":
                inputs[name] = torch.randint(5, VOCABULARY, shape, generator=generator)
            elif name == "attention_mask":
                inputs[name] = torch.ones(shape, dtype=torch.int64)
                inputs[name][1::2, :past // 3] = 0
            elif name == "encoder_attention_mask":
                inputs[name] = torch.ones(shape, dtype=torch.int64)
                inputs[name][1::2, source - source // 3:] = 0
            else:
                inputs[name] = torch.randn(shape, generator=generator)
        return inputs
    side, frames, samples = (224, 3000, 48000) if row.full else (32, 100, 200 + 10 * length)
    shape = {"image": (batch, 3, side, side), "features": (batch, 80, frames),
             "wave": (batch, samples), "vectors": (batch, length, row.sizes.get("input_size"))}
    return {INPUTS[row.kind]: torch.randn(shape[row.kind], generator=generator)}


INPUTS = {"image": "pixel_values", "features": "input_features", "wave": "input_values",
          "vectors": "input"}
STEPS = ("step", "cross", "crossed")  # kinds with a cache


def inputs_of_step(row):
    """Shapes by name, as Optimum names them, with names for the dims that only a run tells."""
    inputs = {"input_ids": ("batch", "seq")}
    if row.kind == "step":
        inputs["attention_mask"] = ("batch", "total")
    elif row.config != "WhisperConfig":  # which reads all of its recording
        inputs["encoder_attention_mask"] = ("batch", "source")
    if row.kind == "cross":
        inputs["encoder_hidden_states"] = ("batch", "source", row.source[1])
    return inputs | row.caches


def dims_of(row):
    """Names of the dims that only a run tells: input to {axis: name}."""
    if row.kind in STEPS:
        return {name: {axis: dim for axis, dim in enumerate(shape) if isinstance(dim, str)}
                for name, shape in inputs_of_step(row).items()}
    both = {0: "batch", 1: "seq"}
    if row.kind in ("text", "decoder"):
        return {"input_ids": both, "attention_mask": both}
    dims = {"wave": {0: "batch", 1: "samples"}, "vectors": both}
    return {INPUTS[row.kind]: dims.get(row.kind, {0: "batch"})}


def outputs_of(row):
    """Names of the outputs."""
    if row.kind == "vectors":
        return ["output", "last", "last_cell"][:3 if row.model == "LSTM" else 2]
    grown = [name.replace("past_key_values", "present") for name in row.caches
             if ".encoder." not in name]
    return ["logits", *grown] if grown else ["output"]


def called(transformers, row, model, inputs):
    """A step's result for the inputs by name."""
    caches = [transformers.DynamicCache([
        (value, inputs[name[:-len("key")] + "value"]) for name, value in inputs.items()
        if name.endswith(part + ".key")]) for part in PARTS[row.kind]]
    if row.kind == "step":
        return model(inputs["input_ids"], attention_mask=inputs["attention_mask"],
                     past_key_values=caches[0], use_cache=True)
    states = inputs.get("encoder_hidden_states")
    if states is None:  # only their shape is read
        batch, _, source, _ = inputs["past_key_values.0.encoder.key"].shape
        states = inputs["past_key_values.0.encoder.key"].new_zeros(batch, source, row.source[1])
    else:
        caches.append(transformers.DynamicCache())
    mask = inputs.get("encoder_attention_mask")
    return model(encoder_outputs=(states,), decoder_input_ids=inputs["input_ids"],
                 past_key_values=transformers.EncoderDecoderCache(*caches), use_cache=True,
                 **({} if mask is None else {"attention_mask": mask}))


# What names of caches say between the layer and key or value.
PARTS = {"step": [""], "cross": [".decoder"], "crossed": [".decoder", ".encoder"]}


def grown_of(row, cache):
    """The caches of a result that grow with it, then the encoder's: a list each."""
    return [cache] if row.kind == "step" else [cache.self_attention_cache,
                                               cache.cross_attention_cache]


def find_caches(torch, row, model):
    """Fills in the row's caches and source from a call without a cache."""
    ids = torch.tensor([[5, 6]])
    if row.kind == "step":
        result = model(ids, use_cache=True)
    else:
        longest = getattr(model.config, "max_source_positions", 128)
        row.source = (longest if row.full else 0, model.config.hidden_size)
        result = model(encoder_outputs=(torch.zeros(1, 3, row.source[1]),), decoder_input_ids=ids,
                       use_cache=True)
    grown = grown_of(row, result.past_key_values)
    row.caches = {
        f"past_key_values.{number}{part}.{what}":
            ("batch", each.shape[1], "source" if part == ".encoder" else "past", each.shape[3])
        for number in range(len(grown[0].layers)) for cache, part in zip(grown, PARTS[row.kind])
        for what, each in (("key", cache.layers[number].keys),
                           ("value", cache.layers[number].values))}


def build(torch, transformers, name):
    """The module to export, in evaluation mode, with weights that depend on nothing but the
    name."""
    row = TABLE[name]
    torch.manual_seed(7)
    if row.kind == "vectors":
        model = getattr(torch.nn, row.model)(**row.sizes, batch_first=True)
    else:
        model = getattr(transformers, row.model)(configuration(transformers, row))
    model.eval()
    if row.kind == "decoder":
        model.config.use_cache = False
    if row.kind in STEPS:
        with torch.no_grad():
            find_caches(torch, row, model)
    inner = getattr(model, row.part) if row.part else model

    class Exported(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.m = inner

        def forward(self, *values):
            if row.kind == "vectors":
                output, last = self.m(*values)
                return (output, *last) if row.model == "LSTM" else (output, last)
            inputs = dict(zip(dims_of(row), values))
            if row.kind in STEPS:
                result = called(transformers, row, self.m, inputs)
                layers = grown_of(row, result.past_key_values)[0].layers
                return result.logits, *(each for layer in layers
                                        for each in (layer.keys, layer.values))
            if row.kind == "decoder":
                inputs["use_cache"] = False
            result = self.m(**inputs)
            return getattr(result, row.output) if row.output else result[0]

    return row, Exported().eval()
