// What the attention kernels share: scores, running sums of rows, and how finished rows leave the
// registers of tensor cores.

// How a product becomes a score. Masked: only for keys that the row sees. Column: something is
// added for each key. Element: something is added for each query and key. Plain: computed.
enum class ScoreForm { scaled, masked, column, element, plain };
// Narrow: rows of f16 or bf16. Wide: rows of f32. Program: element by element.
enum class OutputForm { narrow, wide, program };

// Rows of an operand: row r begins at first + r * stride (elements).
struct OperandRows {
  const unsigned short* first;
  long long stride;
};
struct OutputRows {
  void* first;
  long long stride;
};

__device__ __forceinline__ float negative_infinity() { return __uint_as_float(0xff800000u); }
constexpr float log2_e = 1.4426950408889634f;

__device__ __forceinline__ float exp2_fast(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// What is added to a score, in units that exp2 takes. A finite mask stays finite: a row that is
// masked from end to end has equal weights.
__device__ __forceinline__ float exponent_units(float added) {
  constexpr float lowest = -3.4028234663852886e38f;
  const float scaled = added * log2_e;
  return scaled == negative_infinity() && added >= lowest ? lowest : scaled;
}

// What is added for `key`, which may lie behind the last that is seen: weigh() leaves those out.
template <class Added>
__device__ __forceinline__ float column_value(const Added& added, int key, int end_key) {
  return exponent_units(added(min(key, end_key - 1)));
}

// Whether keys of a tile may be hidden from rows (KeyTiles). A short edge has none behind its first
// half, which is all that is looked at; any other has those of its first half.
template <bool is_edge, bool is_short>
struct TileKind {
  static constexpr bool edge = is_edge;
  static constexpr int looked_at(int keys) { return is_short ? half_tile(keys) : keys; }
  static constexpr int present(int keys) {
    return !is_edge ? keys : is_short ? 0 : half_tile(keys);
  }
};
using ShortEdgeTile = TileKind<true, true>;
using EdgeTile = TileKind<true, false>;
using WholeTile = TileKind<false, false>;

// Over the four lanes that hold one row of a fragment.
__device__ __forceinline__ float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}
__device__ __forceinline__ float quad_sum(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

// Four neighbouring lanes hold a pair of columns of each of four tiles; afterwards each lane holds
// all four pairs of one tile.
__device__ __forceinline__ void transpose_quad(unsigned (&words)[4]) {
  const bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
#pragma unroll
  for (int pair = 0; pair < 4; pair += 2) {
    const unsigned received = __shfl_xor_sync(0xffffffffu, odd ? words[pair] : words[pair + 1], 1);
    if (odd) words[pair] = received;
    else words[pair + 1] = received;
  }
#pragma unroll
  for (int pair = 0; pair < 2; ++pair) {
    const unsigned received =
        __shfl_xor_sync(0xffffffffu, upper ? words[pair] : words[pair + 2], 2);
    if (upper) words[pair] = received;
    else words[pair + 2] = received;
  }
}

// A row's running maximum (of scores as the exponential takes them) and this lane's part of its sum
// of weights.
struct RowState {
  float maximum = negative_infinity(), sum = 0;
};

// Turns the scores of one half of a fragment (rows lane / 4, or lane / 4 + 8) into weights, over
// fragments of 8 keys each. Returns the factor by which earlier sums of the row shrink. columns[c]:
// what is added for key c of the tile (ScoreForm::column). score_value(key, product): see
// ScoreForm; of ScoreForm::masked below 0 where the row does not see the key. Keys from end_key on
// weigh nothing; a whole tile has none.
template <class A, class Tile, int fragments, class ScoreValue>
__device__ __forceinline__ float weigh(float (&scores)[fragments][4], int half, RowState& state,
                                       const float* columns, int tile_key, int end_key,
                                       const ScoreValue& score_value) {
  constexpr int there = Tile::looked_at(8 * fragments) / 8;
  const int lane_column = 2 * (static_cast<int>(threadIdx.x) % 4);
  float maximum = state.maximum;
#pragma unroll
  for (int n = 0; n < there; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float& score = scores[n][2 * half + i];
      const int column = 8 * n + lane_column + i, key = tile_key + column;
      const bool inside =
          8 * n < Tile::present(8 * fragments) || A::none_behind_row || key < end_key;
      const int present = inside ? key : end_key - 1;
      if constexpr (A::score == ScoreForm::column) score = fmaf(score, A::scale, columns[column]);
      if constexpr (A::score == ScoreForm::element)
        score = fmaf(score, A::scale, exponent_units(score_value(present, score)));
      if constexpr (A::score == ScoreForm::plain) score = score_value(present, score);
      if constexpr (A::score == ScoreForm::masked && Tile::edge) {
        if (score_value(key, score) < 0) score = negative_infinity();
      }
      if (!inside) score = negative_infinity();
      maximum = fmaxf(maximum, score);
    }
  }
  maximum = quad_max(maximum);
  // While every score is -infinity nothing may be subtracted from it: the weights are
  // exp(-infinity) = 0.
  const float base = maximum == negative_infinity() ? 0 : maximum;
  // Scores are compared as products where nothing is added to them.
  constexpr bool product = A::score == ScoreForm::scaled || A::score == ScoreForm::masked;
  constexpr float factor = product ? A::scale : A::score == ScoreForm::plain ? log2_e : 1.0f;
  const float shrink = exp2_fast((state.maximum - base) * factor);
  float sum = 0;
#pragma unroll
  for (int n = 0; n < there; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float& score = scores[n][2 * half + i];
      if constexpr (product) score = exp2_fast(fmaf(score, factor, -base * factor));
      else score = exp2_fast((score - base) * factor);
      sum += score;
    }
  }
#pragma unroll
  for (int n = there; n < fragments; ++n) scores[n][2 * half] = scores[n][2 * half + 1] = 0;
  state.maximum = maximum;
  state.sum = fmaf(state.sum, shrink, sum);
  return shrink;
}

// 1 / the row's sum. Without keys the output is an empty sum; with keys that are all -infinity it
// is 0 / 0, as softmax gives.
__device__ __forceinline__ float inverse_sum(const RowState& state, int keys) {
  return keys == 0 ? 1.0f : 1.0f / quad_sum(state.sum);
}

// Writes 16 finished rows from first_row on, those below `rows`. A lane holds columns 8 tile + 2
// (lane % 4) and the next of rows lane / 4 (elements 0, 1) and lane / 4 + 8. write_element(row,
// column, value) is called for OutputForm::program.
template <class A, class WriteElement>
__device__ __forceinline__ void write_rows(const OutputRows& to,
                                           const float (&outputs)[A::width / 8][4], int first_row,
                                           int rows, const WriteElement& write_element) {
  const int lane = threadIdx.x % 32, pair = 2 * (lane % 4);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + lane / 4 + 8 * half;
    const bool inside = row < rows;
    if constexpr (A::output == OutputForm::narrow) {
      constexpr int whole = A::width / 32 * 4;
      unsigned short* const place =
          static_cast<unsigned short*>(to.first) + (inside ? row : 0) * to.stride;
#pragma unroll
      for (int tile = 0; tile < whole; tile += 4) {
        unsigned words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
          words[i] =
              pack<A::output_brain>(outputs[tile + i][2 * half], outputs[tile + i][2 * half + 1]);
        transpose_quad(words);
        if (inside)
          *reinterpret_cast<uint4*>(place + 8 * (tile + lane % 4)) = {words[0], words[1], words[2],
                                                                      words[3]};
      }
#pragma unroll
      for (int tile = whole; tile < A::width / 8; ++tile) {
        const unsigned word =
            pack<A::output_brain>(outputs[tile][2 * half], outputs[tile][2 * half + 1]);
        if (inside) *reinterpret_cast<unsigned*>(place + 8 * tile + pair) = word;
      }
    } else if (inside) {
#pragma unroll
      for (int tile = 0; tile < A::width / 8; ++tile) {
        const float first = outputs[tile][2 * half], second = outputs[tile][2 * half + 1];
        if constexpr (A::output == OutputForm::wide) {
          *reinterpret_cast<float2*>(static_cast<float*>(to.first) + row * to.stride + 8 * tile +
                                     pair) = {first, second};
        } else {
          write_element(row, 8 * tile + pair, first);
          write_element(row, 8 * tile + pair + 1, second);
        }
      }
    }
  }
}
