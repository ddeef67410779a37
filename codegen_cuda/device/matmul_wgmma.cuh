// A ring of tiles in shared memory between the producer, one thread that starts copies, and the
// consumers, warpgroups that multiply. Stage s has a barrier that is full when its bytes have
// arrived, and one that is empty when every consumer warp has read it, in all blocks of a cluster
// that bring tiles to each other. Where two consumers multiply in turn (pingpong), each has a
// barrier that says when the other has begun the last multiplication of its tile. Where blocks of a
// cluster split a tile's depth, a barrier says when all of them have read this one's sums.

template <class Tile>
struct Ring {
  unsigned memory;  // stages, then the full barriers, the empty ones, those of turns or of sums

  __device__ __forceinline__ unsigned stage(int step) const {
    return memory + (unsigned)(step % Tile::stages) * Tile::stage_bytes;
  }
  __device__ __forceinline__ unsigned full(int step) const {
    return memory + Tile::stages * Tile::stage_bytes + (unsigned)(step % Tile::stages) * 8u;
  }
  __device__ __forceinline__ unsigned empty(int step) const {
    return full(step) + Tile::stages * 8u;
  }
  __device__ __forceinline__ unsigned turn(int group) const {
    return memory + Tile::stages * (Tile::stage_bytes + 16u) + (unsigned)group * 8u;
  }
  __device__ __forceinline__ unsigned sums_read() const { return turn(0); }
  // Parity of the phase that the step's stage is in.
  __device__ __forceinline__ static unsigned parity(int step) {
    return (unsigned)(step / Tile::stages) & 1u;
  }

  // By one thread; a barrier of the block must follow.
  __device__ __forceinline__ void initialise() const {
    for (int s = 0; s < Tile::stages; ++s) {
      initialise_barrier(full(s), 1);
      initialise_barrier(empty(s), Tile::reading_warps * Tile::sharing_blocks);
    }
    if constexpr (Tile::in_turn) {
      for (int group = 0; group < 2; ++group) initialise_barrier(turn(group), Tile::reading_warps);
    }
    if constexpr (Tile::split > 1)
      initialise_barrier(sums_read(), Tile::reading_warps * Tile::split);
    publish_barriers();
  }
  // By one elected lane of a warp that has read the step's stage: every block that copies into it
  // is told.
  __device__ __forceinline__ void release(int step, bool elected) const {
    if constexpr (Tile::sharing_blocks == 1) arrive(empty(step), elected);
    else {
#pragma unroll
      for (int rank = 0; rank < Tile::sharing_blocks; ++rank) arrive_at(empty(step), rank, elected);
    }
  }
  // Before the warpgroup's tile number `round`; the first one's first turn is free. Without turns a
  // warpgroup could take a stage's earlier phase, which has the same parity, for its own.
  __device__ __forceinline__ void begin_turn(int group, int round, KernelError* error) const {
    wait_for<Tile::checked>(turn(group), (unsigned)(round + (group == 0)) & 1u, error,
                            2 * Tile::stages + group, round);
  }
  // By one elected lane of each warp, as one that were slower to begin its turn than another to
  // begin its next would miss it.
  __device__ __forceinline__ void end_turn(int group, bool elected) const {
    arrive(turn(1 - group), elected);
  }
  // By those that have added the sums of all blocks: ends when all others have read this block's.
  // A second meeting of the cluster would wait for the results to reach the second-level cache.
  __device__ __forceinline__ void end_reading_sums(KernelError* error) const {
    __syncwarp();
#pragma unroll
    for (int rank = 0; rank < Tile::split; ++rank)
      arrive_at(sums_read(), rank, threadIdx.x % 32 == 0);
    wait_for<Tile::checked>(sums_read(), 0, error, 2 * Tile::stages, 0);
  }
  // Announces a whole stage of bytes, of a stage that may be overwritten.
  __device__ __forceinline__ void begin_free_stage(int step) const {
    arrive_expecting(full(step), Tile::stage_bytes);
  }
  // The same of any stage: waits until it may be overwritten.
  __device__ __forceinline__ void begin_stage(int step, KernelError* error) const {
    if (step >= Tile::stages)
      wait_for<Tile::checked>(empty(step), parity(step) ^ 1u, error,
                              Tile::stages + step % Tile::stages, step);
    begin_free_stage(step);
  }
};

// The descriptor of an operand's tile. With rows of the product "by rows", 64 of them lie side by
// side for each of 64 depths, then the next 64.
template <bool by_rows>
__device__ __forceinline__ unsigned long long operand_descriptor(unsigned address) {
  constexpr unsigned long long chunk_bytes = 64 * 128;
  return tile_descriptor(address) | (by_rows ? chunk_bytes / 16 << 16 : 0ull);
}

// sums = left right over `tiles` tiles of depth, at least one, from step `step` of the ring on. It
// is called by consumer warpgroup `group`, which has 64 rows of the tile, or tiles of its own.
template <class Tile>
__device__ __forceinline__ void multiply_ring(float (&sums)[1][Tile::columns / 8][4],
                                              const Ring<Tile>& ring, int group, int step,
                                              int tiles, KernelError* error) {
  const unsigned rows = Tile::in_turn ? 0u : (unsigned)group * (64u * Tile::depth * 2u);
  const bool elected = threadIdx.x % 32 == 0;
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile, ++step) {
    wait_for<Tile::checked>(ring.full(step), ring.parity(step), error, step % Tile::stages, step);
    const unsigned long long left = operand_descriptor<Tile::left_by_rows>(ring.stage(step) + rows);
    const unsigned long long right =
        operand_descriptor<Tile::right_by_rows>(ring.stage(step) + Tile::left_bytes);
    pin(sums[0]);
    begin_multiplications();
#pragma unroll
    for (int part = 0; part < Tile::depth / 16; ++part) {
      constexpr int left_step = Tile::left_by_rows ? 2048 : 32,
                    right_step = Tile::right_by_rows ? 2048 : 32;  // bytes of 16 of depth
      Tile::multiply(sums[0], left + part * (left_step / 16), right + part * (right_step / 16),
                     tile + part > 0);
    }
    commit_multiplications();
    // While this tile is multiplied the one before is done with.
    wait_multiplications<1>();
    pin(sums[0]);
    ring.release(step - 1, tile > 0 && elected);
  }
  if constexpr (Tile::in_turn) ring.end_turn(group, elected);
  wait_multiplications<0>();
  pin(sums[0]);
  if (Tile::persistent) ring.release(step - 1, elected);  // else nothing is copied there any more
}

// A warp's results, 16 rows x `columns` elements in shared memory, to row `row` and column `column`
// of all `rows` x `all_columns`: as one box where all 16 rows are there, else row by row, so that
// nothing behind the last row is written (a map describes the rows of a capacity).
template <int columns, typename Element>
__device__ __forceinline__ void store_results(const TensorMap& map, const Element* box,
                                              Element* results, long long row, long long column,
                                              long long rows, long long all_columns) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  publish_shared();
  __syncwarp();
  if (column >= all_columns) return;
  if (row + 16 <= rows) {
    if (lane == 0) {
      store_box(map, (unsigned)__cvta_generic_to_shared(box), (int)column, (int)row);
      commit_boxes();
    }
    return;
  }
  constexpr int together = 16 / sizeof(Element),
                across = columns / together;  // elements of 16 bytes
#pragma unroll 1
  for (int chunk = lane; chunk < 16 * across; chunk += 32) {
    const int down = chunk / across, right = chunk % across * together;
    if (row + down >= rows || column + right >= all_columns) continue;
    *reinterpret_cast<uint4*>(results + (row + down) * all_columns + column + right) =
        *reinterpret_cast<const uint4*>(box + down * columns + right);
  }
}
