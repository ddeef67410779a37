// Attention on mma.sync: 16 query rows a fragment, blocks of keys and values passing through shared
// memory, online softmax in registers. `A` (struct Attention of the kernel) holds the schedule and
// the numbers of the form.

template <class A>
struct AttentionMma {
  static constexpr int warp_rows = 16 * A::tiles;  // queries of a warp
  // queries of a batch point that a block computes
  static constexpr int block_rows = warp_rows * A::warps;
  static constexpr int point_threads = 32 * A::warps;
  static constexpr bool has_column = A::score == ScoreForm::column;
  // A row of keys or values is followed by 16 spare bytes: an odd number of 16-byte chunks a row
  // keeps ldmatrix free of bank conflicts.
  static constexpr int key_pitch = A::depth * 2 + 16;  // bytes
  static constexpr int value_pitch = A::width * 2 + 16;
  static constexpr int key_bytes = A::keys * key_pitch;
  static constexpr int stage_bytes = key_bytes + A::keys * value_pitch;
  static constexpr int column_bytes = has_column ? A::keys * 4 : 0;
  static constexpr int point_bytes = A::stages * (stage_bytes + column_bytes);

  // Threads of one batch point wait for each other. Batch points that share a block have equal
  // numbers of keys wherever they share a barrier.
  static __device__ __forceinline__ void barrier() {
    if constexpr (A::warps == 1) __syncwarp();
    else __syncthreads();
  }

  // Whether a thread copies as many chunks of a tile as the others.
  static constexpr bool equal_copies =
      A::keys * A::depth / 8 % point_threads == 0 && A::keys * A::width / 8 % point_threads == 0;

  // Starts the copy of rows [first, first + keys) to shared memory; rows from `end` on, which an
  // edge may have, become zeros and are not read.
  template <class Tile, int columns, int pitch>
  static __device__ __forceinline__ void copy_rows(unsigned to, const OperandRows& rows, int first,
                                                   int end) {
    constexpr int chunks = columns / 8, total = A::keys * chunks;
    const int thread = threadIdx.x % point_threads;
#pragma unroll
    for (int i = 0; i < total; i += point_threads) {
      const int item = i + thread;
      if (total % point_threads != 0 && item >= total) break;
      const int row = item / chunks, chunk = item % chunks;
      const bool inside = !Tile::edge || first + row < end;
      copy_async(to + row * pitch + chunk * 16,
                 rows.first + (inside ? first + row : first) * rows.stride + chunk * 8,
                 inside ? 16 : 0);
    }
  }

  // Fragments of 16 queries from first_row on, straight from memory; rows from `rows` on are zeros.
  static __device__ __forceinline__ void load_queries(unsigned (&fragments)[A::depth / 16][4],
                                                      const OperandRows& query, int first_row,
                                                      int rows) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + lane / 4 + 8 * half;
      const bool inside = row < rows;
      const unsigned short* from = query.first + (inside ? row : 0) * query.stride + 2 * (lane % 4);
#pragma unroll
      for (int step = 0; step < A::depth / 16; ++step) {
        fragments[step][half] = inside ? *reinterpret_cast<const unsigned*>(from + 16 * step) : 0;
        fragments[step][half + 2] =
            inside ? *reinterpret_cast<const unsigned*>(from + 16 * step + 8) : 0;
      }
    }
  }

  // The block's rows of its batch points. `keys`: how many there are, whoever sees them.
  // added(key): what the score adds for a key; score_value(row, key, product); write_element(row,
  // column, value).
  template <class Added, class ScoreValue, class WriteElement>
  static __device__ __forceinline__ void run(const BlockPlace& place, const OperandRows& query,
                                             const OperandRows& key, const OperandRows& value,
                                             const OutputRows& output, int rows, int keys,
                                             const KeyTiles<A::keys>& tiles, const Added& added,
                                             const ScoreValue& score_value,
                                             const WriteElement& write_element) {
    extern __shared__ __align__(128) unsigned char shared_memory[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int slot = warp / A::warps, first_row = place.first_row + warp % A::warps * warp_rows;
    const unsigned shared =
        static_cast<unsigned>(__cvta_generic_to_shared(shared_memory)) + slot * point_bytes;
    float* const columns =
        reinterpret_cast<float*>(shared_memory + slot * point_bytes + A::stages * stage_bytes);

    // Two groups of copies a tile, also where there is no such tile: waiting counts groups.
    const auto copy_tile = [&](auto kind, int step) {
      const unsigned to = shared + step % A::stages * stage_bytes;
      const int first = tiles.key_of(step);
      if (step < tiles.count)
        copy_rows<decltype(kind), A::depth, key_pitch>(to, key, first, tiles.end_key);
      commit_copies();
      if (step < tiles.count) {
        copy_rows<decltype(kind), A::width, value_pitch>(to + key_bytes, value, first,
                                                         tiles.end_key);
        if constexpr (has_column) {
          for (int i = threadIdx.x % point_threads; i < A::keys; i += point_threads)
            columns[step % A::stages * A::keys + i] = column_value(added, first + i, tiles.end_key);
        }
      }
      commit_copies();
    };
#pragma unroll
    for (int step = 0; step < A::stages - 1; ++step) copy_tile(EdgeTile(), step);

    unsigned queries[A::tiles][A::depth / 16][4];
    float outputs[A::tiles][A::width / 8][4] = {};
    RowState states[A::tiles][2];
#pragma unroll
    for (int part = 0; part < A::tiles; ++part)
      load_queries(queries[part], query, first_row + 16 * part, rows);

    // Where this lane's row of an 8 x 8 matrix lies in a tile, for ldmatrix of four of them.
    const unsigned key_lane = (lane % 8 + lane / 16 * 8) * key_pitch + lane / 8 % 2 * 16;
    const unsigned value_lane = lane % 16 * value_pitch + lane / 16 * 16;

    const auto pass = [&](auto kind, int number) {
      constexpr int there = decltype(kind)::looked_at(A::keys);
      if constexpr (A::stages == 1) {
        if (number > 0) barrier();  // everybody has read the tile before
        copy_tile(kind, number);
        wait_copies<1>();
        barrier();
      } else {
        wait_copies<2 * A::stages - 3>();
        barrier();  // the tile's keys are there for everybody, and everybody has read the tile
                    // before
        // Only the first tile to pass may have more rows than there are keys.
        copy_tile(WholeTile(), number + A::stages - 1);
        if constexpr (has_column || !equal_copies) __syncwarp();  // copying has parted the lanes
      }
      const unsigned key_tile = shared + number % A::stages * stage_bytes,
                     value_tile = key_tile + key_bytes;

      float scores[A::tiles][A::keys / 8][4] = {};
#pragma unroll
      for (int step = 0; step < A::depth / 16; ++step) {
#pragma unroll
        for (int n = 0; n < there / 8; n += 2) {
          unsigned fragment[4];
          load_matrices<false>(fragment, key_tile + key_lane + n * 8 * key_pitch + step * 32);
#pragma unroll
          for (int part = 0; part < A::tiles; ++part) {
            multiply<A::brain>(scores[part][n], queries[part][step], fragment[0], fragment[1]);
            multiply<A::brain>(scores[part][n + 1], queries[part][step], fragment[2], fragment[3]);
          }
        }
      }

      unsigned weights[A::tiles][A::keys / 16][4];
#pragma unroll
      for (int part = 0; part < A::tiles; ++part) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = first_row + 16 * part + lane / 4 + 8 * half,
                    present = row < rows ? row : rows - 1;
          const float shrink = weigh<A, decltype(kind)>(
              scores[part], half, states[part][half], columns + number % A::stages * A::keys,
              tiles.key_of(number), tiles.end_key,
              [&](int at, float product) { return score_value(present, at, product); });
#pragma unroll
          for (int n = 0; n < A::keys / 8; ++n)
            weights[part][n / 2][n % 2 * 2 + half] =
                pack<A::brain>(scores[part][n][2 * half], scores[part][n][2 * half + 1]);
#pragma unroll
          for (int n = 0; n < A::width / 8; ++n) {
            outputs[part][n][2 * half] *= shrink;
            outputs[part][n][2 * half + 1] *= shrink;
          }
        }
      }

      wait_copies<2 * (A::stages - 1)>();
      barrier();  // the tile's values are there for everybody
#pragma unroll
      for (int step = 0; step < there / 16; ++step) {
#pragma unroll
        for (int n = 0; n < A::width / 8; n += 2) {
          unsigned fragment[4];
          load_matrices<true>(fragment, value_tile + value_lane + step * 16 * value_pitch + n * 16);
#pragma unroll
          for (int part = 0; part < A::tiles; ++part) {
            multiply<A::brain>(outputs[part][n], weights[part][step], fragment[0], fragment[1]);
            multiply<A::brain>(outputs[part][n + 1], weights[part][step], fragment[2], fragment[3]);
          }
        }
      }
    };
    int number = 0;
    if (tiles.first_is_short()) pass(ShortEdgeTile(), number++);
#pragma unroll 1
    for (; number < tiles.edges; ++number) pass(EdgeTile(), number);
#pragma unroll 1
    for (; number < tiles.count; ++number) pass(WholeTile(), number);

#pragma unroll
    for (int part = 0; part < A::tiles; ++part) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float inverse = inverse_sum(states[part][half], keys);
#pragma unroll
        for (int n = 0; n < A::width / 8; ++n) {
          outputs[part][n][2 * half] *= inverse;
          outputs[part][n][2 * half + 1] *= inverse;
        }
      }
      write_rows<A>(output, outputs[part], place.live ? first_row + 16 * part : rows, rows,
                    write_element);
    }
  }
};
