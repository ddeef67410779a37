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
    config: str  # a class of transformers
    model: str  # a class of transformers
    kind: str = "text"  # text, decoder, image, features (batch, 80, time), wave (batch, samples)
    sizes: dict = dataclasses.field(default_factory=dict)
    part: str = ""  # attribute of the model that is exported; empty: the model
    output: str = ""  # field of the result; empty: the first
    full: bool = False  # of full size: what its configuration's class takes where nothing is said


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
}

# Of full size, for times: made where they are named, since each takes a hundred megabytes or more.
FULL = {
    "bert_base": Row("BertConfig", "BertModel", output="last_hidden_state"),
    "modernbert_base": Row("ModernBertConfig", "ModernBertModel"),
    "gpt2_small": Row("GPT2Config", "GPT2LMHeadModel", "decoder"),
    "resnet50": Row("ResNetConfig", "ResNetForImageClassification", "image"),
    "convnext_tiny": Row("ConvNextConfig", "ConvNextForImageClassification", "image"),
    "vit_base": Row("ViTConfig", "ViTModel", "image", output="last_hidden_state"),
    "whisper_base_encoder": Row("WhisperConfig", "WhisperModel", "features", part="encoder", sizes={
        "d_model": 512, "encoder_layers": 6, "encoder_attention_heads": 8, "encoder_ffn_dim": 2048,
        "decoder_layers": 1, "decoder_attention_heads": 8}),
    "wav2vec2_base": Row("Wav2Vec2Config", "Wav2Vec2Model", "wave"),
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


def example(torch, row, batch, length):
    """Inputs of a call: name to tensor; the last third of every second text is hidden. Images and
    spectrograms have one size, waves of full size are of three seconds."""
    generator = torch.Generator().manual_seed(batch * 1000 + length)
    if row.kind in ("text", "decoder"):
        ids = torch.randint(5, VOCABULARY, (batch, length), generator=generator)
        mask = torch.ones(batch, length, dtype=torch.int64)
        mask[1::2, length - length // 3:] = 0
        return {"input_ids": torch.where(mask == 1, ids, 1), "attention_mask": mask}
    side, frames, samples = (224, 3000, 48000) if row.full else (32, 100, 200 + 10 * length)
    shape = {"image": (batch, 3, side, side), "features": (batch, 80, frames),
             "wave": (batch, samples)}[row.kind]
    name = {"image": "pixel_values", "features": "input_features", "wave": "input_values"}[row.kind]
    return {name: torch.randn(shape, generator=generator)}


def dims_of(row):
    """Names of the dims that only a run tells: input to {axis: name}."""
    if row.kind in ("text", "decoder"):
        both = {0: "batch", 1: "seq"}
        return {"input_ids": both, "attention_mask": both}
    return {"image": {"pixel_values": {0: "batch"}},
            "features": {"input_features": {0: "batch"}},
            "wave": {"input_values": {0: "batch", 1: "samples"}}}[row.kind]


def build(torch, transformers, name):
    """The module to export, in evaluation mode, with weights that depend on nothing but the
    name."""
    row = TABLE[name]
    torch.manual_seed(7)
    model = getattr(transformers, row.model)(configuration(transformers, row))
    if row.kind == "decoder":
        model.config.use_cache = False
    model.eval()
    inner = getattr(model, row.part) if row.part else model

    class Exported(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.m = inner

        def forward(self, first, mask=None):
            names = list(dims_of(row))
            inputs = {names[0]: first}
            if mask is not None:
                inputs["attention_mask"] = mask
            if row.kind == "decoder":
                inputs["use_cache"] = False
            result = self.m(**inputs)
            return getattr(result, row.output) if row.output else result[0]

    return row, Exported().eval()
