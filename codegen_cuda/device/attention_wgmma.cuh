// Attention on wgmma (sm_90a): one warpgroup fetches queries, keys and values by tensor memory
// access, the others compute 64 queries each. While the scores of a tile are turned into weights
// the values of the tile before are summed. In turn, the others begin their multiplications one
// after the other, so that one's weights are made while another's tile is multiplied.
// `A` (struct Attention of the kernel) holds the schedule, the numbers of the form and the two
// multiplications.

// Rows of 16-bit elements in shared memory as tensor memory access lays them: sub-tiles of at most
// 64 columns, swizzled over the bytes of a row.
template <int columns, int rows>
struct SwizzledTile {
  static constexpr int part_columns = columns < 64 ? columns : 64, parts = columns / part_columns;
  static constexpr int row_bytes = part_columns * 2;  // 128 or 64: also what is swizzled over
  static constexpr int part_bytes = rows * row_bytes, bytes = parts * part_bytes;
  static constexpr int group_bytes = 8 * row_bytes;  // eight rows: one period of the swizzle
  static constexpr int part_steps = part_columns / 16;

  static __device__ __forceinline__ unsigned long long descriptor(unsigned address,
                                                                  unsigned leading_bytes) {
    constexpr unsigned long long swizzle = row_bytes == 128 ? 1 : 2;
    return static_cast<unsigned long long>((address & 0x3ffffu) >> 4) |
           static_cast<unsigned long long>(leading_bytes >> 4) << 16 |
           static_cast<unsigned long long>(group_bytes >> 4) << 32 | swizzle << 62;
  }
  // An operand whose depth runs along the rows (queries, keys): 16 columns from 16 `step` on.
  static __device__ __forceinline__ unsigned long long along_rows(unsigned tile, int step) {
    return descriptor(tile + step / part_steps * part_bytes + step % part_steps * 32, 0);
  }
  // An operand whose depth runs down the rows (values): 16 rows from 16 `step` on.
  static __device__ __forceinline__ unsigned long long down_rows(unsigned tile, int step) {
    return descriptor(tile + step * 2 * group_bytes, parts > 1 ? part_bytes : 0);
  }
  static __device__ __forceinline__ void fetch(unsigned tile, const TensorMap& map,
                                               unsigned barrier, int column, int row) {
#pragma unroll
    for (int part = 0; part < parts; ++part)
      load_box(tile + part * part_bytes, map, barrier, column + part * part_columns, row);
  }
};

// Where row 0 of a batch point's operand lies in its tensor map.
struct MapPlace {
  int column, row;
};

// As pin() of sums, for a fragment that a multiplication still reads.
template <int count>
__device__ __forceinline__ void pin(unsigned (&fragments)[count][4]) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) asm volatile("" : "+r"(fragments[i][j])::"memory");
  }
}

template <class A>
struct AttentionWgmma {
  static constexpr int group_threads = 128, group_rows = 64;  // of a computing warpgroup
  static constexpr int block_rows = A::groups * group_rows;
  static constexpr bool has_column = A::score == ScoreForm::column;
  using QueryTile = SwizzledTile<A::depth, group_rows>;
  using KeyTile = SwizzledTile<A::depth, A::keys>;
  using ValueTile = SwizzledTile<A::width, A::keys>;

  // Shared memory: queries of each warpgroup, stages of keys, stages of values, two rows of what
  // scores add for a key for each warpgroup, barriers.
  static constexpr int key_offset = A::groups * QueryTile::bytes;
  static constexpr int value_offset = key_offset + A::stages * KeyTile::bytes;
  static constexpr int column_offset = value_offset + A::stages * ValueTile::bytes;
  static constexpr int barrier_offset =
      column_offset + (has_column ? A::groups * 2 * A::keys * 4 : 0);
  // Barriers: queries are there; then for each stage: keys are there, keys have been read, values
  // are there, values have been read.
  static constexpr int queries_there = 0, keys_there = 1, keys_read = keys_there + A::stages,
                       values_there = keys_read + A::stages, values_read = values_there + A::stages,
                       barriers = values_read + A::stages;
  static constexpr int shared_bytes = barrier_offset + 8 * barriers;

  unsigned shared;
  KernelError* error;
  BlockPlace place;
  int rows, keys;
  KeyTiles<A::keys> tiles;

  __device__ __forceinline__ unsigned barrier(int number) const {
    return shared + barrier_offset + 8 * number;
  }
  __device__ __forceinline__ void wait(int number, unsigned parity, int step) const {
    wait_for<A::checked>(barrier(number), parity, error, number, step);
  }
  // Parity of the phase that the stage is in of the tile that passes as number `step`.
  static __device__ __forceinline__ unsigned parity(int step) {
    return static_cast<unsigned>(step / A::stages) & 1u;
  }

  __device__ __forceinline__ void initialise() const {
    initialise_barrier(barrier(queries_there), 1);
#pragma unroll
    for (int stage = 0; stage < A::stages; ++stage) {
      initialise_barrier(barrier(keys_there + stage), 1);
      initialise_barrier(barrier(values_there + stage), 1);
      initialise_barrier(barrier(keys_read + stage), A::groups * 4);  // every computing warp
      initialise_barrier(barrier(values_read + stage), A::groups * 4);
    }
    publish_barriers();
  }

  __device__ __forceinline__ void fetch_all(const TensorMap& query_map, const TensorMap& key_map,
                                            const TensorMap& value_map, MapPlace query,
                                            MapPlace key, MapPlace value) const {
    arrive_expecting(barrier(queries_there), A::groups * QueryTile::bytes);
#pragma unroll
    for (int group = 0; group < A::groups; ++group)
      QueryTile::fetch(shared + group * QueryTile::bytes, query_map, barrier(queries_there),
                       query.column, query.row + place.first_row + group * group_rows);
    const auto fetch_keys = [&](int step) {
      const int stage = step % A::stages;
      arrive_expecting(barrier(keys_there + stage), KeyTile::bytes);
      KeyTile::fetch(shared + key_offset + stage * KeyTile::bytes, key_map,
                     barrier(keys_there + stage), key.column, key.row + tiles.key_of(step));
    };
    // In the order in which they are needed: a tile's scores begin before the values of the tile
    // before are summed.
    fetch_keys(0);
#pragma unroll 1
    for (int step = 0; step < tiles.count; ++step) {
      if (step + 1 < tiles.count) {
        wait(keys_read + (step + 1) % A::stages, parity(step + 1) ^ 1u, step + 1);
        fetch_keys(step + 1);
      }
      const int stage = step % A::stages;
      wait(values_read + stage, parity(step) ^ 1u, step);
      arrive_expecting(barrier(values_there + stage), ValueTile::bytes);
      ValueTile::fetch(shared + value_offset + stage * ValueTile::bytes, value_map,
                       barrier(values_there + stage), value.column, value.row + tiles.key_of(step));
    }
  }

  // Threads of one computing warpgroup wait for each other; barriers have literal numbers, else all
  // sixteen are reserved.
  static __device__ __forceinline__ void group_barrier(int group) {
    if (A::groups == 1 || group == 0) named_barrier<1>(group_threads);
    else if (A::groups == 2 || group == 1) named_barrier<2>(group_threads);
    else named_barrier<3>(group_threads);
  }

  // A warpgroup that begins its multiplications waits until the one before it has begun its own, of
  // the same turn or, before the first, of the turn before. Turns are one a tile's scores but the
  // first's, and one for the values of the last tile.
  static __device__ __forceinline__ void begin_turn(int group) {
    if constexpr (A::pingpong) {
      if (group == 0) named_barrier<5>(2 * group_threads);
      else if (A::groups == 2 || group == 1) named_barrier<6>(2 * group_threads);
      else named_barrier<7>(2 * group_threads);
    }
  }
  static __device__ __forceinline__ void end_turn(int group) {
    if constexpr (A::pingpong) {
      if (group == A::groups - 1) arrive_at_named_barrier<5>(2 * group_threads);
      else if (A::groups == 2 || group == 0) arrive_at_named_barrier<6>(2 * group_threads);
      else arrive_at_named_barrier<7>(2 * group_threads);
    }
  }

  // Rows of values from `present` on may hold anything, also NaN, which weight 0 does not silence:
  // they become zeros before any warpgroup reads them.
  static __device__ __forceinline__ void clear_values(unsigned char* tile, int present) {
    constexpr int chunks = ValueTile::row_bytes / 16;
#pragma unroll 1
    for (int item = present * chunks + static_cast<int>(threadIdx.x) - group_threads;
         item < A::keys * chunks; item += A::groups * group_threads) {
#pragma unroll
      for (int part = 0; part < ValueTile::parts; ++part)
        *reinterpret_cast<uint4*>(tile + part * ValueTile::part_bytes + item * 16) = {0, 0, 0, 0};
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    named_barrier<4>(A::groups * group_threads);
  }

  template <class Added, class ScoreValue, class WriteElement>
  __device__ __forceinline__ void compute(unsigned char* memory, const OutputRows& output,
                                          const Added& added, const ScoreValue& score_value,
                                          const WriteElement& write_element) const {
    const int group = static_cast<int>(threadIdx.x) / group_threads - 1,
              thread = threadIdx.x % group_threads, lane = threadIdx.x % 32;
    const int warp_row = place.first_row + group * group_rows + thread / 32 * 16;
    float* const columns = reinterpret_cast<float*>(memory + column_offset) + group * 2 * A::keys;
    const unsigned query_tile = shared + group * QueryTile::bytes;
    float scores[A::keys / 8][4], outputs[A::width / 8][4] = {};
    unsigned weights[A::keys / 16][4];
    RowState states[2];
    float shrink[2];

    const auto start_scores = [&](int step) {
      const int stage = step % A::stages;
      wait(keys_there + stage, parity(step), step);
      pin(scores);
      begin_multiplications();
#pragma unroll
      for (int part = 0; part < A::depth / 16; ++part)
        A::multiply_keys(scores, QueryTile::along_rows(query_tile, part),
                         KeyTile::along_rows(shared + key_offset + stage * KeyTile::bytes, part),
                         part > 0);
      commit_multiplications();
    };
    const auto start_values = [&](int step) {
      const int stage = step % A::stages;
      wait(values_there + stage, parity(step), step);
      pin(outputs);
      pin(weights);
      begin_multiplications();
#pragma unroll
      for (int part = 0; part < A::keys / 16; ++part)
        A::multiply_values(
            outputs, weights[part],
            ValueTile::down_rows(shared + value_offset + stage * ValueTile::bytes, part));
      commit_multiplications();
    };
    const auto make_columns = [&](int step) {
      if constexpr (has_column) {
        for (int i = thread; i < A::keys; i += group_threads)
          columns[step % 2 * A::keys + i] =
              column_value(added, tiles.key_of(step) + i, tiles.end_key);
        group_barrier(group);
      }
    };
    const auto weigh_tile = [&](auto kind, int step) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = warp_row + lane / 4 + 8 * half, present = row < rows ? row : rows - 1;
        shrink[half] = weigh<A, decltype(kind)>(
            scores, half, states[half], columns + step % 2 * A::keys, tiles.key_of(step),
            tiles.end_key,
            [&](int key, float product) { return score_value(present, key, product); });
      }
    };
    const auto pack_weights = [&] {
#pragma unroll
      for (int n = 0; n < A::keys / 8; ++n) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
          weights[n / 2][n % 2 * 2 + half] =
              pack<A::brain>(scores[n][2 * half], scores[n][2 * half + 1]);
      }
    };
    const auto release = [&](int number) { arrive(barrier(number), lane == 0); };
    const auto pass = [&](auto kind, int step) {
      begin_turn(group);
      start_scores(step);
      start_values(step - 1);
      end_turn(group);
      make_columns(step);
      wait_multiplications<1>();
      pin(scores);
      release(keys_read + step % A::stages);
      weigh_tile(kind, step);
      wait_multiplications<0>();
      pin(outputs);
      pin(weights);
      release(values_read + (step - 1) % A::stages);
      pack_weights();
#pragma unroll
      for (int n = 0; n < A::width / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) outputs[n][i] *= shrink[i / 2];
      }
    };

    if (tiles.count > 0) {
      wait(queries_there, 0, 0);
      start_scores(0);
      make_columns(0);
      wait_multiplications<0>();
      pin(scores);
      release(keys_read);
      weigh_tile(EdgeTile(), 0);
      pack_weights();
      // The tile that the keys do not fill passes first.
      const int present = tiles.end_key - tiles.key_of(0);
      if (present < A::keys) {
        wait(values_there, 0, 0);
        clear_values(memory + value_offset, present);
      }
      if (group == A::groups - 1) end_turn(group);  // the first turn is the first warpgroup's
      int step = 1;
      if constexpr (A::score == ScoreForm::masked) {
#pragma unroll 1
        for (; step < tiles.edges; ++step) pass(EdgeTile(), step);
      }
#pragma unroll 1
      for (; step < tiles.count; ++step) pass(WholeTile(), step);
      begin_turn(group);
      start_values(tiles.count - 1);
      if (group < A::groups - 1) end_turn(group);  // nobody waits for the last turn's last
      wait_multiplications<0>();
      pin(outputs);
    }
    const float inverse[2] = {inverse_sum(states[0], keys), inverse_sum(states[1], keys)};
#pragma unroll
    for (int n = 0; n < A::width / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) outputs[n][i] *= inverse[i / 2];
    }
    write_rows<A>(output, outputs, warp_row, rows, write_element);
  }

  // The block's rows of its batch point. `keys`: how many there are, whoever sees them. added(key):
  // what the score adds for a key; score_value(row, key, product);
  // write_element(row, column, value).
  template <class Added, class ScoreValue, class WriteElement>
  static __device__ __forceinline__ void run(const BlockPlace& place, const TensorMap& query_map,
                                             const TensorMap& key_map, const TensorMap& value_map,
                                             MapPlace query, MapPlace key, MapPlace value,
                                             const OutputRows& output, int rows, int keys,
                                             const KeyTiles<A::keys>& tiles, KernelError* error,
                                             const Added& added, const ScoreValue& score_value,
                                             const WriteElement& write_element) {
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const AttentionWgmma self{static_cast<unsigned>(__cvta_generic_to_shared(shared_memory)),
                              error,
                              place,
                              rows,
                              keys,
                              tiles};
    if (threadIdx.x == 0) self.initialise();
    __syncthreads();
    if (threadIdx.x < group_threads) {
      give_registers<A::fetching_registers>();
      if (threadIdx.x == 0 && self.tiles.count > 0)
        self.fetch_all(query_map, key_map, value_map, query, key, value);
    } else {
      take_registers<A::computing_registers>();
      self.compute(shared_memory, output, added, score_value, write_element);
    }
  }
};
