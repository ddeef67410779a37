"""Text encoders in text form, with weights that a counter-based generator gives the same
everywhere."""


def encoder(layers, hidden, heads, inner, vocabulary, dtype="bf16"):
    """A post-norm encoder over token ids and a mask [b, s] as MiniLM and BERT have it, without
    positions and pooling: what costs time."""
    head = hidden // heads
    lines = []

    def weight(name, *dims):
        lines.append(f"  %{name} = constant({dtype} ({', '.join(map(str, dims))}) @random(1))")
        return f"%{name}"

    def linear(name, x, rows, columns):
        w, b = weight(f"{name}_w", rows, columns), weight(f"{name}_b", columns)
        lines.append(f"  %{name}_p = matmul({x}, {w})")
        lines.append(f"  %{name} = add(%{name}_p, {b})")
        return f"%{name}"

    def norm(name, x):
        # Around 1, so that rows differ and the scores of attention with them.
        lines.append(
            f"  %{name}_scale = add({weight(name + '_near', hidden)}, constant({dtype} () [1]))")
        lines.append(
            f"  %{name} = layer_norm({x}, %{name}_scale, {weight(name + '_shift', hidden)})")
        return f"%{name}"

    lines.append(f"  %split = shape(b, s, {heads}, {head})")
    lines.append(f"  %joined = shape(b, s, {hidden})")
    lines.append("  %shown = cast(%mask) {to = bool}")
    lines.append("  %bias_s = where(%shown, constant(f32 () [0]), constant(f32 () [-inf]))")
    lines.append("  %bias = expand_dims(%bias_s) {axes = (1, 2)}")
    lines.append(f"  %embedded = gather({weight('table', vocabulary, hidden)}, %ids) {{axis = 0}}")
    x = norm("first", "%embedded")
    for i in range(layers):
        parts = []
        for each in "qkv":
            y = linear(f"{each}{i}", x, hidden, hidden)
            lines.append(f"  %{each}{i}_r = dyn.reshape({y}, %split)")
            lines.append(f"  %{each}{i}_t = transpose(%{each}{i}_r) {{perm = (0, 2, 1, 3)}}")
            # Attention computes in f32 whatever its operands are stored in.
            lines.append(f"  %{each}{i}_f = cast(%{each}{i}_t) {{to = f32}}")
            parts.append(f"%{each}{i}_f")
        lines.append(f"  %a{i}_f = attention({', '.join(parts)}, %bias) {{scale = {head ** -0.5}}}")
        lines.append(f"  %a{i} = cast(%a{i}_f) {{to = {dtype}}}")
        lines.append(f"  %a{i}_t = transpose(%a{i}) {{perm = (0, 2, 1, 3)}}")
        lines.append(f"  %a{i}_j = dyn.reshape(%a{i}_t, %joined)")
        lines.append(f"  %r{i} = add({linear(f'o{i}', f'%a{i}_j', hidden, hidden)}, {x})")
        y = norm(f"m{i}", f"%r{i}")
        lines.append(f"  %g{i} = gelu({linear(f'u{i}', y, hidden, inner)})")
        lines.append(f"  %s{i} = add({linear(f'd{i}', f'%g{i}', inner, hidden)}, {y})")
        x = norm(f"n{i}", f"%s{i}")
    return "\n".join([
        "fn @main(%ids: Tensor[(b, s), i64], %mask: Tensor[(b, s), i64])",
        "  where b in [1, 256], s in [1, 512] {", *lines, f"  return {x}", "}", ""])
