// Attention on wgmma (sm_90a): one warpgroup fetches queries, keys and values by tensor memory
// access, the others compute 64 queries each. While the scores of a tile are turned into weights
// the values of the tile before are summed. In turn, the others begin their multiplications one
// after the other, so that one's weights are made while another's tile is multiplied. A persistent
// block works on one place of the grid after the other: queries, keys and values of the next are
// fetched while this one's are computed.
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

  // Places of the grid whose queries lie in shared memory at a time.
  static constexpr int slots = A::persistent ? 2 : 1;

  // Shared memory: for each slot queries of each warpgroup; stages of keys, stages of values, two
  // rows of what scores add for a key for each warpgroup, barriers, each slot's place, places that
  // have been found.
  static constexpr int slot_bytes = A::groups * QueryTile::bytes;
  static constexpr int key_offset = slots * slot_bytes;
  static constexpr int value_offset = key_offset + A::stages * KeyTile::bytes;
  static constexpr int column_offset = value_offset + A::stages * ValueTile::bytes;
  static constexpr int barrier_offset =
      column_offset + (has_column ? A::groups * 2 * A::keys * 4 : 0);
  // Barriers: for each slot, queries are there, and have been read; then for each stage: keys are
  // there, keys have been read, values are there, values have been read.
  static constexpr int queries_there = 0, queries_read = queries_there + slots,
                       keys_there = queries_read + slots, keys_read = keys_there + A::stages,
                       values_there = keys_read + A::stages, values_read = values_there + A::stages,
                       barriers = values_read + A::stages;
  static constexpr int place_offset = barrier_offset + 8 * barriers;
  static constexpr int shared_bytes =
      place_offset + (A::persistent ? (slots + 32) * static_cast<int>(sizeof(BlockPlace)) : 0);

  using Tiles = KeyTiles<A::keys>;

  unsigned shared;
  KernelError* error;

  __device__ __forceinline__ unsigned barrier(int number) const {
    return shared + barrier_offset + 8 * number;
  }
  __device__ __forceinline__ void wait(int number, unsigned parity, int step) const {
    wait_for<A::checked>(barrier(number), parity, error, number, step);
  }
  // Parity of the phase that the stage is in of the tile that passes as number `step` of the
  // block's.
  static __device__ __forceinline__ unsigned parity(int step) {
    return static_cast<unsigned>(step / A::stages) & 1u;
  }
  // The same of the slot of the block's place number `item`.
  static __device__ __forceinline__ unsigned slot_parity(int item) {
    return static_cast<unsigned>(item / slots) & 1u;
  }

  __device__ __forceinline__ void initialise() const {
#pragma unroll
    for (int slot = 0; slot < slots; ++slot) {
      initialise_barrier(barrier(queries_there + slot), 1);
      if constexpr (A::persistent)
        initialise_barrier(barrier(queries_read + slot), A::groups * 4);  // every computing warp
    }
#pragma unroll
    for (int stage = 0; stage < A::stages; ++stage) {
      initialise_barrier(barrier(keys_there + stage), 1);
      initialise_barrier(barrier(values_there + stage), 1);
      initialise_barrier(barrier(keys_read + stage), A::groups * 4);
      initialise_barrier(barrier(values_read + stage), A::groups * 4);
    }
    publish_barriers();
  }

  struct Maps {
    const TensorMap &query, &key, &value;
  };
  // Where a place's operands lie in their maps.
  struct Rows {
    MapPlace query, key, value;
  };

  // Queries, keys and values of the block's place number `item`; its first tile passes as number
  // `first` of all. By one thread.
  __device__ __forceinline__ void fetch_all(const Maps& maps, const BlockPlace& place,
                                            const Tiles& tiles, const Rows& rows, int item,
                                            int first) const {
    const int slot = item % slots;
    if (tiles.count == 0) {
      arrive(barrier(queries_there + slot), true);
      return;
    }
    arrive_expecting(barrier(queries_there + slot), slot_bytes);
#pragma unroll
    for (int group = 0; group < A::groups; ++group)
      QueryTile::fetch(shared + slot * slot_bytes + group * QueryTile::bytes, maps.query,
                       barrier(queries_there + slot), rows.query.column,
                       rows.query.row + place.first_row + group * group_rows);
    const auto fetch_keys = [&](int step) {
      const int passing = first + step, stage = passing % A::stages;
      if (A::persistent || step > 0) wait(keys_read + stage, parity(passing) ^ 1u, passing);
      arrive_expecting(barrier(keys_there + stage), KeyTile::bytes);
      KeyTile::fetch(shared + key_offset + stage * KeyTile::bytes, maps.key,
                     barrier(keys_there + stage), rows.key.column,
                     rows.key.row + tiles.key_of(step));
    };
    // In the order in which they are needed: a tile's scores begin before the values of the tile
    // before are summed.
    fetch_keys(0);
#pragma unroll 1
    for (int step = 0; step < tiles.count; ++step) {
      if (step + 1 < tiles.count) fetch_keys(step + 1);
      const int passing = first + step, stage = passing % A::stages;
      wait(values_read + stage, parity(passing) ^ 1u, passing);
      arrive_expecting(barrier(values_there + stage), ValueTile::bytes);
      ValueTile::fetch(shared + value_offset + stage * ValueTile::bytes, maps.value,
                       barrier(values_there + stage), rows.value.column,
                       rows.value.row + tiles.key_of(step));
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

  // What fetch_all() fetches. `keys`: how many there are, whoever sees them.
  template <class Added, class ScoreValue, class WriteElement>
  __device__ __forceinline__ void compute(unsigned char* memory, const BlockPlace& place, int rows,
                                          int keys, const Tiles& tiles, const OutputRows& output,
                                          const Added& added, const ScoreValue& score_value,
                                          const WriteElement& write_element, int item,
                                          int first) const {
    const int group = static_cast<int>(threadIdx.x) / group_threads - 1,
              thread = threadIdx.x % group_threads, lane = threadIdx.x % 32;
    const int warp_row = place.first_row + group * group_rows + thread / 32 * 16;
    float* const columns = reinterpret_cast<float*>(memory + column_offset) + group * 2 * A::keys;
    const int slot = item % slots;
    const unsigned query_tile = shared + slot * slot_bytes + group * QueryTile::bytes;
    float scores[A::keys / 8][4], outputs[A::width / 8][4] = {};
    unsigned weights[A::keys / 16][4];
    RowState states[2];
    float shrink[2];

    const auto start_scores = [&](int step) {
      const int passing = first + step, stage = passing % A::stages;
      wait(keys_there + stage, parity(passing), passing);
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
      const int passing = first + step, stage = passing % A::stages;
      wait(values_there + stage, parity(passing), passing);
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
          columns[(first + step) % 2 * A::keys + i] =
              column_value(added, tiles.key_of(step) + i, tiles.end_key);
        group_barrier(group);
      }
    };
    const auto weigh_tile = [&](auto kind, int step) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = warp_row + lane / 4 + 8 * half, present = row < rows ? row : rows - 1;
        shrink[half] = weigh<A, decltype(kind)>(
            scores, half, states[half], columns + (first + step) % 2 * A::keys, tiles.key_of(step),
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
      release(keys_read + (first + step) % A::stages);
      weigh_tile(kind, step);
      wait_multiplications<0>();
      pin(outputs);
      pin(weights);
      release(values_read + (first + step - 1) % A::stages);
      pack_weights();
#pragma unroll
      for (int n = 0; n < A::width / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) outputs[n][i] *= shrink[i / 2];
      }
    };

    if (tiles.count > 0) {
      if constexpr (!A::persistent) wait(queries_there, 0, item);
      start_scores(0);
      make_columns(0);
      wait_multiplications<0>();
      pin(scores);
      release(keys_read + first % A::stages);
      if (tiles.edges == 0) weigh_tile(WholeTile(), 0);
      else if (tiles.first_is_short()) weigh_tile(ShortEdgeTile(), 0);
      else weigh_tile(EdgeTile(), 0);
      pack_weights();
      // The tile that the keys do not fill passes first.
      const int present = tiles.end_key - tiles.key_of(0);
      if (present < A::keys) {
        const int stage = first % A::stages;
        wait(values_there + stage, parity(first), first);
        clear_values(memory + value_offset + stage * ValueTile::bytes, present);
      }
      if (group == A::groups - 1) end_turn(group);  // the first turn is the first warpgroup's
      int step = 1;
      if constexpr (A::score == ScoreForm::masked) {
#pragma unroll 1
        for (; step < tiles.edges; ++step) pass(EdgeTile(), step);
      }
#pragma unroll 1
      for (; step < tiles.count; ++step) pass(WholeTile(), step);
      if constexpr (A::persistent) release(queries_read + slot);
      begin_turn(group);
      start_values(tiles.count - 1);
      if (group < A::groups - 1) end_turn(group);  // nobody waits for the last turn's last
      wait_multiplications<0>();
      pin(outputs);
      if constexpr (A::persistent) release(values_read + (first + tiles.count - 1) % A::stages);
    } else if constexpr (A::persistent) {
      release(queries_read + slot);
    }
    const float inverse[2] = {inverse_sum(states[0], keys), inverse_sum(states[1], keys)};
#pragma unroll
    for (int n = 0; n < A::width / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) outputs[n][i] *= inverse[i / 2];
    }
    write_rows<A>(output, outputs, warp_row, rows, write_element);
  }

  // The first warp of the fetching warpgroup finds the block's places, one a lane at a time, since
  // a search takes longer than what there is to compute of a short sequence. Lane after lane
  // fetches, and tells the others of its place in a slot, where a place that is none ends the work.
  template <class Number, class PlaceOf, class AtPlace>
  __device__ __forceinline__ void fetch_places(BlockPlace* told, const Maps& maps, Number numbers,
                                               const PlaceOf& place_of,
                                               const AtPlace& at_place) const {
    const int lane = threadIdx.x;
    BlockPlace* const found = told + slots;  // few registers are left to hold them
    int item = 0, first = 0;
    const auto begin_slot = [&](const BlockPlace& place) {
      wait(queries_read + item % slots, slot_parity(item) ^ 1u, item);
      told[item % slots] = place;
    };
#pragma unroll 1
    for (Number group = blockIdx.x; group < numbers; group += 32 * gridDim.x) {
      found[lane] = place_of(group + lane * gridDim.x);
#pragma unroll 1
      for (unsigned left = __ballot_sync(0xffffffffu, found[lane].any); left != 0;
           left &= left - 1) {
        const int owner = __ffs(static_cast<int>(left)) - 1;
        if (lane == owner) {
          const BlockPlace own = found[lane];
          begin_slot(own);
          at_place(own, [&](const Rows& rows, const OutputRows&, int, int, const Tiles& tiles,
                            const auto&, const auto&, const auto&) {
            fetch_all(maps, own, tiles, rows, item, first);
            first += tiles.count;
          });
        }
        first = __shfl_sync(0xffffffffu, first, owner);
        ++item;
      }
    }
    if (lane == 0) {
      begin_slot({});
      arrive(barrier(queries_there + item % slots), true);
    }
  }

  template <class AtPlace>
  __device__ __forceinline__ void compute_places(unsigned char* memory,
                                                 const AtPlace& at_place) const {
    const BlockPlace* const told = reinterpret_cast<const BlockPlace*>(memory + place_offset);
    int first = 0;
#pragma unroll 1
    for (int item = 0;; ++item) {
      wait(queries_there + item % slots, slot_parity(item), item);
      const BlockPlace place = told[item % slots];
      if (!place.any) return;
      // To store has parted the lanes, of which one will say for all that the place has been read.
      __syncwarp();
      at_place(place,
               [&](const Rows&, const OutputRows& output, int rows, int keys, const Tiles& tiles,
                   const auto& added, const auto& score_value, const auto& write_element) {
                 compute(memory, place, rows, keys, tiles, output, added, score_value,
                         write_element, item, first);
                 first += tiles.count;
               });
    }
  }

  // The block's places of the grid, of which there are `numbers`. place_of(number): one of them; of
  // a persistent block each thread asks for itself. at_place(place, work) calls work(rows of
  // operands, rows of the output, number of its rows, number of keys, tiles, added, score_value,
  // write_element) with what holds there: added(key), what the score adds for a key;
  // score_value(row, key, product); write_element(row, column, value).
  template <class Number, class PlaceOf, class AtPlace>
  static __device__ __forceinline__ void run(Number numbers, const PlaceOf& place_of,
                                             const AtPlace& at_place, const TensorMap& query_map,
                                             const TensorMap& key_map, const TensorMap& value_map,
                                             KernelError* error) {
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const AttentionWgmma self{static_cast<unsigned>(__cvta_generic_to_shared(shared_memory)),
                              error};
    const Maps maps{query_map, key_map, value_map};
    const auto in_roles = [&](const auto& fetch, const auto& compute) {
      if (threadIdx.x == 0) self.initialise();
      __syncthreads();
      if (threadIdx.x < group_threads) {
        give_registers<A::fetching_registers>();
        fetch();
      } else {
        take_registers<A::computing_registers>();
        compute();
      }
    };
    if constexpr (A::persistent) {
      in_roles(
          [&] {
            if (threadIdx.x < 32)
              self.fetch_places(reinterpret_cast<BlockPlace*>(shared_memory + place_offset), maps,
                                numbers, place_of, at_place);
          },
          [&] { self.compute_places(shared_memory, at_place); });
    } else {
      const BlockPlace place = place_of(static_cast<Number>(blockIdx.x));
      if (!place.any) return;
      at_place(place, [&](const Rows& operands, const OutputRows& output, int rows, int keys,
                          const Tiles& tiles, const auto& added, const auto& score_value,
                          const auto& write_element) {
        in_roles(
            [&] {
              if (threadIdx.x == 0 && tiles.count > 0)
                self.fetch_all(maps, place, tiles, operands, 0, 0);
            },
            [&] {
              self.compute(shared_memory, place, rows, keys, tiles, output, added, score_value,
                           write_element, 0, 0);
            });
      });
    }
  }
};
