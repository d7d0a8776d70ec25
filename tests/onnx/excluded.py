"""Cases of onnx.backend.test that dawdle doesn't pass, with the reason. One that does must leave the list."""
from __future__ import annotations

RANDOM = "the expected values are draws of NumPy's generator, which ONNX doesn't ask for"
NOISE = "the expected value is the rounding error of NumPy's FFT in float32 where the exact one is 0"
HALF = "one element is off by one unit in the last place of float16, which is more than the tolerance"

EXCLUDED: dict[str, str] = {
    "attention_4d_causal_fp16_expanded": HALF,
    "bernoulli": RANDOM,
    "bernoulli_double": RANDOM,
    "bernoulli_double_expanded": RANDOM,
    "bernoulli_expanded": RANDOM,
    "bernoulli_seed": RANDOM,
    "bernoulli_seed_expanded": RANDOM,
    "dft_inverse": NOISE,
    "dft_inverse_opset19": NOISE,
}

# cases of the tenth that is jitted, too, whose models read values that they have computed
READING = frozenset({
    "ai_onnx_ml_tree_ensemble_set_membership", "cast_FLOAT16_to_FLOAT4E2M1", "cast_FLOAT_to_FLOAT4E2M1",
    "castlike_FLOAT16_to_FLOAT8E4M3FNUZ", "castlike_FLOAT16_to_FLOAT8E5M2_expanded", "castlike_FLOAT_to_INT4",
    "castlike_FLOAT_to_INT4_expanded", "castlike_FLOAT_to_UINT4_expanded",
    "nonmaxsuppression_center_point_box_format", "nonmaxsuppression_iou_threshold_boundary",
    "nonmaxsuppression_limit_output_size",
})  # fmt: skip
